// cli: rules of a dry run.
#include "everstep/cli/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "everstep/cli/command.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DryRun, EachTaskHasItsClusterAndTheEvaluatorOnlyItself) {
  JobSpec spec;
  spec.chiefs = 1;
  spec.workers = 2;
  spec.parameter_servers = 1;
  spec.evaluators = 1;
  const std::vector<Spawn> spawns = DrySpawns(spec, "10.0.0.1", 5, {1001, 1002, 1003, 1004, 1005});
  ASSERT_EQ(spawns.size(), 5u);
  EXPECT_EQ(spawns[0].task.ToString(), "chief:0");
  EXPECT_THAT(spawns[3].cluster.jobs.at("worker"), ElementsAre("10.0.0.1:1002", "10.0.0.1:1003"));
  EXPECT_THAT(spawns[0].cluster.jobs.at("ps"), ElementsAre("10.0.0.1:1004"));
  EXPECT_EQ(spawns[0].cluster.jobs.count("evaluator"), 0u);
  EXPECT_EQ(spawns[4].cluster.jobs.size(), 1u);
  EXPECT_THAT(spawns[4].cluster.jobs.at("evaluator"), ElementsAre("10.0.0.1:1005"));
  EXPECT_EQ(spawns[2].local_rank, 2);
  EXPECT_EQ(spawns[3].local_rank, -1);
  EXPECT_EQ(spawns[2].local_size, 3);
}

TEST(DryRun, OfTheTasksOfOtherHostsItTellsNothingButTheirPlace) {
  JobSpec spec;
  spec.workers = 3;
  const std::vector<Spawn> spawns = DrySpawns(spec, "10.0.0.1", 2, {1001, 1002});
  ASSERT_EQ(spawns.size(), 2u);
  EXPECT_EQ(spawns[0].local_size, 2);
  EXPECT_EQ(spawns[1].cluster.jobs.at("worker")[2], "OTHER-HOST:29710");
}

TEST(DryRun, PrintsWhatAShellTakesAndMakesNothing) {
  TempDirectory dir;
  RunPlan plan;
  plan.spec.workers = 2;
  plan.spec.directory = dir.File("job");
  plan.program = {"python3", "a b.py"};
  plan.slots = 2;
  plan.dial_host = "127.0.0.1";
  plan.listen = {"127.0.0.1", 4711};
  std::ostringstream out;
  ASSERT_TRUE(PrintDryRun(plan, out).ok());
  EXPECT_THAT(out.str(), HasSubstr("# worker:0\n"));
  EXPECT_THAT(out.str(), HasSubstr("TF_CONFIG='{\"cluster\":{\"worker\":[\"127.0.0.1:297"));
  EXPECT_THAT(out.str(), HasSubstr("\nRANK=1 \\\n"));
  EXPECT_THAT(out.str(), HasSubstr("EVERSTEP_COORDINATOR=127.0.0.1:4711 \\\n"));
  EXPECT_THAT(out.str(), HasSubstr("\npython3 'a b.py'\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("PATH="))) << "the processes have that from here";
  EXPECT_FALSE(RealFileSystem().Exists(dir.File("job")));
}

TEST(DryRun, OfTheCommandStartsNothing) {
  TempDirectory dir;
  const std::string job = dir.File("job");
  std::vector<std::string> words = {
      "everstep", "run", "--job-dir", job, "-n", "2", "--dry-run", "--", "touch", dir.File("made")};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  const int code = EverstepMain(static_cast<int>(argv.size()), argv.data());
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  EXPECT_THAT(out, HasSubstr("# worker:1\n"));
  EXPECT_THAT(out, HasSubstr("\ntouch "));
  EXPECT_FALSE(RealFileSystem().Exists(job));
  EXPECT_FALSE(RealFileSystem().Exists(dir.File("made")));
}

}  // namespace
}  // namespace everstep
