// membership: the rules for gangs: what a failure is, whose, and what follows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_gang.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

TEST_F(GangTest, WhatAllRunIntoAtOnceIsNobodysConsequence) {
  TestJob job = Gang(3);
  Run(job, false);
  job.Exits(1, ExitedWith(1), "ModuleNotFoundError");
  job.Exits(0, ExitedWith(1), "ModuleNotFoundError");
  job.Pass(kSecond);
  job.Exits(2, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_THAT(job.Told(), HasSubstr("worker:2 ended because worker:0 did"));
  EXPECT_THAT(job.Told(), Not(HasSubstr("worker:1 ended")));
  EXPECT_THAT(job.Told(), Not(HasSubstr("and worker:2 ended")));
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
  for (const int status : {KilledBy(9), KilledBy(11), KilledBy(15), ExitedWith(42)}) {
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
  for (const int status : {ExitedWith(1), KilledBy(9)}) {
    TestJob job = Gang(4);
    Run(job);
    job.Feed(AgentStreamLost{"agent-b"});
    job.Pass(100 * kMs);
    job.Exits(0, status);
    job.Pass(3 * kSecond);
    const auto lost = job.Recorded(record_kind::kWorkerLost);
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].task, "worker:2");
    EXPECT_EQ(lost[0].host, "b");
    EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), IsEmpty());
  }
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

TEST_F(GangTest, AFailureAfterTwoMinutesOrInALaterLifeIsRestarted) {
  TestJob job = Gang(2);
  Run(job, false);
  job.Pass(121 * kSecond);
  job.Exits(1, ExitedWith(1));
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);

  TestJob other = Gang(2);
  Run(other, false);
  other.Exits(0, KilledBy(9));
  other.Pass(kSecond);
  other.Exits(1, KilledBy(15));
  ASSERT_EQ(other.state.phase, JobPhase::kRunning);
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

TEST_F(GangTest, OneThatSavesAtEachStartAndThenFailsIsNotTriedForEver) {
  TestJob job = Gang(2);
  Run(job);
  for (int life = 0; life < 3; ++life) {
    ASSERT_FALSE(job.end);
    const TimePoint saved = job.state.workers[0].spawned + 2 * kSecond;
    job.now = std::max(job.now, saved);
    job.SeesCheckpoint(absl::StrCat("/ckpt-", life), job.now - saved);
    EXPECT_EQ(RestartsLeft(job.state.restarts), 10);
    job.Exits(1, ExitedWith(1));
    FinishRestart(job);
  }
  ASSERT_TRUE(job.end);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 failed 3 times"));
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

TEST_F(GangTest, WithoutRestartsTheFirstFailureIsTheEndButBeingToldToLeaveIsNone) {
  for (const int status : {KilledBy(9), ExitedWith(75), ExitedWith(1)}) {
    TestJob job = Gang(2);
    job.options.max_restarts = 0;
    Run(job);
    job.Exits(0, status);
    job.Pass(kSecond);
    job.Exits(1, KilledBy(15));
    ASSERT_TRUE(job.end);
  }
  TestJob job = Gang(2);
  job.options.max_restarts = 0;
  Run(job);
  Fails(job, 0, KilledBy(15));
  EXPECT_FALSE(job.end);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
}

// Its processes work on, and people look at its terminal.
TEST_F(GangTest, AnAgentThatIsSilentForAWhileIsWaitedForAndHearsWhatItMissed) {
  TestJob job = Gang(4);
  Run(job);
  job.Pass(3 * kSecond);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(25 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  job.AgentRegisters("agent-b", "b", 2);
  job.Pass(60 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_THAT(job.Recorded(record_kind::kWorkerLost), ::testing::IsEmpty());
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(32 * kSecond);
  EXPECT_EQ(job.Recorded(record_kind::kWorkerLost).size(), 1u);
  job.ForgetOrders();
  job.AgentRegisters("agent-b", "b", 2);
  std::string heard;
  for (const Notice& notice : job.AgentGot<Notice>("agent-b")) heard += notice.text + "\n";
  EXPECT_THAT(heard, ::testing::HasSubstr("was lost with its host b"));
}

TEST_F(GangTest, AnAgentWhoseStreamEndsWhileItSpeaksIsLostSoon) {
  TestJob job = Gang(4);
  Run(job);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  EXPECT_EQ(job.Recorded(record_kind::kWorkerLost).size(), 1u);
}

}  // namespace
}  // namespace everstep
