// checkpoint: what a checkpoint holds besides the state, and that older and later formats are told
// apart.
#include "everstep/checkpoint/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/bundle_reader.h"
#include "everstep/io/object_graph.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

const CheckpointId kId = {1175, 2, {3, 4}, 0x123456789abcdef, 470};
const std::string kDigest(kDigestDigits, 'a');
const std::string kJson = "{\"format\":\"everstep.checkpoint.v2\",\"digest\":\"" + kDigest +
                          "\",\"step\":1175,\"history\":2,\"view\":\"3.4\"," +
                          "\"data\":\"0123456789abcdef\",\"fit_begin\":470}";

TEST(CheckpointFormat, TheMetaIsOneJsonObject) {
  EXPECT_EQ((CheckpointMeta{kDigest, kId}).ToJson(), kJson);
  const auto meta = CheckpointMeta::Parse(kJson, "here");
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(meta->id, kId);
  EXPECT_EQ(meta->id.data, kId.data);
  EXPECT_EQ(meta->id.fit_begin, 470);
  EXPECT_EQ(meta->digest, kDigest);
}

TEST(CheckpointFormat, AFileThatDoesNotSayItsDataIsRead) {
  const std::string older = kJson.substr(0, kJson.find(",\"data\"")) + "}";
  const auto meta = CheckpointMeta::Parse(older, "here");
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(meta->id.data, 0u);
}

TEST(CheckpointFormat, WhatALaterVersionAddsToThisFormatIsIgnored) {
  const std::string more = kJson.substr(0, kJson.size() - 1) + ",\"more\":[1]}";
  EXPECT_TRUE(CheckpointMeta::Parse(more, "here").ok());
}

TEST(CheckpointFormat, ALaterFormatIsRefusedByItsName) {
  std::string later = kJson;
  later.replace(later.find(".v2"), 3, ".v17");
  const absl::Status status = CheckpointMeta::Parse(later, "here").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("here: is in format everstep.checkpoint.v17"));
}

TEST(CheckpointFormat, AnythingElseIsDamage) {
  auto replaced = [](const std::string& what, const std::string& by) {
    std::string json = kJson;
    return json.replace(json.find(what), what.size(), by);
  };
  for (const std::string& json :
       {std::string(), std::string("[]"), std::string("{}"), kJson.substr(1),
        replaced("everstep.checkpoint", "x"), replaced("\"step\"", "\"stop\""),
        replaced("1175", "-1"), replaced("1175", "1.5"), replaced("1175", "\"1175\""),
        replaced("3.4", "3"), replaced("3.4", "03.4"), replaced("\"3.4\"", "3.4"),
        replaced(kDigest, "abc"), replaced("aaa", "AAA"),
        replaced("1175", "99999999999999999999")}) {
    EXPECT_EQ(CheckpointMeta::Parse(json, "here").status().code(), absl::StatusCode::kDataLoss)
        << json;
  }
}

TEST(CheckpointFormat, TensorFlowFindsVariablesByObjectsAndByKeys) {
  MemoryFileSystem fs;
  TestState state(7);
  BundleWriter writer(fs, "/state");
  ASSERT_TRUE(AddCheckpoint(kId, state.tensors(), kDigest, &writer).ok());
  ASSERT_TRUE(writer.WriteShard(0, 1).ok());
  ASSERT_TRUE(writer.WriteIndex(1).ok());
  const auto bundle = BundleReader::Open(fs, "/state");
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  std::vector<std::string> keys;
  for (const BundleEntry& entry : (*bundle)->entries()) keys.push_back(entry.name);
  EXPECT_EQ(
      keys,
      (std::vector<std::string>{
          "_CHECKPOINTABLE_OBJECT_GRAPH", "empty/.ATTRIBUTES/VARIABLE_VALUE", "everstep/checkpoint",
          "model/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE", "model/mask/.ATTRIBUTES/VARIABLE_VALUE",
          "save_counter/.ATTRIBUTES/VARIABLE_VALUE", "step/.ATTRIBUTES/VARIABLE_VALUE"}));
  EXPECT_EQ((*bundle)->ReadStrings(*(*bundle)->Find(kObjectGraphKey)).value(),
            std::vector<std::string>{ObjectGraph(
                {"empty", "model/dense/kernel", "model/mask", "save_counter", "step"})});
  int64_t count = 0;
  ASSERT_TRUE((*bundle)
                  ->Read(*(*bundle)->Find(kSaveCounterKey),
                         {reinterpret_cast<std::byte*>(&count), sizeof count})
                  .ok());
  EXPECT_EQ(count, 1175);
}

TEST(CheckpointFormat, TheDigestIsOfNamesInTheirOrderNotOfKeysInTheirs) {
  // As names "a" < "a-b" < "a/b"; as keys "a-b/..." < "a/..." < "a/b/...".
  MemoryFileSystem fs;
  std::vector<uint8_t> bytes = {1, 2, 3};
  std::vector<TensorSpan> state;
  for (const char* name : {"a", "a-b", "a/b", "x.y"}) {
    bytes.push_back(0);
    state.push_back({name, DType::kUInt8, {3}, TestState::Bytes(bytes.data())});
  }
  for (TensorSpan& tensor : state) tensor.data = TestState::Bytes(bytes.data());
  BundleWriter writer(fs, "/state");
  ASSERT_TRUE(AddCheckpoint(kId, state, FullDigest(state), &writer).ok());
  ASSERT_TRUE(writer.WriteShard(0, 1).ok());
  ASSERT_TRUE(writer.WriteIndex(1).ok());
  const auto stored = StoredState::Open(fs, "/state");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE((*stored)->Verify().ok()) << (*stored)->Verify();
  EXPECT_EQ((*stored)->tensors()[1].name, "a-b");
  EXPECT_EQ((*stored)->tensors()[3].name, "x.y");
}

TEST(CheckpointFormat, ThePlacesDoNotDependOnTheDigest) {
  MemoryFileSystem fs;
  TestState state(7);
  BundleWriter one(fs, "/one"), two(fs, "/two");
  ASSERT_TRUE(AddCheckpoint(kId, state.tensors(), std::string(32, '0'), &one).ok());
  ASSERT_TRUE(AddCheckpoint(kId, state.tensors(), kDigest, &two).ok());
  for (int n = 1; n < 12; ++n) EXPECT_EQ(one.ShardSizes(n), two.ShardSizes(n));
}

TEST(CheckpointFormat, VersionOneIsStillRead) {
  MemoryFileSystem fs;
  TestState state(7), got(0);
  std::string digest = DigestToBytes(FullDigest(state.tensors()));
  BundleWriter writer(fs, "/state");
  for (const TensorSpan& tensor : state.tensors()) ASSERT_TRUE(writer.Add(tensor).ok());
  ASSERT_TRUE(writer.Add({kDigestKey, DType::kUInt8, {16}, TestState::Bytes(digest.data())}).ok());
  ASSERT_TRUE(writer.WriteShard(0, 1).ok());
  ASSERT_TRUE(writer.WriteIndex(1).ok());
  const auto stored = StoredState::Open(fs, "/state");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE((*stored)->is_ours());
  EXPECT_FALSE((*stored)->id().has_value());
  EXPECT_EQ((*stored)->tensors().size(), 4u);
  ASSERT_TRUE((*stored)->Restore(got.tensors()).ok());
  EXPECT_EQ(FullDigest(got.tensors()), FullDigest(state.tensors()));
  state.weights[0] += 1;
  ASSERT_TRUE(writer.WriteShard(0, 1).ok());
  EXPECT_EQ((*StoredState::Open(fs, "/state"))->Verify().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace everstep
