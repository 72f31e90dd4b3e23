// supervise: tests of the environment of a process.
#include "everstep/supervise/child_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/job/directory.h"

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
          "10.0.0.9:29700",
          "/jobs/a/secret",
          "",
          "avx2"};
}

TEST(ChildEnvironment, SaysWhoTheProcessIsAndWhereTheJobIs) {
  const auto got = ChildEnvironment(Worker(1), Context());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->at("TF_CONFIG"), R"({"cluster":{"worker":["127.0.0.1:29710","[::1]:29711"]},)"
                                  R"("task":{"type":"worker","index":1}})");
  EXPECT_EQ(got->at("EVERSTEP_COORDINATOR"), "10.0.0.9:29700");
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
  auto got = ChildEnvironment(Worker(0), context);
  EXPECT_EQ(got->at("no_proxy"), "internal,10.0.0.9,127.0.0.1,::1,localhost");
  EXPECT_EQ(got->at("NO_PROXY"), "internal,10.0.0.9,127.0.0.1,::1,localhost");
  EXPECT_EQ(got->count("no_grpc_proxy"), 0u);
  context.inherited["no_grpc_proxy"] = "x";
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("no_grpc_proxy"),
            "x,10.0.0.9,127.0.0.1,::1,localhost");
}

TEST(ChildEnvironment, AProxyIsSeenAndExemptedFromInEitherSpelling) {
  ChildContext context = Context();
  context.inherited["HTTPS_PROXY"] = "http://proxy:3128";
  auto got = ChildEnvironment(Worker(0), context);
  EXPECT_EQ(got->at("no_proxy"), "10.0.0.9,127.0.0.1,::1,localhost");
  EXPECT_EQ(got->at("NO_PROXY"), "10.0.0.9,127.0.0.1,::1,localhost");
  context.inherited["NO_PROXY"] = ".corp, localhost";
  got = ChildEnvironment(Worker(0), context);
  EXPECT_EQ(got->at("no_proxy"), ".corp, localhost,10.0.0.9,127.0.0.1,::1");
  EXPECT_EQ(got->at("NO_PROXY"), ".corp, localhost,10.0.0.9,127.0.0.1,::1");
  context.inherited["no_proxy"] = "*";
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("no_proxy"), "*");
}

TEST(ChildEnvironment, ATrainerKnowsItsPlaceOnItsHost) {
  Spawn spawn = Worker(1);
  spawn.local_rank = 1;
  spawn.local_size = 2;
  ChildContext context = Context();
  context.inherited["LOCAL_WORLD_SIZE"] = "8";
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("LOCAL_RANK"), "1");
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("LOCAL_WORLD_SIZE"), "2");
}

TEST(ChildEnvironment, WhoIsNoTrainerHasNoRank) {
  Spawn ps = Worker(0);
  ps.task = {"ps", 0};
  ps.cluster.jobs["ps"] = {"127.0.0.1:29712"};
  ps.local_rank = -1;
  Spawn evaluator = ps;
  evaluator.task = {"evaluator", 0};
  evaluator.cluster.jobs = {{"evaluator", {"127.0.0.1:29713"}}};
  ChildContext context = Context();
  context.inherited["LOCAL_RANK"] = "0";
  for (const Spawn& spawn : {ps, evaluator}) {
    const auto got = ChildEnvironment(spawn, context);
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}) {
      EXPECT_EQ(got->count(name), 0u) << name;
    }
  }
  EXPECT_EQ(ChildEnvironment(evaluator, context)->at("TF_CONFIG"),
            R"({"cluster":{"evaluator":["127.0.0.1:29713"]},)"
            R"("task":{"type":"evaluator","index":0}})");
}

TEST(ChildEnvironment, ATfConfigThatIsThereIsReplaced) {
  ChildContext context = Context();
  context.inherited["TF_CONFIG"] = "{\"cluster\":{\"worker\":[\"elsewhere:1\"]}}";
  EXPECT_THAT(ChildEnvironment(Worker(0), context)->at("TF_CONFIG"), HasSubstr("127.0.0.1:29710"));
  Spawn alone = Worker(0);
  alone.cluster.jobs.clear();
  EXPECT_EQ(ChildEnvironment(alone, context)->count("TF_CONFIG"), 0u);
}

TEST(ChildEnvironment, TheSecretIsInTheJobDirectoryUnlessItIsSaidElsewhere) {
  ChildContext context = Context();
  context.secret_file = "";
  Spawn spawn = Worker(0);
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("EVERSTEP_SECRET_FILE"), "");
  spawn.settings["EVERSTEP_JOB_DIR"] = "/jobs/b";
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("EVERSTEP_SECRET_FILE"), SecretPath("/jobs/b"));
  context.job_directory = "/here/b";
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("EVERSTEP_SECRET_FILE"), SecretPath("/here/b"));
}

TEST(ChildEnvironment, ANativeProgramHasTheJobsThreadsWhateverItsRole) {
  ChildContext context = Context();
  context.native = true;
  Spawn roles = Worker(0);
  roles.cluster.jobs["chief"] = {"c:1"};
  EXPECT_EQ(ChildEnvironment(roles, context)->at("OMP_NUM_THREADS"), "3");
}

TEST(ChildEnvironment, OfAProgramThatKnowsNothingOfUsTheUsersThreadsStay) {
  Spawn spawn = Worker(0);
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("OMP_NUM_THREADS"), "3");
  spawn.settings["EVERSTEP_GANG"] = "0";
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("OMP_NUM_THREADS"), "3");
  spawn.settings["EVERSTEP_GANG"] = "1";
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("OMP_NUM_THREADS"), "64");
  ChildContext unset = Context();
  unset.inherited.erase("OMP_NUM_THREADS");
  EXPECT_EQ(ChildEnvironment(spawn, unset)->at("OMP_NUM_THREADS"), "3");
  Spawn roles = Worker(0);
  roles.cluster.jobs["chief"] = {"c:1"};
  EXPECT_EQ(ChildEnvironment(roles, Context())->at("OMP_NUM_THREADS"), "64");
}

TEST(ChildEnvironment, GrpcWaitsForALostParameterServer) {
  Spawn spawn = Worker(0);
  EXPECT_EQ(ChildEnvironment(spawn, Context())->count("GRPC_FAIL_FAST"), 0u);
  spawn.cluster.jobs["ps"] = {"127.0.0.1:29712"};
  EXPECT_EQ(ChildEnvironment(spawn, Context())->at("GRPC_FAIL_FAST"), "use_caller");
  ChildContext context = Context();
  context.inherited["GRPC_FAIL_FAST"] = "false";
  EXPECT_EQ(ChildEnvironment(spawn, context)->at("GRPC_FAIL_FAST"), "false");
}

TEST(ChildEnvironment, CollectivesTakeTheInterfaceOfTheClustersAddress) {
  ChildContext context = Context();
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("NCCL_SOCKET_IFNAME"), "=lo");
  context.interface_of = [](const std::string& address) {
    return address == "127.0.0.1" ? "eth0" : address == "::1" ? "ib0" : "";
  };
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("GLOO_SOCKET_IFNAME"), "eth0");
  EXPECT_EQ(ChildEnvironment(Worker(1), context)->at("GLOO_SOCKET_IFNAME"), "ib0");
  context.inherited["NCCL_SOCKET_IFNAME"] = "^docker0";
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->at("NCCL_SOCKET_IFNAME"), "^docker0");
  context.interface_of = [](const std::string&) { return ""; };
  EXPECT_EQ(ChildEnvironment(Worker(0), context)->count("GLOO_SOCKET_IFNAME"), 0u);
}

TEST(ChildEnvironment, TheLibrariesSayAllTheyCanWhenAsked) {
  Spawn spawn = Worker(0);
  spawn.settings["EVERSTEP_DEBUG_LIBS"] = "0";
  EXPECT_EQ(ChildEnvironment(spawn, Context())->count("NCCL_DEBUG"), 0u);
  spawn.settings["EVERSTEP_DEBUG_LIBS"] = "1";
  ChildContext context = Context();
  context.inherited["TF_CPP_MIN_LOG_LEVEL"] = "3";
  const auto got = ChildEnvironment(spawn, context);
  EXPECT_EQ(got->at("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(got->at("GRPC_VERBOSITY"), "DEBUG");
  EXPECT_EQ(got->at("ABSL_MIN_LOG_LEVEL"), "0");
  EXPECT_EQ(got->at("TF_CPP_MIN_LOG_LEVEL"), "3");
}

class Gpus : public testing::Test {
 protected:
  Gpus() {
    context_.count_gpus = [this] { return gpus_; };
    spawn_.local_rank = 1;
    spawn_.local_size = 2;
  }
  // CUDA_VISIBLE_DEVICES, or why there is none.
  std::string Visible(const std::string& each) {
    spawn_.settings["EVERSTEP_GPUS_PER_TASK"] = each;
    const auto got = ChildEnvironment(spawn_, context_);
    if (!got.ok()) return std::string(got.status().message());
    return got->count("CUDA_VISIBLE_DEVICES") != 0 ? got->at("CUDA_VISIBLE_DEVICES") : "unset";
  }

  int gpus_ = 4;
  ChildContext context_ = Context();
  Spawn spawn_ = Worker(1);
};

TEST_F(Gpus, AreSharedByThePlaceOnTheHost) {
  EXPECT_EQ(Visible(""), "unset");
  EXPECT_EQ(Visible("1"), "1");
  EXPECT_EQ(Visible("2"), "2,3");
}

TEST_F(Gpus, AreThoseThatWereVisibleToUs) {
  context_.inherited["CUDA_VISIBLE_DEVICES"] = "7, GPU-5f,3,1,-1,4";
  EXPECT_EQ(Visible("1"), "GPU-5f");
  EXPECT_EQ(Visible("2"), "3,1");
}

TEST_F(Gpus, AreHiddenFromThoseWhoGetNone) {
  EXPECT_EQ(Visible("0"), "");
  spawn_.local_rank = -1;
  EXPECT_EQ(Visible("2"), "");
}

TEST_F(Gpus, FewerThanAskedForIsAnErrorThatSaysHowManyThereAre) {
  EXPECT_EQ(
      Visible("3"),
      "--gpus-per-task 3 asks for 6 GPUs on this host (2 tasks), and it has 4; give a smaller "
      "--gpus-per-task or fewer tasks");
  context_.inherited["CUDA_VISIBLE_DEVICES"] = "5";
  EXPECT_THAT(Visible("1"), HasSubstr("has 1 in CUDA_VISIBLE_DEVICES=5"));
  // The first one, too, whose own share is there.
  spawn_.local_rank = 0;
  EXPECT_THAT(Visible("1"), HasSubstr("asks for 2 GPUs"));
  EXPECT_EQ(ChildEnvironment(spawn_, context_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace everstep
