// observe: rules of the start block.
#include "everstep/observe/start_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/tree.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StartBlock, SaysWhatReplicasThatDoNotDivideCost) {
  EXPECT_EQ(DivisionNote(AssignReplicas(4, 4)), "");
  EXPECT_EQ(DivisionNote(AssignReplicas(8, 2)), "");
  // Half the speed of four workers, two thirds of what three could do: not three quarters.
  EXPECT_THAT(DivisionNote(AssignReplicas(4, 3)), HasSubstr("the speed is 67 %"));
}

TEST(StartBlock, ShowsWhatAPersonNeedsToRepeatOrJoinTheJob) {
  StartFacts f;
  f.version = "0.1.0";
  f.program = "train";
  f.job_dir = "runs/train-1";
  f.seed = 7;
  f.seed_drawn = true;
  f.workers = 4;
  f.slots = 2;
  f.replica_begins = AssignReplicas(4, 4);
  f.cores = 2;
  f.coordinator = "10.0.0.1:29700";
  f.data_ports = "29710-29799";
  const std::string block = StartBlock(f);
  EXPECT_THAT(block, HasSubstr("seed         7 (drawn; --seed repeats it)"));
  EXPECT_THAT(block, HasSubstr("4 on 4 workers (1+1+1+1)"));
  EXPECT_THAT(block, HasSubstr("2 more slots; on another host:\n"));
  EXPECT_THAT(block, HasSubstr("  everstep agent --coordinator 10.0.0.1:29700 --slots 2 --job-dir "
                               "runs/train-1 -- train\n"));
  f.insecure = true;
  EXPECT_THAT(StartBlock(f), HasSubstr("--job-dir runs/train-1 --insecure -- train\n"));
  EXPECT_THAT(block, Not(HasSubstr("hint")));
  f.cores = 16;
  EXPECT_THAT(StartBlock(f), HasSubstr("2 of 16 cores are used"));
}

TEST(StartBlock, SaysThatAJobGoesOnAndHintsAtNothingThatIsTheJobsForLife) {
  StartFacts f;
  f.replica_begins = {0, 1};
  f.cores = 16;
  EXPECT_THAT(StartBlock(f), HasSubstr("--threads-per-replica"));
  EXPECT_THAT(StartBlock(f), Not(HasSubstr("goes on")));
  EXPECT_THAT(StartBlock(f), Not(HasSubstr("  directory ")));
  f.directory = "/home/me";
  EXPECT_THAT(StartBlock(f), HasSubstr("  directory    /home/me\n"));
  f.goes_on = "from step 537 (step-537-h0-v1.2, 15 s old)";
  EXPECT_THAT(StartBlock(f),
              HasSubstr("  goes on      from step 537 (step-537-h0-v1.2, 15 s old)\n"));
  EXPECT_THAT(StartBlock(f), Not(HasSubstr("--threads-per-replica")));
}

TEST(StartBlock, OfAGangNamesItsTasksAndNothingOfATrainingThatIsNotOurs) {
  StartFacts f;
  f.gang = true;
  f.workers = 4;  // tasks
  f.slots = 2;
  f.tasks = TasksText(1, 2, 1, 0);
  f.replica_begins = {0, 2};
  f.cores = 16;
  f.coordinator = "10.0.0.1:29700";
  f.job_dir = "/shared/a";
  f.program = "python3 train.py";
  std::string block = StartBlock(f);
  EXPECT_THAT(block, HasSubstr("  tasks        chief, 2 workers, 1 ps\n"));
  EXPECT_THAT(block, HasSubstr("silence is only told of (--hang-action kill)"));
  EXPECT_THAT(block, HasSubstr("  checkpoints  searched for"));
  EXPECT_THAT(block, HasSubstr("--slots 2 --job-dir /shared/a -- python3 train.py\n"));
  for (const char* alien : {"seed", "replica", "thread"}) EXPECT_THAT(block, Not(HasSubstr(alien)));
  f.kills_silent = true;
  f.checkpoint_path = "/ckpt";
  f.notes = {"one", "two"};
  block = StartBlock(f);
  EXPECT_THAT(block, HasSubstr("also when only silence tells of one"));
  EXPECT_THAT(block, HasSubstr("looked for in /ckpt\n"));
  EXPECT_THAT(block, HasSubstr("  note         one\n  note         two\n"));
}

TEST(StartBlock, TasksAreNamedByTheirRoles) {
  EXPECT_EQ(TasksText(0, 1, 0, 0), "1 worker");
  EXPECT_EQ(TasksText(1, 3, 2, 1), "chief, 3 workers, 2 ps, evaluator");
}

}  // namespace
}  // namespace everstep
