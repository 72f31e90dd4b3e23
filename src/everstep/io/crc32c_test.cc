// io: CRC-32C against published values.
#include "everstep/io/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "everstep/io/bytes.h"
#include "everstep/io/crc32c_plain.h"

namespace everstep {
namespace {

TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(Crc32c(std::string_view("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string_view("")), 0u);
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32c, MaskingIsTensorFlowsAndUndoesItself) {
  EXPECT_EQ(MaskCrc32c(0xe3069283u), 0xc78ab0e5u);
  EXPECT_EQ(MaskCrc32c(0), 0xa282ead8u);
  for (uint32_t crc : {0u, 1u, 0xe3069283u, 0xffffffffu}) {
    EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  }
}

TEST(Crc32c, APieceAtATimeGivesTheSame) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(i * 7));
  for (size_t cut : {0u, 1u, 13u, 512u, 999u, 1000u}) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(std::string_view(text).substr(0, cut)),
                           AsBytes(std::string_view(text).substr(cut))),
              Crc32c(text));
  }
}

// The static command computes it so; this program by ISA-L.
TEST(Crc32c, WithoutTheLibraryItIsTheSameAtEveryLengthAndAlignment) {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * i + 13 * i));
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= text.size(); ++size) {
      const std::string_view piece = std::string_view(text).substr(begin, size);
      const uint32_t right = ExtendCrc32c(0x1234567u, AsBytes(piece));
      ASSERT_EQ(ExtendCrc32cByTables(0x1234567u, piece.data(), size), right)
          << begin << " " << size;
      ASSERT_EQ(ExtendCrc32cPlain(0x1234567u, piece.data(), size), right) << begin << " " << size;
      if (HasCrc32cInstruction()) {
        ASSERT_EQ(ExtendCrc32cByInstruction(0x1234567u, piece.data(), size), right)
            << begin << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace everstep
