// io: TFRecord framing, byte for byte, and what damage is called.
#include "everstep/io/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "everstep/base/status.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/bytes.h"
#include "everstep/io/crc32c.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<std::string> kPayloads = {"hello", "", std::string(300000, 'x'), "last"};

class TfRecordTest : public ::testing::Test {
 protected:
  static std::string Bytes(const std::vector<std::string>& payloads) {
    std::string bytes;
    for (const std::string& payload : payloads) AppendRecord(&bytes, payload);
    return bytes;
  }
  void Put(std::string_view bytes) { ASSERT_TRUE(PublishFile(fs_, path_, bytes).ok()); }

  // All payloads, or the first error.
  absl::StatusOr<std::vector<std::string>> ReadAll() {
    EV_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(fs_, path_));
    std::vector<std::string> result;
    std::string_view payload;
    while (true) {
      EV_ASSIGN_OR_RETURN(const bool more, reader.Next(&payload));
      if (!more) return result;
      result.emplace_back(payload);
    }
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
  const std::string path_ = dir_.File("records");
};

TEST_F(TfRecordTest, TheBytesAreThoseOfTensorFlow) {
  EXPECT_EQ(Bytes({"hello"}),
            std::string("\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19", 21));
  EXPECT_EQ(Bytes({""}), std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2", 16));
}

TEST_F(TfRecordTest, WhatTheWriterWroteIsRead) {
  auto file = fs_.OpenForWriting(path_, FileSystem::Create::kTruncate);
  ASSERT_TRUE(file.ok());
  RecordWriter writer(file->get());
  for (const std::string& payload : kPayloads) ASSERT_TRUE(writer.Append(payload).ok());
  ASSERT_TRUE(writer.Flush().ok());
  EXPECT_EQ(writer.records(), 4);
  EXPECT_EQ(ReadWholeFile(fs_, path_).value(), Bytes(kPayloads));
  EXPECT_EQ(ReadAll().value(), kPayloads);
}

TEST_F(TfRecordTest, AnEmptyFileIsAnEmptyDataSet) {
  Put("");
  EXPECT_TRUE(ReadAll().value().empty());
}

TEST_F(TfRecordTest, TwoFilesOneAfterTheOtherAreAFile) {
  Put(Bytes({"a", "b"}) + Bytes({"c"}));
  EXPECT_EQ(ReadAll().value(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(TfRecordTest, SkippingGivesTheOffsetsByWhichRecordsAreReadAlone) {
  Put(Bytes(kPayloads));
  auto reader = RecordReader::Open(fs_, path_);
  ASSERT_TRUE(reader.ok());
  std::string scratch;
  for (const std::string& payload : kPayloads) {
    const int64_t offset = reader->offset();
    ASSERT_EQ(reader->SkipNext().value(), static_cast<int64_t>(payload.size()));
    EXPECT_EQ(ReadRecordAt(reader->file(), path_, offset, payload.size(), &scratch).value(),
              payload);
  }
  EXPECT_EQ(reader->SkipNext().value(), -1);
}

TEST_F(TfRecordTest, AFlippedBitAnywhereIsFoundWithFileAndOffset) {
  const std::string good = Bytes({"hello", "", "world!"});  // at 0, 21 and 37
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      Put(bad);
      const absl::Status status = ReadAll().status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << i;
      const int offset = i < 21 ? 0 : i < 37 ? 21 : 37;
      ASSERT_THAT(std::string(status.message()),
                  StartsWith(absl::StrCat(path_, ": corrupted record at offset ", offset, " (")));
    }
  }
}

TEST_F(TfRecordTest, TruncationAnywhereButBetweenRecordsIsFound) {
  const std::string good = Bytes({"hello", "", "world!"});
  for (size_t size = 0; size < good.size(); ++size) {
    Put(good.substr(0, size));
    const absl::Status status = ReadAll().status();
    if (size == 0 || size == 21 || size == 37) {
      EXPECT_TRUE(status.ok());
      continue;
    }
    const int offset = size < 21 ? 0 : size < 37 ? 21 : 37;
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
    ASSERT_THAT(std::string(status.message()),
                StartsWith(absl::StrCat(path_, ": truncated record at offset ", offset, " (")));
  }
}

TEST_F(TfRecordTest, ErrorsSayWhatDoesNotMatch) {
  std::string bytes = Bytes({"hello"});
  bytes[13] ^= 1;
  Put(bytes);
  EXPECT_EQ(ReadAll().status().message(),
            path_ + ": corrupted record at offset 0 (its data checksum does not match)");
  Put("This is some text, not a record file at all.");
  EXPECT_THAT(std::string(ReadAll().status().message()), HasSubstr("is this a TFRecord file?"));
}

TEST_F(TfRecordTest, AnIndexThatIsWrongAboutALengthIsFound) {
  Put(Bytes({"hello", "world"}));
  auto file = fs_.OpenForReading(path_);
  std::string scratch;
  EXPECT_THAT(std::string(ReadRecordAt(**file, path_, 0, 4, &scratch).status().message()),
              HasSubstr("has the file changed?"));
  EXPECT_THAT(std::string(ReadRecordAt(**file, path_, 21, 6, &scratch).status().message()),
              HasSubstr("truncated record at offset 21"));
}

TEST_F(TfRecordTest, AHugeLengthWithAGoodChecksumTakesNoMemory) {
  for (const uint64_t length : {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    std::string header;
    AppendLittle(&header, length);
    AppendLittle(&header, MaskCrc32c(Crc32c(header)));
    Put(header + "some payload");
    EXPECT_EQ(ReadAll().status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(TfRecordTest, CompressedFilesAreRefusedByName) {
  Put(std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03more than twelve", 26));
  EXPECT_THAT(std::string(ReadAll().status().message()), HasSubstr("(gzip)"));
  Put(std::string("\x78\x9c and so on and on"));
  EXPECT_THAT(std::string(ReadAll().status().message()), HasSubstr("(zlib)"));
}

TEST_F(TfRecordTest, ARecordWhoseLengthLooksLikeGzipIsStillARecord) {
  Put(Bytes({std::string(0x8b1f, 'x')}));
  EXPECT_EQ(ReadAll().value().size(), 1u);
}

}  // namespace
}  // namespace everstep
