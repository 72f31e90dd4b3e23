// io: the hand-written Example reader agrees with protobuf's on everything it accepts.
#include "everstep/io/example.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "everstep/base/keyed_random.h"
#include "everstep/io/bytes.h"
#include "everstep/io/example.pb.h"

namespace everstep {
namespace {

std::string_view kNames[] = {"image", "label", "weight"};

// What the hand-written reader finds, as the message it stands for.
absl::StatusOr<std::map<std::string, std::string>> Parse(std::string_view bytes) {
  FeatureView views[3];
  const absl::Status status = FindFeatures(bytes, kNames, absl::MakeSpan(views));
  if (!status.ok()) return status;
  std::map<std::string, std::string> result;
  for (int i = 0; i < 3; ++i) {
    const FeatureView& view = views[i];
    format::Feature feature;
    if (view.kind() == FeatureView::Kind::kInt64) {
      std::vector<int64_t> values(view.size());
      view.CopyInt64s(absl::MakeSpan(values));
      feature.mutable_int64_list();
      for (int64_t v : values) feature.mutable_int64_list()->add_value(v);
    } else if (view.kind() == FeatureView::Kind::kFloat) {
      std::vector<float> values(view.size());
      view.CopyFloats(absl::MakeSpan(values));
      feature.mutable_float_list();
      for (float v : values) feature.mutable_float_list()->add_value(v);
    } else if (view.kind() == FeatureView::Kind::kBytes) {
      std::vector<std::string_view> values(view.size());
      view.CopyBytes(absl::MakeSpan(values));
      feature.mutable_bytes_list();
      for (std::string_view v : values) feature.mutable_bytes_list()->add_value(std::string(v));
    } else {
      continue;
    }
    result[std::string(kNames[i])] = feature.SerializeAsString();
  }
  return result;
}

std::map<std::string, std::string> ByProtobuf(const format::Example& example) {
  std::map<std::string, std::string> result;
  for (std::string_view name : kNames) {
    const auto at = example.features().feature().find(std::string(name));
    if (at == example.features().feature().end() ||
        at->second.kind_case() == format::Feature::KIND_NOT_SET) {
      continue;
    }
    format::Feature known = at->second;
    known.DiscardUnknownFields();
    result[std::string(name)] = known.SerializeAsString();
  }
  return result;
}

void ExpectAsProtobuf(const std::string& bytes) {
  format::Example example;
  ASSERT_TRUE(example.ParseFromString(bytes));
  const auto mine = Parse(bytes);
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_EQ(*mine, ByProtobuf(example));
}

std::string Delimited(int field, const std::string& value) {
  std::string out;
  AppendVarint(&out, field << 3 | 2);
  AppendVarint(&out, value.size());
  return out + value;
}
std::string Entry(const std::string& name, const std::string& feature) {
  return Delimited(1, Delimited(1, name) + Delimited(2, feature));
}

std::string Built() {
  ExampleBuilder builder;
  builder.AddBytes("image", std::string_view("\0\1\2raw", 6));
  builder.AddInt64s("label", {-1, 0, 300, INT64_MIN, INT64_MAX});
  builder.AddFloats("weight", {0.5f, -2.0f});
  return builder.Finish();
}

TEST(Example, TheBuildersBytesAreReadByProtobuf) {
  format::Example example;
  ASSERT_TRUE(example.ParseFromString(Built()));
  const auto& features = example.features().feature();
  EXPECT_EQ(features.at("image").bytes_list().value(0), std::string("\0\1\2raw", 6));
  EXPECT_EQ(features.at("label").int64_list().value_size(), 5);
  EXPECT_EQ(features.at("label").int64_list().value(3), INT64_MIN);
  EXPECT_EQ(features.at("weight").float_list().value(1), -2.0f);
  ExpectAsProtobuf(Built());
}

TEST(Example, TheBuilderStartsAnewAndWritesWhatProtobufWrites) {
  ExampleBuilder builder;
  builder.AddInt64s("label", {7});
  const std::string first = builder.Finish();
  builder.AddInt64s("label", {7});
  EXPECT_EQ(builder.Finish(), first);
  format::Example example;
  (*example.mutable_features()->mutable_feature())["label"].mutable_int64_list()->add_value(7);
  EXPECT_EQ(example.SerializeAsString(), first);
}

TEST(Example, EmptyListsHaveAKindAndAnEmptyExampleHasNothing) {
  ExampleBuilder builder;
  builder.AddFloats("weight", {});
  builder.AddInt64s("label", {});
  builder.AddBytes("image", absl::Span<const std::string_view>());
  ExpectAsProtobuf(builder.Finish());
  ExpectAsProtobuf("");
  FeatureView view;
  ASSERT_TRUE(FindFeatures("", absl::MakeSpan(kNames, 1), absl::MakeSpan(&view, 1)).ok());
  EXPECT_EQ(view.kind(), FeatureView::Kind::kMissing);
}

TEST(Example, UnpackedListsAreRead) {
  std::string floats, ints;
  for (float v : {1.5f, 2.5f}) {
    floats += '\x0d';
    AppendLittle(&floats, v);
  }
  for (uint64_t v : {uint64_t{5}, ~uint64_t{0}}) {
    ints += '\x08';
    AppendVarint(&ints, v);
  }
  const std::string packed = Delimited(1, std::string("\x07", 1));
  ExpectAsProtobuf(Delimited(1, Entry("weight", Delimited(2, floats)) +
                                    Entry("label", Delimited(3, ints + packed + ints))));
}

TEST(Example, TheLastFeatureOfANameCountsAndTheLastKindOfAFeature) {
  const std::string one = Delimited(3, Delimited(1, "\x01"));
  const std::string two = Delimited(3, Delimited(1, "\x02"));
  const std::string bytes = Delimited(1, Delimited(1, "xyz"));
  ExpectAsProtobuf(Delimited(1, Entry("label", one) + Entry("label", two)));
  ExpectAsProtobuf(Delimited(1, Entry("label", one)) + Delimited(1, Entry("label", two)));
  ExpectAsProtobuf(Delimited(1, Entry("label", one + bytes)));
  ExpectAsProtobuf(Delimited(1, Entry("label", bytes + one + two)));
  ExpectAsProtobuf(Delimited(1, Entry("label", one + bytes + two)));
  ExpectAsProtobuf(Delimited(1, Entry("label", "")));
}

TEST(Example, UnknownFieldsAreSteppedOver) {
  const std::string unknown = Delimited(15, "whatever") + std::string(
                                                              "\x50\x05\x65"
                                                              "abcd",
                                                              7);
  const std::string list = Delimited(3, unknown + Delimited(1, "\x01") + unknown);
  ExpectAsProtobuf(unknown + Delimited(1, unknown + Entry("label", unknown + list) + unknown));
}

TEST(Example, AnEntryWithTwoValuesIsRefused) {
  const std::string one = Delimited(3, Delimited(1, "\x01"));
  const std::string bytes =
      Delimited(1, Delimited(1, Delimited(1, "label") + Delimited(2, one) + Delimited(2, one)));
  EXPECT_EQ(Parse(bytes).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Example, ErrorsNameTheFeature) {
  const std::string bytes = Delimited(1, Entry("weight", Delimited(2, Delimited(1, "123"))));
  EXPECT_EQ(Parse(bytes).status().message(),
            "not a tf.train.Example (feature \"weight\" does not parse)");
}

TEST(Example, RandomlyDamagedBytesGiveProtobufsAnswerOrAnError) {
  google::protobuf::LogSilencer silence;  // names that are no UTF-8 any more
  uint64_t calls = 0;
  auto random = [&calls] { return RandomAt(1, calls++); };
  const std::string good = Built() + Built();
  int agreed = 0;
  for (int round = 0; round < 100000; ++round) {
    std::string bytes = good;
    const int damages = 1 + random() % 3;
    for (int i = 0; i < damages; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const auto mine = Parse(bytes);
    if (!mine.ok()) continue;
    format::Example example;
    // We look only at the features asked for, so protobuf may refuse what we accept.
    if (!example.ParseFromString(bytes)) continue;
    ASSERT_EQ(*mine, ByProtobuf(example)) << round;
    ++agreed;
  }
  EXPECT_GT(agreed, 10000);
}

TEST(Example, EveryFeatureIsVisitedInOrder) {
  std::string names;
  ASSERT_TRUE(ForEachFeature(Built(), [&](std::string_view name, const FeatureView& view) {
                names += std::string(name) + ":" + std::to_string(view.size()) + " ";
              }).ok());
  EXPECT_EQ(names, "image:1 label:5 weight:2 ");
}

}  // namespace
}  // namespace everstep
