// membership: the rules for gangs: roles, restarts of all, ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_job.h"
#include "everstep/membership/job_status.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class GangTest : public ::testing::Test {
 protected:
  // `begin` is in a life that has shown progress unless a test is about its first moments.
  static TestJob Gang(int workers, bool said = true) {
    TestJob job(workers);
    job.options.gang = said;
    job.options.max_restarts = 10;
    return job;
  }
  static void Run(TestJob& job, bool progressed = true) {
    job.Gather();
    Vitals vitals = TestJob::GoingOn();
    vitals.wrote = progressed;
    for (int i = 0; i < job.options.Tasks(); ++i) job.Sees(i, vitals);
  }
  // Those who live exit as they are told, and the job starts again.
  static void FinishRestart(TestJob& job) {
    job.Pass(kSecond);
    for (size_t i = 0; i < job.state.workers.size(); ++i) {
      if (job.state.workers[i].task.type == "evaluator") continue;
      if (!job.state.workers[i].exited) job.Exits(static_cast<int>(i), KilledBy(15));
    }
    job.Pass(40 * kSecond);
  }
  // A failure of `index` and what follows, until all run again.
  static void Fails(TestJob& job, int index, int status, bool progress = true) {
    job.Exits(index, status);
    FinishRestart(job);
    if (!progress || job.end) return;
    for (int i = 0; i < job.options.Tasks(); ++i) job.Sees(i, TestJob::GoingOn());
  }
};

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
}

// ---- restarts ----

TEST_F(GangTest, AnyDeathRestartsAllWithTheFullGrace) {
  TestJob job = Gang(3);
  Run(job);
  job.ForgetOrders();
  job.Exits(1, KilledBy(9));
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("worker:0", "worker:2"));
  EXPECT_EQ(job.AgentGot<Kill>("agent-b").at(0).grace, job.options.grace);
  job.Pass(20 * kSecond);
  EXPECT_EQ(job.AgentGot<Kill>("agent-b").size(), 1u) << "it may be saving";
  job.Pass(5 * kSecond);
  ASSERT_EQ(job.AgentGot<Kill>("agent-b").size(), 2u);
  EXPECT_EQ(job.AgentGot<Kill>("agent-b").back().grace, Duration(0));
  EXPECT_THAT(job.Spawned(), IsEmpty());
  job.Exits(0, KilledBy(9));
  job.Exits(2, KilledBy(9));
  job.Pass(kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1", "worker:2"));
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_EQ(job.state.workers[0].incarnation, 4u);
}

TEST_F(GangTest, PeopleAreToldTheCauseTheRestartAndWhoEndedBecauseOfIt) {
  TestJob job = Gang(3);
  Run(job);
  job.SeesCheckpoint("/ckpt/ckpt-5", 63 * kSecond);
  job.Exits(1, KilledBy(9));
  job.Pass(kSecond);
  EXPECT_THAT(job.Told(), HasSubstr("worker:1 on a was killed by signal 9 (SIGKILL); all restart "
                                    "(restart 1, 9 left until the next checkpoint) in 0."));
  EXPECT_THAT(job.Told(), HasSubstr("the last checkpoint seen, ckpt-5, is 63 s old"));
  EXPECT_THAT(job.Told(), Not(HasSubstr("ended because")));
  FinishRestart(job);
  EXPECT_THAT(job.Told(), HasSubstr("worker:0 and worker:2 ended because worker:1 did"));
}

TEST_F(GangTest, WhoEndedBecauseOfItIsToldAtTheEndOfTheJobToo) {
  TestJob job = Gang(2);
  Run(job);
  job.Exits(1, ExitedWith(78));
  job.Pass(kSecond);
  job.Exits(0, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 78);
  EXPECT_THAT(job.Told(), HasSubstr("worker:0 ended because worker:1 did"));
}

TEST_F(GangTest, TheCauseIsTheFirstToDie) {
  TestJob job = Gang(3);
  Run(job);
  job.Exits(2, ExitedWith(1), "ValueError");
  job.now += 20 * kMs;
  job.Exits(0, ExitedWith(75));
  job.Exits(1, ExitedWith(1), "peer is gone");
  job.Pass(kSecond);
  const auto failed = job.Recorded(record_kind::kWorkerFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].task, "worker:2");
  EXPECT_EQ(failed[0].action, "restart");
  EXPECT_THAT(failed[0].tail, ElementsAre("ValueError"));
}

TEST_F(GangTest, ASignalIsNoConsequenceThoughItIsHeardOfSecond) {
  for (const int status : {KilledBy(9), KilledBy(11), KilledBy(15)}) {
    TestJob job = Gang(2);
    Run(job);
    job.Exits(0, ExitedWith(1));
    job.now += 20 * kMs;
    job.Exits(1, status);
    job.Pass(kSecond);
    EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed).at(0).task, "worker:1") << status;
  }
  // But libraries that lose a peer do abort.
  TestJob job = Gang(2);
  Run(job);
  job.Exits(0, ExitedWith(1));
  job.now += 20 * kMs;
  job.Exits(1, KilledBy(6));
  job.Pass(kSecond);
  EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed).at(0).task, "worker:0");
}

TEST_F(GangTest, ALostHostIsTheCauseThoughItsPeersDieBeforeThatIsKnown) {
  TestJob job = Gang(4);
  Run(job);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(100 * kMs);
  job.Exits(0, ExitedWith(1));
  job.Pass(3 * kSecond);
  const auto lost = job.Recorded(record_kind::kWorkerLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].task, "worker:2");
  EXPECT_EQ(lost[0].host, "b");
  EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), IsEmpty());
}

TEST_F(GangTest, AnAgentThatComesBackInTimeCostsNothing) {
  TestJob job = Gang(4);
  Run(job);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(kSecond);
  job.AgentRegisters("agent-b", "b", 2);
  job.Pass(10 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_EQ(job.state.restarts.total, 0);
}

TEST_F(GangTest, ARequestToStopDuringARestartEndsIt) {
  TestJob job = Gang(2);
  Run(job);
  job.Exits(1, KilledBy(9));
  job.Pass(kSecond);
  job.Feed(StopAsked{"SIGINT"});
  job.Exits(0, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitToldToLeave);
}

// ---- exit codes and the budget ----

TEST_F(GangTest, AFailureOfItsOwnBeforeItHasDoneAnythingEndsAtOnceInItsOwnWords) {
  TestJob job = Gang(2);
  Run(job, false);
  job.Pass(20 * kSecond);
  job.Exits(1, ExitedWith(1), "ModuleNotFoundError: No module named 'keras'");
  job.Pass(kSecond);
  job.Exits(0, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 1);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 exited with code 1"));
  EXPECT_THAT(job.end->reason, HasSubstr("No module named 'keras'"));
}

TEST_F(GangTest, AnySignOfProgressMakesItAFailureThatIsRestarted) {
  Vitals wrote = TestJob::GoingOn(), step = TestJob::GoingOn();
  wrote.wrote = true;
  step.beats = true;
  step.step = 0;
  step.beat_limit = 900 * kSecond;
  for (const Vitals& vitals : {wrote, step}) {
    TestJob job = Gang(2);
    Run(job, false);
    job.Sees(0, vitals);
    job.Exits(1, ExitedWith(1));
    job.Pass(kSecond);
    EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  }
  TestJob job = Gang(2);
  Run(job, false);
  job.SeesCheckpoint("/ckpt-1");
  job.Exits(1, ExitedWith(1));
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
}

TEST_F(GangTest, AFailureAfterHalfAMinuteOrInALaterLifeIsRestarted) {
  TestJob job = Gang(2);
  Run(job, false);
  job.Pass(31 * kSecond);
  job.Exits(1, ExitedWith(1));
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);

  TestJob other = Gang(2);
  Run(other, false);
  Fails(other, 0, KilledBy(9));
  other.Exits(1, ExitedWith(1));
  other.Pass(kSecond);
  EXPECT_EQ(other.state.phase, JobPhase::kRestarting);
}

TEST_F(GangTest, TheThirdFailureOfATaskByItsOwnFaultWithoutACheckpointEndsIt) {
  TestJob job = Gang(2);
  Run(job);
  Fails(job, 1, ExitedWith(1));
  Fails(job, 0, KilledBy(11));  // another's
  Fails(job, 1, ExitedWith(1));
  ASSERT_FALSE(job.end);
  job.Exits(1, ExitedWith(3));
  FinishRestart(job);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 3);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 failed 3 times without a new checkpoint"));
  EXPECT_THAT(job.end->reason, HasSubstr("exited with code 3"));
}

TEST_F(GangTest, ANewCheckpointForgivesAndFillsTheBudget) {
  TestJob job = Gang(2);
  Run(job);
  Fails(job, 1, ExitedWith(1));
  Fails(job, 1, ExitedWith(1));
  EXPECT_EQ(RestartsLeft(job.state.restarts), 8);
  job.SeesCheckpoint("/ckpt-1");
  EXPECT_EQ(RestartsLeft(job.state.restarts), 10);
  Fails(job, 1, ExitedWith(1));
  Fails(job, 1, ExitedWith(1));
  EXPECT_FALSE(job.end);
}

TEST_F(GangTest, TheSameCheckpointAgainIsNoNewOne) {
  TestJob job = Gang(2);
  Run(job);
  job.SeesCheckpoint("/ckpt-1", 10 * kSecond);
  Fails(job, 1, ExitedWith(1));
  job.SeesCheckpoint("/ckpt-1", job.now - job.state.gang.checkpoint_written + 200 * kMs);
  job.SeesCheckpoint("/ckpt-1", job.now - job.state.gang.checkpoint_written - 200 * kMs);
  job.SeesCheckpoint("/ckpt-0", std::chrono::hours(1));  // an older one
  EXPECT_EQ(RestartsLeft(job.state.restarts), 9);
  job.SeesCheckpoint("/ckpt-1", kSecond);  // written over
  EXPECT_EQ(RestartsLeft(job.state.restarts), 10);
}

TEST_F(GangTest, TheBudgetEndsTheJobWhoeverKillsIt) {
  TestJob job = Gang(2);
  job.options.max_restarts = 2;
  Run(job);
  Fails(job, 0, KilledBy(9));
  Fails(job, 1, KilledBy(9));
  Fails(job, 0, KilledBy(9));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 137);
  EXPECT_THAT(job.end->reason, HasSubstr("--max-restarts"));
}

TEST_F(GangTest, BeingToldToLeaveIsNoFailureAndCostsNothing) {
  for (const int status : {ExitedWith(143), ExitedWith(42), KilledBy(15)}) {
    TestJob job = Gang(2);
    job.options.max_restarts = 1;
    Run(job, false);
    for (int i = 0; i < 3; ++i) Fails(job, i % 2, status, false);
    ASSERT_FALSE(job.end) << status;
    EXPECT_EQ(job.state.restarts.total, 3);
    EXPECT_EQ(RestartsLeft(job.state.restarts), 1);
    EXPECT_THAT(job.Told(), HasSubstr("worker:0 was told to leave: it "));
    EXPECT_THAT(job.Told(), HasSubstr("(restart 3, not counted)"));
  }
}

TEST_F(GangTest, TwentyInARowWithoutACheckpointAreEnoughOfThat) {
  TestJob job = Gang(2);
  Run(job);
  for (int i = 0; i < 20; ++i) Fails(job, 0, ExitedWith(143));
  ASSERT_FALSE(job.end);
  job.SeesCheckpoint("/ckpt-1");
  for (int i = 0; i < 20; ++i) Fails(job, 0, ExitedWith(143));
  ASSERT_FALSE(job.end);
  Fails(job, 0, ExitedWith(143));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 143);
  EXPECT_THAT(job.end->reason, HasSubstr("20 restarts without a new checkpoint"));
}

TEST_F(GangTest, WhatNeedsAChangeFirstEndsHoweverFarItIs) {
  for (const int code : {2, 65, 78}) {
    TestJob job = Gang(2);
    Run(job);
    job.SeesCheckpoint("/ckpt-1");
    job.Pass(std::chrono::minutes(5));
    job.Exits(0, ExitedWith(code));
    job.Pass(kSecond);
    job.Exits(1, KilledBy(15));
    ASSERT_TRUE(job.end) << code;
    EXPECT_EQ(job.end->code, code);
  }
}

TEST_F(GangTest, ATryAgainIsTriedAgainAndCounted) {
  TestJob job = Gang(2);
  Run(job, false);
  Fails(job, 0, ExitedWith(75), false);
  ASSERT_FALSE(job.end);
  EXPECT_EQ(RestartsLeft(job.state.restarts), 9);
}

TEST_F(GangTest, LackOfMemoryIsToldAsSuchAndIsTheProgramsOwnFault) {
  TestJob job = Gang(2);
  Run(job);
  job.Exits(1, KilledBy(9), "", true);
  job.Pass(kSecond);
  EXPECT_THAT(job.Told(), HasSubstr("for lack of memory (OOM); all restart"));
  EXPECT_TRUE(job.Recorded(record_kind::kWorkerFailed).at(0).oom);
  FinishRestart(job);
  for (int i = 0; i < 2 && !job.end; ++i) {
    job.Exits(1, KilledBy(9), "", true);
    FinishRestart(job);
  }
  ASSERT_TRUE(job.end);
  EXPECT_THAT(job.end->reason, HasSubstr("OOM"));
}

TEST_F(GangTest, WithoutRestartsTheFirstFailureOfAnyKindIsTheEnd) {
  for (const int status : {KilledBy(9), ExitedWith(143), ExitedWith(1)}) {
    TestJob job = Gang(2);
    job.options.max_restarts = 0;
    Run(job);
    job.Exits(0, status);
    job.Pass(kSecond);
    job.Exits(1, KilledBy(15));
    ASSERT_TRUE(job.end);
  }
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
  EXPECT_THAT(job.Told(), HasSubstr("worker:2 ended because worker:1 did"));
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
