// io: CRC-32C without a library.
#include "everstep/io/crc32c_plain.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace everstep {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // Castagnoli's, bits reversed

// tables[k][b]: what byte b does to the CRC when k more bytes come after it.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint64_t LittleEndian64(const unsigned char* at) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | at[i];  // one load, to the compiler
  return word;
}

}  // namespace

uint32_t ExtendCrc32cByTables(uint32_t crc, const void* data, size_t size) {
  const auto* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; size >= 8; at += 8, size -= 8) {
    const uint64_t word = LittleEndian64(at) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; size > 0; ++at, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)

bool HasCrc32cInstruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) uint32_t ExtendCrc32cByInstruction(uint32_t crc, const void* data,
                                                                     size_t size) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t wide = static_cast<uint32_t>(~crc);
  for (; size >= 8; at += 8, size -= 8) wide = _mm_crc32_u64(wide, LittleEndian64(at));
  auto narrow = static_cast<uint32_t>(wide);
  for (; size > 0; ++at, --size) narrow = _mm_crc32_u8(narrow, *at);
  return ~narrow;
}

#else

bool HasCrc32cInstruction() { return false; }
uint32_t ExtendCrc32cByInstruction(uint32_t crc, const void* data, size_t size) {
  return ExtendCrc32cByTables(crc, data, size);
}

#endif

uint32_t ExtendCrc32cPlain(uint32_t crc, const void* data, size_t size) {
  static const bool has_instruction = HasCrc32cInstruction();
  return has_instruction ? ExtendCrc32cByInstruction(crc, data, size)
                         : ExtendCrc32cByTables(crc, data, size);
}

}  // namespace everstep
