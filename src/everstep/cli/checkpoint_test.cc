// cli: checkpoint diff, drill and ls, from the command line to output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/cli/command.h"
#include "everstep/cli/verb_test.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Outcome : VerbOutcome {
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

Outcome Checkpoint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "checkpoint");
  return {RunVerb({AddCheckpoint}, std::move(arguments))};
}

class CheckpointTest : public ::testing::Test {
 protected:
  // A tensor of `values` under `name`, in the state that the next Save writes.
  template <typename T>
  void Put(const std::string& name, DType dtype, std::vector<int64_t> shape,
           const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    for (Tensor& tensor : tensors_) {
      if (tensor.name == name) {
        tensor = {name, dtype, shape, {bytes, bytes + values.size() * sizeof(T)}};
        return;
      }
    }
    tensors_.push_back({name, dtype, shape, {bytes, bytes + values.size() * sizeof(T)}});
  }
  void PutFloats(const std::vector<float>& values) {
    Put("model/w", DType::kFloat32, {2, static_cast<int64_t>(values.size()) / 2}, values);
  }

  std::vector<TensorSpan> State() {
    std::vector<TensorSpan> state;
    for (Tensor& t : tensors_) state.push_back({t.name, t.dtype, t.shape, t.bytes.data()});
    return state;
  }
  // The path of a bundle of the state, without anything of ours beside it.
  std::string Bundle(const std::string& name) {
    BundleWriter writer(fs_, dir_.File(name));
    for (const TensorSpan& tensor : State()) EXPECT_TRUE(writer.Add(tensor).ok());
    EXPECT_TRUE(writer.WriteShard(0, 1).ok() && writer.WriteIndex(1).ok());
    return dir_.File(name);
  }
  // A checkpoint of ours; its directory.
  std::string Save(Step step, const std::string& job = "job") {
    EXPECT_TRUE(fs_.CreateDirectories(dir_.File(job)).ok());
    DirectoryStore store(fs_, {.directory = dir_.File(job + "/checkpoints")});
    const CheckpointId id{step, 0, {1, 1}};
    EXPECT_TRUE(store.SaveShard(id, State(), {}).ok());
    EXPECT_TRUE(store.Commit(id, State(), 1).ok());
    return store.PathOf(id);
  }
  void Damage(const std::string& checkpoint) {
    const std::string path = BundleDataPath(checkpoint + "/state", 0, 1);
    std::string bytes = ReadWholeFile(fs_, path).value();
    bytes[0] ^= 1;
    EXPECT_TRUE(PublishFile(fs_, path, bytes).ok());
  }

  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::vector<Tensor> tensors_;
  FileSystem& fs_ = RealFileSystem();
  TempDirectory dir_;
};

TEST_F(CheckpointTest, AGlanceTakesTheNewestWhoseIndexIsWhole) {
  EXPECT_FALSE(GlanceAtCheckpoints(fs_, dir_.File("job")).has_value());
  PutFloats({1, 2, 3, 4, 5, 6});
  Save(9);
  Save(10);
  auto glance = GlanceAtCheckpoints(fs_, dir_.File("job"));
  ASSERT_TRUE(glance.has_value());
  EXPECT_EQ(glance->step, 10);
  EXPECT_THAT(glance->Describe(), MatchesRegex("step 10 \\(step-10-h0-v1.1, [0-9]+ s old\\)"));
  const std::string newest = Save(11);
  ASSERT_TRUE(PublishFile(fs_, newest + "/state.index", "no index").ok());
  EXPECT_EQ(GlanceAtCheckpoints(fs_, dir_.File("job"))->step, 10);
}

TEST_F(CheckpointTest, DiffOfEqualStatesIsZero) {
  PutFloats({1, 2, 3, 4, 5, 6});
  const std::string a = Save(10), b = Save(10, "other");
  const Outcome diff = Checkpoint({"diff", a, b});
  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_THAT(diff.out, EndsWith("equal: 1 tensor\n"));
  EXPECT_EQ(Checkpoint({"diff", a, b, "--json"}).json()["equal"], true);
}

TEST_F(CheckpointTest, DiffNamesEachTensorWhereAndByHowMuch) {
  PutFloats({1, 2, 3, 4, 5, 6});
  Put<int64_t>("step", DType::kInt64, {}, {10});
  Put<float>("gone", DType::kFloat32, {1}, {1});
  Put<float>("grown", DType::kFloat32, {1}, {1});
  const std::string a = Save(10);
  PutFloats({1, 2, 3, 4.5, 5, 5});
  Put<int64_t>("step", DType::kInt64, {}, {std::numeric_limits<int64_t>::min()});
  tensors_.erase(tensors_.begin() + 2);
  Put<double>("grown", DType::kFloat64, {1}, {1});
  Put<float>("new", DType::kFloat32, {0, 3}, {});
  const std::string b = Save(20);
  const Outcome diff = Checkpoint({"diff", a, b});
  EXPECT_EQ(diff.code, 1) << diff.err;
  for (const char* line :
       {"\nmodel/w: float32[2,3], 2 of 6 elements differ, by up to 1, the first at [1,0]\n",
        "\nstep: int64[], 1 of 1 elements differ, by up to 9.22337e+18, the first at []\n",
        "\ngone: only in A, float32[1]\n", "\nnew: only in B, float32[0,3]\n",
        "\ngrown: float32[1] in A, float64[1] in B\n", "\n5 tensors differ\n"}) {
    EXPECT_THAT(diff.out, HasSubstr(line));
  }
  const auto json = Checkpoint({"diff", a, b, "--json"}).json();
  EXPECT_EQ(json["equal"], false);
  ASSERT_EQ(json["tensors"].size(), 5u);
  EXPECT_EQ(json["tensors"][2]["name"], "model/w");
  EXPECT_EQ(json["tensors"][2]["first"], nlohmann::json({1, 0}));
  EXPECT_EQ(json["tensors"][2]["greatest"], 1.0);
}

TEST_F(CheckpointTest, DiffSeesEveryBit) {
  const float nan = std::nanf("");
  PutFloats({0, nan, 1, INFINITY});
  const std::string a = Bundle("a");
  PutFloats({-0.0f, nan, 1, 2});
  const Outcome diff = Checkpoint({"diff", a, Bundle("b"), "--json"});
  EXPECT_EQ(diff.code, 1);
  const auto tensor = diff.json()["tensors"][0];
  EXPECT_EQ(tensor["elements"], 2);  // the equal NaNs are equal
  EXPECT_EQ(tensor["greatest"], 0.0);
  EXPECT_EQ(tensor["not_finite"], 1);
}

TEST_F(CheckpointTest, DiffOfALargeTensorFindsTheLastElement) {
  std::vector<float> values(700001, 1.0f);
  Put("w", DType::kFloat32, {700001}, values);
  const std::string a = Bundle("a");
  values.back() = 3;
  Put("w", DType::kFloat32, {700001}, values);
  EXPECT_THAT(Checkpoint({"diff", a, Bundle("b")}).out,
              HasSubstr("1 of 700001 elements differ, by up to 2, the first at [700000]"));
}

TEST_F(CheckpointTest, DiffOfStringsAndOfTypesWithoutNumbers) {
  auto write = [&](const std::string& name, const char* text) {
    BundleWriter writer(fs_, dir_.File(name));
    EXPECT_TRUE(writer.AddString("note", text).ok());
    EXPECT_TRUE(writer.WriteShard(0, 1).ok() && writer.WriteIndex(1).ok());
    return dir_.File(name);
  };
  const std::string a = write("a", "one");
  EXPECT_EQ(Checkpoint({"diff", a, write("b", "one")}).code, 0);
  const Outcome diff = Checkpoint({"diff", a, write("b", "two")});
  EXPECT_EQ(diff.code, 1);
  EXPECT_THAT(diff.out, HasSubstr("note: string[], 1 of 1 elements differ, the first at []\n"));
}

TEST_F(CheckpointTest, WhatIsKeptBesideTheStateIsToldAndDoesNotCount) {
  PutFloats({1, 2});
  const std::string ours = Save(10), plain = Bundle("plain");
  const Outcome diff = Checkpoint({"diff", ours, plain});
  EXPECT_EQ(diff.code, 0) << diff.out;
  EXPECT_THAT(diff.out, HasSubstr("(digest: " + FullDigest(State()) + " in A, - in B)\n"));
}

TEST_F(CheckpointTest, DiffOfWhatCannotBeReadIs65) {
  PutFloats({1, 2});
  const std::string a = Save(10), b = Save(20);
  Damage(b);
  for (const auto& arguments :
       {std::vector<std::string>{"diff", a, b}, {"diff", b, a}, {"diff", a, dir_.File("none")}}) {
    const Outcome diff = Checkpoint(arguments);
    EXPECT_EQ(diff.code, 65);
    EXPECT_EQ(diff.out, "");
    EXPECT_THAT(diff.err, MatchesRegex("everstep: [^\n]+\n"));
  }
  EXPECT_EQ(Checkpoint({"diff", a}).code, 2);
}

TEST_F(CheckpointTest, DrillTellsWhatARestartTakesAndWhatStandsBehindIt) {
  PutFloats({1, 2});
  Save(10);
  Save(20);
  Save(30);
  const Outcome drill = Checkpoint({"drill", dir_.File("job")});
  EXPECT_EQ(drill.code, 0) << drill.err;
  EXPECT_THAT(drill.out, HasSubstr("step-30-h0-v1.1: a restart takes it; step 30, 8 bytes read"));
  EXPECT_THAT(drill.out, HasSubstr("step-20-h0-v1.1: stands behind it; step 20"));
  EXPECT_THAT(
      drill.out,
      HasSubstr(
          "if step-30-h0-v1.1 is lost, a restart takes step-20-h0-v1.1 and runs 10 steps again\n"));
  EXPECT_THAT(drill.out, HasSubstr("TensorFlow's note: " + dir_.File("job/checkpoints/") +
                                   "step-30-h0-v1.1/state, good\n"));
  const auto json = Checkpoint({"drill", dir_.File("job"), "--json"}).json();
  EXPECT_EQ(json["taken"]["step"], 30);
  EXPECT_GT(json["taken"]["seconds"], 0);
  EXPECT_EQ(json["behind"]["step"], 20);
  EXPECT_EQ(json["steps_between"], 10);
  EXPECT_EQ(json["tensorflow"]["good"], true);
}

TEST_F(CheckpointTest, DrillSaysWhichAreRejectedAndWhy) {
  PutFloats({1, 2});
  Save(10);
  Damage(Save(20));
  Save(30);
  Damage(Save(40));
  const Outcome drill = Checkpoint({"drill", dir_.File("job"), "--json"});
  EXPECT_EQ(drill.code, 0) << drill.err;
  const auto json = drill.json();
  ASSERT_EQ(json["rejected"].size(), 1u);
  EXPECT_EQ(json["rejected"][0]["step"], 40);
  EXPECT_THAT(json["rejected"][0]["error"].get<std::string>(), HasSubstr("does not match"));
  EXPECT_EQ(json["taken"]["step"], 30);
  EXPECT_EQ(json["rejected_behind"][0]["step"], 20);
  EXPECT_EQ(json["behind"]["step"], 10);
  // TensorFlow would take the newest, which is damaged.
  EXPECT_EQ(json["tensorflow"]["good"], false);
  EXPECT_THAT(Checkpoint({"drill", dir_.File("job")}).out,
              HasSubstr("step-40-h0-v1.1: rejected: "));
}

TEST_F(CheckpointTest, DrillIsOneWithASingleGoodCheckpointAnd65WithNone) {
  PutFloats({1, 2});
  const std::string first = Save(10);
  Outcome drill = Checkpoint({"drill", dir_.File("job/checkpoints")});
  EXPECT_EQ(drill.code, 1);
  EXPECT_THAT(drill.out, HasSubstr("no good one stands behind it"));
  ASSERT_TRUE(fs_.Remove(dir_.File("job/checkpoints/checkpoint")).ok());
  EXPECT_EQ(Checkpoint({"drill", dir_.File("job"), "--json"}).json()["tensorflow"]["good"], false);
  Damage(first);
  drill = Checkpoint({"drill", dir_.File("job")});
  EXPECT_EQ(drill.code, 65);
  EXPECT_THAT(drill.out, HasSubstr("step-10-h0-v1.1: rejected: "));
  EXPECT_THAT(drill.err, MatchesRegex("everstep: [^\n]+none of its 1 checkpoints is good\n"));
  for (const std::string& path : {dir_.File("none"), first}) {
    EXPECT_EQ(Checkpoint({"drill", path}).code, 65);
  }
}

TEST_F(CheckpointTest, LsTellsStepHistoryViewAgeAndSize) {
  PutFloats({1, 2});
  Save(10);
  const std::string path = Save(20);
  const Outcome ls = Checkpoint({"ls", dir_.File("job")});
  EXPECT_EQ(ls.code, 0);
  EXPECT_THAT(ls.out, HasSubstr("step-20-h0-v1.1  step 20, history 0, view 1.1  "));
  EXPECT_THAT(ls.out, MatchesRegex("(.|\n)* s old  1 tensor, 8 bytes  [0-9a-f]{32}\n(.|\n)*"));
  auto json = Checkpoint({"ls", dir_.File("job"), "--json"}).json();
  EXPECT_EQ(json[1]["step"], 20);
  EXPECT_EQ(json[1]["history"], 0);
  EXPECT_EQ(json[1]["view"], "1.1");
  EXPECT_EQ(json[1]["bytes"], 8);
  EXPECT_LT(json[1]["age_seconds"], 1000);
  ASSERT_TRUE(fs_.Remove(BundleDataPath(path + "/state", 0, 1)).ok());
  json = Checkpoint({"ls", dir_.File("job"), "--json"}).json();
  EXPECT_FALSE(json[0].contains("error"));
  EXPECT_TRUE(json[1].contains("error"));
  EXPECT_THAT(Checkpoint({"ls", dir_.File("job")}).out, HasSubstr("old  DAMAGED: "));
}

}  // namespace
}  // namespace everstep
