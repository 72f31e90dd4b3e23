// io: little-endian numbers in and out of byte strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace everstep {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "formats here are memory images");

// `bytes` holds at least sizeof(T).
template <typename T>
T LoadLittle(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
template <typename T>
void AppendLittle(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline absl::Span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline absl::Span<std::byte> AsWritableBytes(std::string* text) {
  return {reinterpret_cast<std::byte*>(text->data()), text->size()};
}
inline std::string_view AsText(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Base-128 varints, as protobuf and LevelDB write them.
inline void AppendVarint(std::string* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}
// Takes one off the front of `*in`; false when it is cut short or longer than 10 bytes.
inline bool TakeVarint(std::string_view* in, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < in->size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>((*in)[i]);
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      in->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

}  // namespace everstep
