// membership: rules of the end of a job, and of what people see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// ---- the good end ----

TEST(Finishing, AllStopWith0OnceAllHaveFinishedEqually) {
  TestJob job(2);
  job.Train();
  job.Leaves(0, LeaveReason::kFinished);
  EXPECT_THAT(job.Got<Stop>(0), IsEmpty());  // nobody leaves before all have finished
  job.Leaves(1, LeaveReason::kFinished);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(job.Got<Stop>(i).at(0).code, kExitDone);
  EXPECT_FALSE(job.end);
  job.StreamBreaks(0);
  job.Exits(0, ExitedWith(0));
  EXPECT_FALSE(job.end);
  job.Exits(1, ExitedWith(0));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitDone);
  EXPECT_EQ(job.end->reason, "");
  EXPECT_EQ(job.ends, 1);
}

TEST(Finishing, UnequalStatesEndWith70NamingThem) {
  TestJob job(3);
  job.Train();
  job.Leaves(0, LeaveReason::kFinished, 100, 5);
  job.Leaves(1, LeaveReason::kFinished, 100, 5);
  job.Leaves(2, LeaveReason::kFinished, 100, 6);
  EXPECT_EQ(job.Got<Stop>(0).at(0).code, kExitOurFault);
  job.AllExit(ExitedWith(70));
  EXPECT_EQ(job.end->code, kExitOurFault);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:2"));
}

TEST(Finishing, AProgramThatFailsAfterStopGivesItsCode) {
  TestJob job(2);
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.Exits(0, ExitedWith(0));
  job.Exits(1, ExitedWith(9), "cannot save plot");
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 9);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 exited with code 9 after training was done"));
  EXPECT_THAT(job.end->reason, HasSubstr("cannot save plot"));
}

TEST(Finishing, WhoIsKilledFromOutsideAfterStopDoesTheRestAgain) {
  TestJob job(2);
  job.options.max_restarts = 10;
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.Exits(0, ExitedWith(0));
  const Incarnation before = job.state.next_incarnation;
  job.Exits(1, KilledBy(9));
  EXPECT_FALSE(job.end);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.next_incarnation, before + 2);
  job.Join();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.AllExit(ExitedWith(0));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitDone);
}

TEST(Finishing, WhoIsKilledAfterStopWithNoRestartsLeftGivesItsCode) {
  TestJob job(2);
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.Exits(1, KilledBy(9));
  job.Exits(0, ExitedWith(0));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 137);
  EXPECT_THAT(job.end->reason, HasSubstr("after training was done"));
}

TEST(Finishing, WhoDoesNotExitIsKilledAfterTheGraceAndTheJobIsDone) {
  TestJob job(2);
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.Exits(0, ExitedWith(0));
  job.Pass(job.options.grace - kSecond);
  EXPECT_THAT(job.AgentGot<Kill>("agent-a"), IsEmpty());
  job.Pass(2 * kSecond);
  const auto kills = job.AgentGot<Kill>("agent-a");
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].incarnation, job.state.workers[1].incarnation);
  EXPECT_EQ(kills[0].grace, Duration(0));
  job.Exits(1, KilledBy(9));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitDone);
}

TEST(Finishing, AWorkerThatWaitsForOneThatHasFinishedEndsTheJobWithTheReason) {
  TestJob job(2);
  job.Train();
  job.Leaves(1, LeaveReason::kFinished);
  Beat beat;
  beat.view = job.state.view.id;
  beat.phase = "evaluate";
  beat.waits = {1};
  for (int i = 0; i < 5; ++i) {  // a vote may still be under way
    job.Says(0, beat);
    job.Pass(250 * kMs);
    EXPECT_TRUE(job.Got<Stop>(0).empty());
  }
  for (int i = 0; i < 8; ++i) {
    job.Says(0, beat);
    job.Pass(250 * kMs);
  }
  ASSERT_THAT(job.Got<Stop>(0), SizeIs(1));
  EXPECT_EQ(job.Got<Stop>(0)[0].code, kExitConfiguration);
  EXPECT_THAT(job.Got<Stop>(0)[0].reason, HasSubstr("worker:1 has finished but worker:0 waits"));
}

TEST(Finishing, AWorkerThatComputesWhileOthersHaveFinishedIsWaitedFor) {
  TestJob job(2);
  job.Train();
  job.Leaves(1, LeaveReason::kFinished);
  Beat beat;
  beat.view = job.state.view.id;
  for (int i = 0; i < 100; ++i) {
    job.Says(0, beat);
    job.Pass(250 * kMs);
  }
  EXPECT_TRUE(job.Got<Stop>(0).empty());
}

TEST(Finishing, AStepThatDoesNotEndIsCutShortAtHalfTheGrace) {
  TestJob job(2);
  job.Train();
  job.Feed(StopAsked{"told to stop"});
  job.Pass(job.options.grace / 2 - kSecond);
  EXPECT_TRUE(job.Got<Close>(0).empty());
  job.Pass(2 * kSecond);
  ASSERT_THAT(job.Got<Close>(0), SizeIs(1));
  EXPECT_EQ(job.Got<Close>(0)[0].view, job.state.view.id);
}

TEST(Finishing, AnAgentThatNeverReportsDoesNotKeepTheJob) {
  TestJob job(2);
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.Exits(0, ExitedWith(0));
  job.Pass(job.options.grace + 5 * kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitDone);
}

TEST(Finishing, JobEndedIsTheLastThingAgentsHear) {
  TestJob job(2);
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.AllExit();
  ASSERT_FALSE(job.to_agents["agent-a"].empty());
  EXPECT_TRUE(std::holds_alternative<JobEnded>(job.to_agents["agent-a"].back()));
  job.ForgetOrders();
  job.Pass(kSecond);
  job.AgentRegisters("late", "z", 1);
  EXPECT_TRUE(job.to_agents.empty());
  EXPECT_EQ(job.ends, 1);
}

// ---- being told ----

TEST(Stopping, ARequestStopsWorkersThatSaidHelloAndKillsTheOthers) {
  TestJob job(2);
  job.Gather();
  job.SaysHello(0);
  job.Feed(AgentSaid{"agent-a", StopRequest{"Ctrl-C"}});
  EXPECT_EQ(job.Got<Stop>(0).at(0).code, kExitToldToLeave);
  EXPECT_EQ(job.Got<Stop>(0).at(0).grace, job.options.grace);
  EXPECT_THAT(job.Got<Stop>(1), IsEmpty());
  const auto kills = job.AgentGot<Kill>("agent-a");
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].incarnation, job.state.workers[1].incarnation);
  EXPECT_EQ(kills[0].grace, job.options.grace);
  job.Exits(1, KilledBy(15));
  job.Exits(0, ExitedWith(143));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitToldToLeave);
  EXPECT_EQ(job.end->reason, "Ctrl-C");
}

TEST(Stopping, BeforeAnythingRunsItEndsAtOnce) {
  TestJob job(2);
  job.AgentRegisters("one", "a", 1);
  job.Feed(StopAsked{"told to stop"});
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitToldToLeave);
}

TEST(Stopping, WhoIgnoresItIsKilledAfterTheGrace) {
  TestJob job(1);
  job.Train();
  job.Feed(StopAsked{""});
  job.Pass(job.options.grace + kSecond);
  EXPECT_THAT(job.AgentGot<Kill>("agent-a"), SizeIs(1));
  job.Exits(0, KilledBy(9));
  EXPECT_EQ(job.end->code, kExitToldToLeave);
}

TEST(Stopping, ASecondRequestCountsFromTwoSecondsOn) {
  TestJob job(1);
  job.Train();
  job.Feed(StopAsked{""});
  job.Pass(kSecond);
  job.Feed(StopAsked{""});
  EXPECT_THAT(job.AgentGot<Kill>("agent-a"), IsEmpty());
  job.Pass(kSecond);
  job.Feed(StopAsked{""});
  ASSERT_THAT(job.AgentGot<Kill>("agent-a"), SizeIs(1));
  EXPECT_EQ(job.AgentGot<Kill>("agent-a")[0].grace, Duration(0));
}

TEST(Stopping, AWorkerThatWasToldToLeaveStopsAll) {
  TestJob job(2);
  job.Train();
  job.Leaves(1, LeaveReason::kToldToLeave);
  job.Pass(300 * kMs);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(job.Got<Stop>(i).at(0).code, kExitToldToLeave);
  job.AllExit(ExitedWith(143));
  EXPECT_EQ(job.end->code, kExitToldToLeave);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 was told to leave"));
}

TEST(Stopping, AWorkerThatSaysLeavingAfterStopHearsStopAgain) {
  TestJob job(2);
  job.Train();
  job.Feed(StopAsked{""});
  job.ForgetOrders();
  job.Leaves(1, LeaveReason::kToldToLeave);
  EXPECT_THAT(job.Got<Stop>(1), SizeIs(1));
  EXPECT_THAT(job.Got<Stop>(0), IsEmpty());
}

TEST(Stopping, AWorkerThatComesBackDuringTheEndHearsStop) {
  TestJob job(2);
  job.Train();
  job.StreamBreaks(1);
  job.Feed(StopAsked{""});
  EXPECT_THAT(job.Got<Stop>(1), IsEmpty());
  EXPECT_THAT(job.AgentGot<Kill>("agent-a"), SizeIs(1));  // by its agent, as it cannot be reached
  job.SaysHello(1);
  EXPECT_EQ(job.Got<Stop>(1).at(0).code, kExitToldToLeave);
}

TEST(Stopping, ATermFromOutsideIsToldToLeaveToo) {
  TestJob job(2);
  job.Gather();
  job.Exits(1, KilledBy(15));
  job.Exits(0, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitToldToLeave);
}

// ---- programs that never say hello ----

TEST(AnyProgram, IsDoneWhenAllExitWith0) {
  TestJob job(3);
  job.Gather();
  job.Pass(std::chrono::minutes(30));
  job.Exits(2, 0);
  job.Exits(0, 0);
  job.Pass(std::chrono::minutes(1));
  EXPECT_FALSE(job.end);
  job.Exits(1, 0);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitDone);
}

TEST(AnyProgram, TheFirstThatFailsDecidesAndTheOthersAreKilled) {
  TestJob job(3);
  job.Gather();
  job.Exits(2, 0);
  job.Exits(0, ExitedWith(3), "Traceback\nValueError: bad\n");
  job.Pass(kSecond);
  const auto kills = job.AgentGot<Kill>("agent-a");
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].incarnation, job.state.workers[1].incarnation);
  EXPECT_EQ(kills[0].grace, job.options.grace);
  job.Exits(1, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 3);
  EXPECT_EQ(job.end->reason,
            "worker:0 on a exited with code 3; last lines:\nTraceback\nValueError: bad");
}

TEST(AnyProgram, ASignalGives128PlusItsNumber) {
  TestJob job(1);
  job.Gather();
  job.Exits(0, KilledBy(11));
  job.Pass(kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 139);
  EXPECT_EQ(job.end->reason, "worker:0 was killed by signal 11 (SIGSEGV)");
}

TEST(AnyProgram, ExitingWith0WhileOthersJoinIsAnError) {
  for (const bool exit_first : {true, false}) {
    TestJob job(2);
    job.Gather();
    if (exit_first) job.Exits(1, 0);
    job.SaysHello(0);
    if (!exit_first) job.Exits(1, 0);
    job.Pass(kSecond);
    job.Exits(0, ExitedWith(70));
    ASSERT_TRUE(job.end);
    EXPECT_EQ(job.end->code, kExitOurFault);
    EXPECT_EQ(job.end->reason, "worker:1 exited with code 0 before it joined the others");
  }
}

// ---- what people see ----

TEST(Progress, IsTheCommittersAtMostEvery200Ms) {
  TestJob job(2);
  job.Train();
  auto beat = [&](int index, Step step) {
    Beat b;
    b.view = job.state.view.id;
    b.step = step;
    b.scalars.total_steps = 1000;
    job.Says(index, b);
  };
  job.Pass(kSecond);
  beat(1, 77);
  EXPECT_THAT(job.AgentGot<Progress>("agent-a"), IsEmpty());  // not the committer
  beat(0, 10);
  ASSERT_THAT(job.AgentGot<Progress>("agent-a"), SizeIs(1));
  EXPECT_EQ(job.AgentGot<Progress>("agent-a")[0].step, 10);
  EXPECT_EQ(job.AgentGot<Progress>("agent-a")[0].workers, 2);
  EXPECT_EQ(job.AgentGot<Progress>("agent-a")[0].scalars.total_steps, 1000);
  beat(0, 11);
  beat(0, 12);
  EXPECT_THAT(job.AgentGot<Progress>("agent-a"), SizeIs(1));
  job.Pass(200 * kMs);
  ASSERT_THAT(job.AgentGot<Progress>("agent-a"), SizeIs(2));
  EXPECT_EQ(job.AgentGot<Progress>("agent-a")[1].step, 12);
  job.Pass(kSecond);
  beat(0, 12);  // nothing new
  EXPECT_THAT(job.AgentGot<Progress>("agent-a"), SizeIs(2));
}

TEST(Progress, TheLastOneComesBeforeTheEnd) {
  TestJob job(1);
  job.Train();
  Beat beat;
  beat.view = job.state.view.id;
  for (Step step : {98, 99}) {
    beat.step = step;
    job.Says(0, beat);
  }
  job.Leaves(0, LeaveReason::kFinished);
  job.Exits(0, 0);
  EXPECT_EQ(job.AgentGot<Progress>("agent-a").back().step, 99);
  EXPECT_TRUE(std::holds_alternative<JobEnded>(job.to_agents["agent-a"].back()));
}

TEST(Silence, OfAWorkerWhoseStreamLivesIsToldOnceAndNotActedOn) {
  TestJob job(2);
  job.Train();
  job.ForgetOrders();
  Beat beat;
  beat.phase = "input";
  for (int i = 0; i < 40; ++i) {
    job.Says(0, beat);
    job.Pass(250 * kMs);
  }
  const auto notices = job.AgentGot<Notice>("agent-a");
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_THAT(notices[0].text, HasSubstr("worker:1 has been silent for 2.0 s"));
  EXPECT_FALSE(job.state.ending);
}

TEST(Decide, TheSameEventsGiveTheSameOrders) {
  auto run = [] {
    TestJob job(4, 8);
    job.Train();
    job.StreamBreaks(2);
    job.Complains(0, 2);
    job.Exits(2, KilledBy(9), "x");
    job.Pass(5 * kSecond);
    for (int i : {0, 1, 3}) job.Exits(i, ExitedWith(137));
    return job.end->reason + job.reason + std::to_string(job.to_workers.size());
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace everstep
