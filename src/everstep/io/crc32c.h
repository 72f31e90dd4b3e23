// io: CRC-32C (Castagnoli) and the masking that TFRecord, LevelDB tables and bundles use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace everstep {

// The CRC of A followed by B is ExtendCrc32c(Crc32c(A), B). Any length, any thread.
uint32_t ExtendCrc32c(uint32_t crc, absl::Span<const std::byte> bytes);
uint32_t Crc32c(absl::Span<const std::byte> bytes);
uint32_t Crc32c(std::string_view bytes);

// A CRC stored beside the bytes it covers is stored masked, so that a CRC over both is no constant.
inline uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace everstep
