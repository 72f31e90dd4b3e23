// cluster: tests of TF_CONFIG.
#include "everstep/cluster/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

using testing::HasSubstr;

TfConfig Read(const std::string& text) {
  auto config = ReadTfConfig(text);
  EXPECT_TRUE(config.ok()) << text << ": " << config.status();
  return config.ok() && config->has_value() ? **config : TfConfig();
}

std::string Refusal(const std::string& text) {
  const absl::Status status = ReadTfConfig(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(status.message()), HasSubstr("TF_CONFIG"));
  return std::string(status.message());
}

constexpr char kTwo[] = R"("cluster":{"worker":["a:1","b:2"]})";

TEST(WriteTfConfig, IsCanonical) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {"127.0.0.1:29710", "[::1]:29711"}}, {"chief", {"a:1"}}, {"ps", {}}};
  EXPECT_EQ(WriteTfConfig(cluster, {"worker", 1}),
            R"({"cluster":{"chief":["a:1"],"worker":["127.0.0.1:29710","[::1]:29711"]},)"
            R"("task":{"type":"worker","index":1}})");
}

TEST(WriteTfConfig, ReadsBack) {
  ClusterSpec cluster;
  cluster.jobs = {{"worker", {"a:1", "[::1]:2", "c:3"}}, {"evaluator", {"e:9"}}};
  const TfConfig read = Read(WriteTfConfig(cluster, {"worker", 2}));
  EXPECT_EQ(read.cluster.jobs, cluster.jobs);
  EXPECT_EQ(read.task, (Task{"worker", 2}));
  EXPECT_EQ(read.NumTrainers(), 3);
}

TEST(ReadTfConfig, UnsetIsAloneAndEmptyIsAnError) {
  EXPECT_FALSE(ReadTfConfig(std::nullopt)->has_value());
  EXPECT_THAT(Refusal(""), HasSubstr("empty"));
  EXPECT_THAT(Refusal("  "), HasSubstr("empty"));
}

TEST(ReadTfConfig, WithoutAClusterIsAlone) {
  EXPECT_TRUE(Read("{}").cluster.jobs.empty());
  EXPECT_TRUE(Read(R"({"cluster":{},"task":{"type":"worker","index":0}})").cluster.jobs.empty());
}

TEST(ReadTfConfig, IgnoresWhatTensorFlowIgnores) {
  const TfConfig config =
      Read(absl::StrCat("{", kTwo, R"(,"task":{"type":"worker","index":1},"environment":"cloud",)",
                        R"("rpc_layer":"grpc"})"));
  EXPECT_EQ(config.task, (Task{"worker", 1}));
}

TEST(ReadTfConfig, TakesAnIndexAsNumberOrDecimalText) {
  for (const char* index : {"1", "\"1\"", "\" 1 \""}) {
    EXPECT_EQ(
        Read(absl::StrCat("{", kTwo, R"(,"task":{"type":"worker","index":)", index, "}}")).task,
        (Task{"worker", 1}));
  }
  for (const char* index :
       {"-1", "1.5", "true", "null", "\"\"", "\"0x1\"", "\"one\"", "[0]", "99999999999999999999"}) {
    EXPECT_THAT(
        Refusal(absl::StrCat("{", kTwo, R"(,"task":{"type":"worker","index":)", index, "}}")),
        HasSubstr("task.index"));
  }
}

TEST(ReadTfConfig, IndexBeyondTheTasksSaysHowManyThereAre) {
  EXPECT_THAT(Refusal(absl::StrCat("{", kTwo, R"(,"task":{"type":"worker","index":2}})")),
              HasSubstr("index 2 but worker has 2 tasks (0-1)"));
  EXPECT_THAT(Refusal(absl::StrCat("{", kTwo, R"(,"task":{"type":"ps","index":0}})")),
              HasSubstr("'ps'"));
}

TEST(ReadTfConfig, AnEvaluatorMayStandApart) {
  EXPECT_EQ(Read(absl::StrCat("{", kTwo, R"(,"task":{"type":"evaluator","index":0}})")).task,
            (Task{"evaluator", 0}));
}

TEST(ReadTfConfig, TasksMayBeAnObjectWithoutGaps) {
  const TfConfig config =
      Read(R"({"cluster":{"worker":{"1":"b:2","0":"a:1"}},"task":{"type":"worker","index":0}})");
  EXPECT_EQ(config.cluster.jobs.at("worker"), (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_THAT(Refusal(R"({"cluster":{"worker":{"1":"b:2"}},"task":{"type":"worker","index":1}})"),
              HasSubstr("no task 0"));
}

TEST(ReadTfConfig, BrokenJsonNamesTheByte) {
  EXPECT_THAT(Refusal(R"({"cluster": {"worker": ["a:1",]}})"), HasSubstr("byte 31"));
  EXPECT_THAT(Refusal("{'cluster': {}}"), HasSubstr("byte 2"));
  Refusal(std::string(100000, '['));
}

TEST(ReadTfConfig, WrongShapesNameThePlace) {
  EXPECT_THAT(Refusal("[]"), HasSubstr("object"));
  EXPECT_THAT(Refusal("null"), HasSubstr("object"));
  EXPECT_THAT(Refusal(R"({"cluster":null})"), HasSubstr("cluster"));
  EXPECT_THAT(Refusal(R"({"cluster":{"worker":"h:1"}})"), HasSubstr("cluster.worker"));
  EXPECT_THAT(Refusal(R"({"cluster":{"worker":["a:1",7]}})"), HasSubstr("cluster.worker[1]"));
  EXPECT_THAT(Refusal(R"({"cluster":{"worker":["a"]}})"), HasSubstr("cluster.worker[0]"));
  EXPECT_THAT(Refusal(R"({"cluster":{"master":["a:1"]}})"), HasSubstr("not master"));
  EXPECT_THAT(Refusal(R"({"cluster":{"chief":["a:1","b:1"]}})"), HasSubstr("only one"));
  EXPECT_THAT(Refusal(absl::StrCat("{", kTwo, "}")), HasSubstr("task"));
  EXPECT_THAT(Refusal(absl::StrCat("{", kTwo, R"(,"task":null})")), HasSubstr("task"));
}

}  // namespace
}  // namespace everstep
