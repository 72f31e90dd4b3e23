// io: CRC-32C by ISA-L; in the static command, for which ISA-L has no archive, by our own loop.
#include "everstep/io/crc32c.h"

#include <algorithm>

#ifdef EVERSTEP_STATIC
#include "everstep/io/crc32c_plain.h"
#else
#include <isa-l/crc.h>
#endif

namespace everstep {
namespace {

#ifdef EVERSTEP_STATIC

uint32_t Extend(uint32_t crc, const void* data, size_t size) {
  return ExtendCrc32cPlain(crc, data, size);
}

#else

constexpr size_t kChunk = size_t{1} << 30;  // crc32_iscsi takes an int

uint32_t Extend(uint32_t crc, const void* data, size_t size) {
  // The library neither writes to the buffer nor inverts before and after.
  auto* at = static_cast<unsigned char*>(const_cast<void*>(data));
  crc = ~crc;
  while (size > 0) {
    const size_t n = std::min(size, kChunk);
    crc = crc32_iscsi(at, static_cast<int>(n), crc);
    at += n;
    size -= n;
  }
  return ~crc;
}

#endif

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, absl::Span<const std::byte> bytes) {
  return Extend(crc, bytes.data(), bytes.size());
}

uint32_t Crc32c(absl::Span<const std::byte> bytes) { return Extend(0, bytes.data(), bytes.size()); }

uint32_t Crc32c(std::string_view bytes) { return Extend(0, bytes.data(), bytes.size()); }

}  // namespace everstep
