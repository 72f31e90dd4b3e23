// data: IDX files, good and bad, and their import.
#include "everstep/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "everstep/env/temp_directory.h"
#include "everstep/io/example.h"
#include "everstep/io/publish.h"
#include "everstep/io/tfrecord.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

std::string Idx(int type, std::vector<uint32_t> shape, std::string_view values) {
  std::string bytes = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (uint32_t d : shape) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(d >> shift));
  }
  return bytes.append(values);
}

class IdxTest : public ::testing::Test {
 protected:
  std::string Put(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(PublishFile(fs_, dir_.File(name), bytes).ok());
    return dir_.File(name);
  }
  std::string ErrorOf(const std::string& bytes) {
    const absl::Status status = ReadIdx(fs_, Put("f", bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir_.File("f")));
    return std::string(status.message());
  }

  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
};

TEST_F(IdxTest, ShapeAndValuesAreRead) {
  const auto array = ReadIdx(fs_, Put("f", Idx(8, {2, 1, 3}, "abcdef")));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 1, 3}));
  EXPECT_EQ(array->values, "abcdef");
  EXPECT_EQ(array->examples(), 2);
  EXPECT_EQ(array->example_bytes(), 3);
}

TEST_F(IdxTest, ErrorsSayWhatWasFoundAndWhatExpected) {
  EXPECT_THAT(ErrorOf("PNG stuff"), HasSubstr("magic number is 0x504e4720, expected 0x000008NN"));
  EXPECT_THAT(ErrorOf("ab"), HasSubstr("it has 2 bytes"));
  EXPECT_THAT(ErrorOf(Idx(8, {2, 3}, "").substr(0, 8)), HasSubstr("inside its header of 12 bytes"));
  EXPECT_THAT(ErrorOf(Idx(8, {2, 3}, "abcde")),
              HasSubstr("[2,3] needs 6 bytes of values, it has 5"));
  EXPECT_THAT(ErrorOf(Idx(8, {2, 3}, "abcdefg")), HasSubstr("it has 7"));
  EXPECT_THAT(ErrorOf(Idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "a")),
              HasSubstr("truncated IDX file: shape"));
  EXPECT_EQ(ReadIdx(fs_, Put("f", Idx(0x0d, {1}, "abcd"))).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReadIdx(fs_, dir_.File("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(IdxTest, TruncationAnywhereIsFound) {
  const std::string good = Idx(8, {2, 3}, "abcdef");
  for (size_t size = 0; size < good.size(); ++size) ErrorOf(good.substr(0, size));
}

TEST_F(IdxTest, AnImportMakesOneExampleOfEachImageAndLabel) {
  const std::string images = Put("images", Idx(8, {3, 2, 2}, "aaaabbbbcccc"));
  const std::string labels = Put("labels", Idx(8, {3}, std::string("\x07\x00\xff", 3)));
  const auto count = ImportIdx(fs_, images, labels, dir_.File("out.tfrecord"));
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, 3);
  auto reader = RecordReader::Open(fs_, dir_.File("out.tfrecord"));
  ASSERT_TRUE(reader.ok());
  const std::string_view names[] = {"image", "label"};
  FeatureView views[2];
  std::string_view record, image;
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(reader->Next(&record).value());
    ASSERT_TRUE(FindFeatures(record, names, absl::MakeSpan(views)).ok());
    views[0].CopyBytes(absl::MakeSpan(&image, 1));
    EXPECT_EQ(image, std::string(4, static_cast<char>('a' + i)));
    int64_t label = -1;
    views[1].CopyInt64s(absl::MakeSpan(&label, 1));
    EXPECT_EQ(label, (std::vector<int64_t>{7, 0, 255})[i]);
  }
  EXPECT_FALSE(reader->Next(&record).value());
}

TEST_F(IdxTest, FilesThatDoNotBelongTogetherAreRefusedAndNothingIsWritten) {
  const std::string images = Put("images", Idx(8, {3, 1}, "abc"));
  const std::string labels = Put("labels", Idx(8, {2}, "ab"));
  const absl::Status status = ImportIdx(fs_, images, labels, dir_.File("out")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has 3 images"));
  EXPECT_THAT(std::string(ImportIdx(fs_, images, images, dir_.File("out")).status().message()),
              HasSubstr("magic number is 0x00000802, expected that of labels, 0x00000801"));
  EXPECT_THAT(std::string(ImportIdx(fs_, labels, labels, dir_.File("out")).status().message()),
              HasSubstr("magic number is 0x00000801, expected that of images, 0x00000803"));
  EXPECT_FALSE(fs_.Exists(dir_.File("out")));
}

}  // namespace
}  // namespace everstep
