// supervise: tests of the environment of a process.
#include "everstep/supervise/child_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace everstep {
namespace {

using testing::HasSubstr;

Spawn Worker(int index) {
  Spawn spawn;
  spawn.task = {"worker", index};
  spawn.incarnation = 17;
  spawn.cluster.jobs["worker"] = {"127.0.0.1:29710", "[::1]:29711"};
  spawn.settings = {{"EVERSTEP_SEED", "7"}, {"EVERSTEP_THREADS_PER_REPLICA", "3"}};
  return spawn;
}

ChildContext Context() {
  return {{{"PATH", "/bin"}, {"EVERSTEP_SEED", "1"}, {"RANK", "9"}, {"OMP_NUM_THREADS", "64"}},
          "127.0.0.1:29700",
          "/jobs/a/secret",
          "",
          "avx2"};
}

TEST(ChildEnvironment, SaysWhoTheProcessIsAndWhereTheJobIs) {
  const auto got = ChildEnvironment(Worker(1), Context());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("TF_CONFIG"), R"({"cluster":{"worker":["127.0.0.1:29710","[::1]:29711"]},)"
                                  R"("task":{"type":"worker","index":1}})");
  EXPECT_EQ(got->at("EVERSTEP_COORDINATOR"), "127.0.0.1:29700");
  EXPECT_EQ(got->at("EVERSTEP_INCARNATION"), "17");
  EXPECT_EQ(got->at("EVERSTEP_SECRET_FILE"), "/jobs/a/secret");
  EXPECT_EQ(got->at("RANK"), "1");
  EXPECT_EQ(got->at("WORLD_SIZE"), "2");
  EXPECT_EQ(got->at("MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(got->at("MASTER_PORT"), "29710");
}

TEST(ChildEnvironment, TheJobsSettingsGoBeforeWhatIsInherited) {
  const auto got = ChildEnvironment(Worker(0), Context());
  EXPECT_EQ(got->at("EVERSTEP_SEED"), "7");
  EXPECT_EQ(got->at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(got->at("PATH"), "/bin");
  EXPECT_EQ(got->at("PYTHONUNBUFFERED"), "1");
}

TEST(ChildEnvironment, TheJobDirectoryIsWhereThisHostSeesIt) {
  Spawn spawn = Worker(0);
  spawn.settings["EVERSTEP_JOB_DIR"] = "/jobs/a";
  ChildContext context = Context();
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("EVERSTEP_JOB_DIR"), "/jobs/a");
  context.job_directory = "/mnt/jobs/a";
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("EVERSTEP_JOB_DIR"), "/mnt/jobs/a");
}

TEST(ChildEnvironment, AChiefHasRankZero) {
  Spawn spawn = Worker(0);
  spawn.cluster.jobs["chief"] = {"c:1"};
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("RANK"), "1");
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("MASTER_ADDR"), "c");
  spawn.task = {"chief", 0};
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("RANK"), "0");
}

TEST(ChildEnvironment, LowersTheLibrariesToTheBaseline) {
  Spawn spawn = Worker(0);
  EXPECT_EQ(ChildEnvironment(spawn, Context())->count("ATEN_CPU_CAPABILITY"), 0u);
  spawn.settings["EVERSTEP_CPU_BASELINE"] = "native";
  EXPECT_EQ(ChildEnvironment(spawn, Context())->count("ATEN_CPU_CAPABILITY"), 0u);
  spawn.settings["EVERSTEP_CPU_BASELINE"] = "avx2";
  const auto got = ChildEnvironment(spawn, Context());
  EXPECT_EQ(got->at("ATEN_CPU_CAPABILITY"), "avx2");
  EXPECT_EQ(got->at("OPENBLAS_CORETYPE"), "Haswell");
  EXPECT_EQ(got->at("ONEDNN_MAX_CPU_ISA"), "AVX2");
}

TEST(ChildEnvironment, AMachineBelowTheBaselineIsRefused) {
  Spawn spawn = Worker(0);
  spawn.settings["EVERSTEP_CPU_BASELINE"] = "avx512";
  const absl::Status status = ChildEnvironment(spawn, Context()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("avx512"));
}

TEST(ChildEnvironment, TheClustersHostsGoAroundAProxy) {
  ChildContext context = Context();
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->count("no_proxy"), 0u);
  context.inherited["https_proxy"] = "http://proxy:3128";
  context.inherited["no_proxy"] = "internal";
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("no_proxy"), "internal,127.0.0.1,::1");
}

}  // namespace
}  // namespace everstep
