// membership: the rules for gangs: roles, what is one, how it ends, the evaluator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_gang.h"
#include "everstep/membership/job_status.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- roles ----

TEST_F(GangTest, TrainersArePlacedFirstThenServersThenTheEvaluator) {
  TestJob job = Gang(2);
  job.options.chiefs = 1;
  job.options.parameter_servers = 1;
  job.options.evaluators = 1;
  job.Gather();
  std::vector<std::string> places;
  for (const WorkerEntry& worker : job.state.workers) {
    places.push_back(absl::StrCat(worker.task.ToString(), "@", worker.address));
  }
  EXPECT_THAT(places,
              ElementsAre("chief:0@a.net:5000", "worker:0@a.net:5001", "worker:1@b.net:5000",
                          "ps:0@b.net:5001", "evaluator:0@c.net:5000"));
}

TEST_F(GangTest, NobodySeesTheEvaluatorInTheClusterAndItSeesOnlyItself) {
  TestJob job = Gang(2);
  job.options.chiefs = 1;
  job.options.parameter_servers = 1;
  job.options.evaluators = 1;
  job.Gather();
  const auto trainer = job.AgentGot<Spawn>("agent-a").at(0).cluster.jobs;
  EXPECT_EQ(trainer, (std::map<std::string, std::vector<std::string>>{
                         {"chief", {"a.net:5000"}},
                         {"worker", {"a.net:5001", "b.net:5000"}},
                         {"ps", {"b.net:5001"}}}));
  EXPECT_EQ(job.AgentGot<Spawn>("agent-b").at(1).cluster.jobs, trainer);
  EXPECT_EQ(job.AgentGot<Spawn>("agent-c").at(0).cluster.jobs,
            (std::map<std::string, std::vector<std::string>>{{"evaluator", {"c.net:5000"}}}));
}

TEST_F(GangTest, LocalRanksAreAmongTheTrainersOfAHost) {
  TestJob job = Gang(2);
  job.options.chiefs = 1;
  job.options.parameter_servers = 1;
  job.Gather();
  const std::vector<Spawn> a = job.AgentGot<Spawn>("agent-a"), b = job.AgentGot<Spawn>("agent-b");
  EXPECT_EQ(a.at(0).local_rank, 0);
  EXPECT_EQ(a.at(1).local_rank, 1);
  EXPECT_EQ(a.at(1).local_size, 2);
  EXPECT_EQ(b.at(0).local_rank, 0);
  EXPECT_EQ(b.at(0).local_size, 1);
  EXPECT_EQ(b.at(1).local_rank, -1) << "a parameter server";
}

TEST_F(GangTest, EveryTaskNeedsASlot) {
  TestJob job = Gang(1);
  job.options.evaluators = 1;
  job.AgentRegisters("agent-a", "a", 1);
  EXPECT_TRUE(job.state.workers.empty());
  EXPECT_EQ(job.reason, "waiting for 1 more slot");
  job.AgentRegisters("agent-b", "b", 1);
  EXPECT_EQ(job.state.workers.size(), 2u);
}

TEST_F(GangTest, ServersWithoutAChiefAndTwoChiefsAreRefused) {
  JobOptions options;
  options.parameter_servers = 1;
  EXPECT_THAT(CheckJob(options).ToString(), HasSubstr("--chief 1"));
  options.chiefs = 1;
  EXPECT_TRUE(CheckJob(options).ok());
  options.chiefs = 2;
  EXPECT_FALSE(CheckJob(options).ok());
}

TEST_F(GangTest, PortsOfAnAgentCountFromTheNextStartOn) {
  TestJob job = Gang(2);
  Run(job);
  job.Feed(AgentSaid{"agent-a", Ports{{7000, 7001}}});
  EXPECT_EQ(job.state.workers[1].address, "a.net:5001");
  Fails(job, 0, KilledBy(9));
  EXPECT_EQ(job.state.workers[1].address, "a.net:7001");
  job.Feed(AgentSaid{"agent-a", Ports{{8000}}});  // too few: passed over
  Fails(job, 0, KilledBy(9));
  EXPECT_EQ(job.state.workers[1].address, "a.net:7001");
}

// ---- what is a gang ----

TEST_F(GangTest, AProgramThatSaysNothingForTenSecondsIsOneAndPeopleAreToldOnce) {
  TestJob job = Gang(2, false);
  job.Gather();
  job.Pass(9 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.Told(), Not(HasSubstr("gang")));
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_THAT(job.Told(), HasSubstr("says nothing to Everstep"));
  EXPECT_THAT(job.Told(), HasSubstr("--gang"));
  EXPECT_EQ(job.Recorded(record_kind::kTraining).size(), 1u);
  job.ForgetOrders();
  Fails(job, 0, KilledBy(9), false);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning) << "what it is is known now";
  EXPECT_THAT(job.Told(), Not(HasSubstr("says nothing")));
}

TEST_F(GangTest, AHelloThatComesLateMakesItANativeOneAfterAll) {
  TestJob job = Gang(2, false);
  job.Gather();
  job.Pass(20 * kSecond);
  ASSERT_EQ(job.state.phase, JobPhase::kRunning);
  job.Join();
  EXPECT_EQ(job.state.phase, JobPhase::kTraining);
  EXPECT_FALSE(StatusOf(job.now, job.state).gang);
  job.Leaves(0, LeaveReason::kFinished);
  job.Leaves(1, LeaveReason::kFinished);
  job.AllExit();
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(GangTest, AHelloUnderGangEndsTheJobWith78AndSaysWhatToLeaveOut) {
  TestJob job = Gang(2);
  Run(job);
  job.SaysHello(1);
  job.AllExit(KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitConfiguration);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 has said hello: this program is a native one"));
  EXPECT_THAT(job.end->reason, HasSubstr("--gang"));
}

TEST_F(GangTest, OrdersAreRepeatedToAnAgentThatComesBackUntilTheProcessIsSeen) {
  TestJob job = Gang(2);
  job.Gather();
  job.Sees(1, TestJob::GoingOn());
  job.ForgetOrders();
  job.AgentRegisters("agent-a", "a", 2);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0"));
  // Though nothing is seen of it for so long that it is taken to run.
  job.Pass(15 * kSecond);
  job.ForgetOrders();
  job.AgentRegisters("agent-a", "a", 2);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0"));
}

// ---- ends ----

TEST_F(GangTest, IsDoneWhenAllTrainersHaveExitedWith0) {
  TestJob job = Gang(2);
  job.options.chiefs = 1;
  Run(job);
  job.Exits(0, ExitedWith(0));
  job.Exits(2, ExitedWith(0));
  EXPECT_FALSE(job.end);
  job.Exits(1, ExitedWith(0));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(GangTest, WhoHasFinishedIsWaitedForAndPeopleAreToldAfterHalfAMinute) {
  TestJob job = Gang(2);
  Run(job);
  job.Exits(0, ExitedWith(0));
  job.Pass(29 * kSecond);
  EXPECT_THAT(job.Told(), Not(HasSubstr("still runs")));
  job.Pass(100 * kSecond);
  const std::string told = job.Told();
  EXPECT_THAT(told, HasSubstr("worker:0 has exited with code 0 and worker:1 still runs"));
  EXPECT_EQ(told.find("still runs"), told.rfind("still runs")) << "once";
  EXPECT_FALSE(job.end);
}

TEST_F(GangTest, WhenAnotherFailsThoseThatHadFinishedStartAgainToo) {
  TestJob job = Gang(3);
  Run(job);
  job.Exits(0, ExitedWith(0));
  job.ForgetOrders();
  Fails(job, 1, KilledBy(9));
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1", "worker:2"));
  EXPECT_THAT(job.Told(), HasSubstr("\nworker:2 ended because worker:1 did"));
}

TEST_F(GangTest, ASuccessInAnswerToBeingEndedIsNone) {
  TestJob job = Gang(2);
  Run(job);
  job.Exits(1, KilledBy(9));
  job.Pass(kSecond);
  job.Exits(0, ExitedWith(0));  // its SIGTERM handler saves and leaves
  job.Pass(2 * kSecond);
  EXPECT_FALSE(job.end);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
}

// ---- the evaluator ----

class EvaluatorTest : public GangTest {
 protected:
  EvaluatorTest() : job(Gang(2)) { job.options.evaluators = 1; }
  TestJob job;
};

TEST_F(EvaluatorTest, IsRestartedAloneAndTheOthersGoOn) {
  Run(job);
  const Incarnation before = job.LifeOf("evaluator:0");
  job.ForgetOrders();
  job.Exits(2, KilledBy(9));
  job.Pass(3 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("evaluator:0"));
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
  EXPECT_NE(job.LifeOf("evaluator:0"), before);
  EXPECT_THAT(job.Told(), HasSubstr("evaluator:0 on b was killed by signal 9 (SIGKILL); it is "
                                    "restarted in 0."));
  EXPECT_THAT(job.Told(), HasSubstr("the others go on"));
  EXPECT_EQ(RestartsLeft(job.state.restarts), 10) << "the gang's budget is its own";
}

TEST_F(EvaluatorTest, RunsOnThroughARestartOfTheGang) {
  Run(job);
  const Incarnation before = job.LifeOf("evaluator:0");
  job.ForgetOrders();
  Fails(job, 0, KilledBy(9));
  EXPECT_EQ(job.LifeOf("evaluator:0"), before);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1"));
  EXPECT_THAT(job.TasksOf<Kill>(), Not(::testing::Contains("evaluator:0")));
  EXPECT_THAT(job.Told(), HasSubstr("all but the evaluator restart"));
  EXPECT_THAT(job.Told(), HasSubstr("worker:1 ended because worker:0 did"));
}

TEST_F(EvaluatorTest, ThatDiesDuringARestartOfTheGangStartsWithIt) {
  Run(job);
  job.Exits(0, KilledBy(9));
  job.Pass(kSecond);
  job.Exits(2, KilledBy(9));
  job.ForgetOrders();
  FinishRestart(job);
  EXPECT_THAT(job.Spawned(), ElementsAre("evaluator:0", "worker:0", "worker:1"));
}

TEST_F(EvaluatorTest, ThatHasDoneItsWorkDuringARestartOfTheGangIsNotStartedAgain) {
  Run(job);
  job.Exits(0, KilledBy(9));
  job.Pass(kSecond);
  job.Exits(2, ExitedWith(0));
  job.ForgetOrders();
  FinishRestart(job);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1"));
}

TEST_F(EvaluatorTest, WhoseHostIsLostWhileOthersAreWaitedForStartsWithThem) {
  Run(job);
  job.Feed(AgentStreamLost{"agent-a"});
  job.Pass(5 * kSecond);
  ASSERT_EQ(job.state.phase, JobPhase::kGathering);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(5 * kSecond);
  job.AgentRegisters("agent-c", "c", 2);
  EXPECT_EQ(job.reason, "waiting for 1 more slot");
  job.ForgetOrders();
  job.AgentRegisters("agent-d", "d", 1);
  EXPECT_THAT(job.Spawned(), ElementsAre("evaluator:0", "worker:0", "worker:1"));
}

TEST_F(EvaluatorTest, ThatIsToStartAgainWhenTheTrainingIsDoneStillDoes) {
  Run(job);
  job.Exits(2, KilledBy(9));
  job.Pass(500 * kMs);
  ASSERT_TRUE(job.state.workers[2].respawn);
  job.ForgetOrders();
  job.Exits(0, ExitedWith(0));
  job.Exits(1, ExitedWith(0));
  EXPECT_FALSE(job.end);
  job.Pass(10 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("evaluator:0"));
  EXPECT_FALSE(job.end);
  job.Exits(2, ExitedWith(0));
  job.Pass(kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(EvaluatorTest, ThatCannotRunIsLeftOutAndTheTrainingGoesOn) {
  Run(job, false);
  job.Exits(2, ExitedWith(1), "no such flag");
  job.Pass(5 * kSecond);
  EXPECT_THAT(job.Told(), HasSubstr("it is not started again, the others go on"));
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  job.ForgetOrders();
  Fails(job, 0, KilledBy(9));
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1"));
  job.Exits(0, ExitedWith(0));
  job.Exits(1, ExitedWith(0));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(EvaluatorTest, NeverDecidesSuccess) {
  Run(job);
  job.Exits(2, ExitedWith(0));
  job.Pass(60 * kSecond);
  EXPECT_FALSE(job.state.ending);
  EXPECT_THAT(job.Told(), Not(HasSubstr("evaluator:0 has exited")));
  job.ForgetOrders();
  Fails(job, 0, KilledBy(9));
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1")) << "it has done its work";
}

TEST_F(EvaluatorTest, ThatIsOverNeedsNoSlot) {
  Run(job);
  job.Exits(2, ExitedWith(0));
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(5 * kSecond);
  job.ForgetOrders();
  Fails(job, 0, KilledBy(9));
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1"));
}

TEST_F(EvaluatorTest, GetsTheGraceToFinishOnceTheTrainersHave) {
  Run(job);
  job.Exits(0, ExitedWith(0));
  job.Exits(1, ExitedWith(0));
  EXPECT_FALSE(job.state.ending);
  job.Pass(10 * kSecond);
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
  job.Exits(2, ExitedWith(0));
  job.Pass(kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(EvaluatorTest, IsEndedAfterTheGraceAndThatIsNoFailure) {
  Run(job);
  job.Exits(0, ExitedWith(0));
  job.Exits(1, ExitedWith(0));
  job.Pass(job.options.grace + kSecond);
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("evaluator:0"));
  job.Exits(2, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(EvaluatorTest, ThatFailsAfterTheTrainingIsDoneDoesNotKeepTheJob) {
  Run(job);
  job.Exits(0, ExitedWith(0));
  job.Exits(1, ExitedWith(0));
  job.Exits(2, ExitedWith(1));
  job.Pass(kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
}

TEST_F(EvaluatorTest, OfALostHostIsStartedWhereThereIsAPlace) {
  Run(job);
  job.AgentRegisters("agent-c", "c", 1);
  job.Feed(AgentStreamLost{"agent-b"});  // where it alone is
  job.ForgetOrders();
  job.Pass(10 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  ASSERT_EQ(job.AgentGot<Spawn>("agent-c").size(), 1u);
  EXPECT_EQ(job.AgentGot<Spawn>("agent-c")[0].cluster.jobs.at("evaluator").at(0), "c.net:5000");
  const Incarnation old = 3;
  job.AgentRegisters("agent-b", "b", 1);
  ASSERT_EQ(job.AgentGot<Kill>("agent-b").size(), 1u);
  EXPECT_EQ(job.AgentGot<Kill>("agent-b")[0].incarnation, old) << "it may live";
}

}  // namespace
}  // namespace everstep
