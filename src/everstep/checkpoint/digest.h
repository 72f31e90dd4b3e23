// checkpoint: digests of a state: equal states give equal digests on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"

namespace everstep {

// The one encoding both digests are taken of, fed piece by piece: for each tensor, in the byte
// order of names, uint64 length and bytes of the name, int32 type, uint64 rank, int64 dimensions,
// uint64 number of bytes and the bytes. Little-endian.
class DigestStream {
 public:
  enum Width { k64, k128 };
  explicit DigestStream(Width width);
  ~DigestStream();
  DigestStream(const DigestStream&) = delete;
  DigestStream& operator=(const DigestStream&) = delete;

  // Begins the next tensor; its `num_bytes` bytes follow through Add.
  void Begin(std::string_view name, int32_t dtype, absl::Span<const int64_t> shape,
             int64_t num_bytes);
  void Add(absl::Span<const std::byte> bytes);

  uint64_t Finish64() const;      // of a k64 stream
  std::string Finish128() const;  // of a k128 stream: 32 hexadecimal digits

 private:
  void AddRaw(const void* data, size_t size);
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-128 of the state, in any order of the tensors: 32 hexadecimal digits. What `everstep
// checkpoint digest` prints. (QuickDigest, 64 bits of the same encoding, is declared in store.h.)
std::string FullDigest(absl::Span<const TensorSpan> state);

// The 16 bytes that 32 hexadecimal digits stand for, and back.
std::string DigestToBytes(const std::string& hex);
std::string BytesToDigest(std::string_view bytes);

}  // namespace everstep
