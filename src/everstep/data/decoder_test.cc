// data: what decodes to what, and what the errors say.
#include "everstep/data/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace everstep {
namespace {

using ::testing::HasSubstr;

// Decodes one field of `record`.
template <typename T>
absl::StatusOr<std::vector<T>> Decode(const FeatureSpec& field, const std::string& record) {
  auto decoder = ExampleDecoder::Make({field});
  if (!decoder.ok()) return decoder.status();
  // Not std::vector<T>: that of bool has no bytes.
  alignas(8) std::byte bytes[64];
  std::byte* out = bytes;
  ExampleDecoder::Scratch scratch;
  const absl::Status status = decoder->Decode(record, absl::MakeSpan(&out, 1), &scratch);
  if (!status.ok()) return status;
  std::vector<T> values;
  for (int64_t i = 0; i < NumElements(field.shape); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    values.push_back(value);
  }
  return values;
}

std::string Record() {
  ExampleBuilder builder;
  builder.AddBytes("raw", std::string_view("\1\0\2\0", 4));
  builder.AddInt64s("small", {-3, 1});
  builder.AddInt64s("big", {1000000});
  builder.AddFloats("x", {0.5f, -1.5f, 2.0f});
  return builder.Finish();
}

std::string ErrorOf(const FeatureSpec& field, const std::string& record = Record()) {
  const absl::Status status = Decode<int64_t>(field, record).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(Decoder, ListsAndRawBytesBecomeTheTypeAskedFor) {
  EXPECT_EQ(Decode<uint8_t>(Raw("raw", DType::kUInt8, {4}), Record()).value(),
            (std::vector<uint8_t>{1, 0, 2, 0}));
  EXPECT_EQ(Decode<int32_t>(Raw("raw", DType::kInt32, {}), Record()).value(),
            std::vector<int32_t>{0x20001});
  EXPECT_EQ(Decode<int64_t>(FixedLen("small", DType::kInt64, {2}), Record()).value(),
            (std::vector<int64_t>{-3, 1}));
  EXPECT_EQ(Decode<int32_t>(FixedLen("small", DType::kInt32, {1, 2}), Record()).value(),
            (std::vector<int32_t>{-3, 1}));
  EXPECT_EQ(Decode<int8_t>(FixedLen("small", DType::kInt8, {2}), Record()).value(),
            (std::vector<int8_t>{-3, 1}));
  EXPECT_EQ(Decode<float>(FixedLen("x", DType::kFloat32, {3}), Record()).value(),
            (std::vector<float>{0.5f, -1.5f, 2.0f}));
  EXPECT_EQ(Decode<double>(FixedLen("x", DType::kFloat64, {3}), Record()).value(),
            (std::vector<double>{0.5, -1.5, 2.0}));
}

TEST(Decoder, ErrorsSayWhatWasExpectedAndWhatFound) {
  EXPECT_EQ(ErrorOf(FixedLen("y", DType::kFloat32)),
            "feature \"y\" is missing; the record's features are raw, small, big, x "
            "(wanted y: float32[])");
  EXPECT_THAT(ErrorOf(FixedLen("x", DType::kInt64, {3})),
              HasSubstr("is a float list, expected an int64 list"));
  EXPECT_THAT(ErrorOf(FixedLen("x", DType::kFloat32, {4})), HasSubstr("has 3 values, expected 4"));
  EXPECT_THAT(ErrorOf(Raw("raw", DType::kUInt8, {5})), HasSubstr("has 4 bytes, expected 5"));
  EXPECT_THAT(ErrorOf(FixedLen("big", DType::kUInt8)),
              HasSubstr("has the value 1000000, which does not fit"));
  EXPECT_THAT(ErrorOf(FixedLen("small", DType::kUInt8, {2})), HasSubstr("has the value -3"));
  EXPECT_THAT(ErrorOf(FixedLen("small", DType::kBool, {2})), HasSubstr("has the value -3"));
}

TEST(Decoder, BytesThatAreNoExampleAreDataLoss) {
  EXPECT_EQ(Decode<float>(FixedLen("x", DType::kFloat32, {3}), "hello").status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(Decoder, DescriptionsThatMakeNoSenseAreRefused) {
  for (const std::vector<FeatureSpec>& fields :
       {std::vector<FeatureSpec>{},
        {FixedLen("", DType::kInt64)},
        {FixedLen("x", DType::kInt64, {-1})},
        {FixedLen("x", DType::kUInt64)},
        {Raw("x", DType::kUInt8, {int64_t{1} << 40})},
        {FixedLen("x", DType::kInt64), Raw("x", DType::kUInt8, {1})}}) {
    EXPECT_EQ(ExampleDecoder::Make(fields).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Decoder, ManyFieldsAreFoundInOneRecord) {
  ExampleBuilder builder;
  std::vector<FeatureSpec> fields;
  std::vector<int64_t> values(40);
  std::vector<std::byte*> out;
  for (int64_t i = 0; i < 40; ++i) {
    builder.AddInt64s("f" + std::to_string(i), {i * i});
    fields.push_back(FixedLen("f" + std::to_string(39 - i), DType::kInt64));
    out.push_back(reinterpret_cast<std::byte*>(&values[i]));
  }
  ExampleDecoder::Scratch scratch;
  ASSERT_TRUE(ExampleDecoder::Make(fields)->Decode(builder.Finish(), out, &scratch).ok());
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(values[i], (39 - i) * (39 - i));
}

}  // namespace
}  // namespace everstep
