// membership: rules of a restart, from the cause of a failure to training again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() { job.options.max_restarts = 10; }

  std::set<Incarnation> Lives() {
    std::set<Incarnation> lives;
    for (const WorkerEntry& worker : job.state.workers) lives.insert(worker.incarnation);
    return lives;
  }
  // Worker `index` dies at `step` and the cause is named.
  void Dies(int index, int wait_status, Step step = 120) {
    for (int i = 0; i < job.options.workers; ++i) job.Beats(i, step);
    job.StreamBreaks(index);
    job.Exits(index, wait_status, "boom\n");
    job.Pass(300 * kMs);
  }
  void OthersExit(int but) {
    for (int i = 0; i < job.options.workers; ++i) {
      if (i != but) job.Exits(i, ExitedWith(75));
    }
  }
  // From the cause to training again.
  void ComesBack(int dead) {
    ASSERT_EQ(job.state.phase, JobPhase::kRestarting);
    OthersExit(dead);
    job.Pass(60 * kSecond);
    ASSERT_EQ(job.state.phase, JobPhase::kStarting);
    job.Join();
    ASSERT_EQ(job.state.phase, JobPhase::kTraining);
  }

  TestJob job{4};
};

TEST_F(RestartTest, TheCheckpointARunWasToldToBeginFromCountsUntilItHasOneOfItsOwn) {
  job.options.settings["EVERSTEP_RESTORE_FROM"] = "/old/checkpoints/step-10-h0-v1.1";
  job.Train();
  const auto told = [&] {
    return job.AgentGot<Spawn>("agent-a").back().settings.at("EVERSTEP_RESTORE_FROM");
  };
  EXPECT_EQ(told(), "/old/checkpoints/step-10-h0-v1.1");
  Dies(2, KilledBy(9));
  ComesBack(2);
  EXPECT_EQ(told(), "/old/checkpoints/step-10-h0-v1.1") << "it has none yet";
  job.Says(0, CheckpointCommitted{job.state.view.id, 1, 10, "p", 1, {}});
  Dies(2, KilledBy(9));
  ComesBack(2);
  EXPECT_EQ(told(), "");
}

// ---- all stop ----

TEST_F(RestartTest, AKilledWorkerStopsAllWithTheCauseAndTheGraceOfARestart) {
  job.Train();
  Dies(2, KilledBy(9));
  for (int i : {0, 1, 3}) {
    ASSERT_THAT(job.Got<Stop>(i), SizeIs(1)) << i;
    EXPECT_EQ(job.Got<Stop>(i)[0].code, kExitNotNow);
    EXPECT_EQ(job.Got<Stop>(i)[0].grace, 5 * kSecond);
    EXPECT_EQ(job.Got<Stop>(i)[0].reason,
              "the job restarts: worker:2 on b was killed by signal 9 (SIGKILL)");
  }
  EXPECT_THAT(job.Got<Stop>(2), IsEmpty());
  EXPECT_FALSE(job.state.ending);
  EXPECT_EQ(job.reason, "restarting: 3 processes have not exited yet");
}

TEST_F(RestartTest, AShorterGraceOfTheJobIsThatOfARestartToo) {
  job.options.grace = kSecond;
  job.Train();
  Dies(2, KilledBy(9));
  EXPECT_EQ(job.Got<Stop>(0).at(0).grace, kSecond);
}

TEST_F(RestartTest, WhoCannotBeReachedIsKilledByItsAgentAndTheRestAfterTheGrace) {
  job.Train();
  job.StreamBreaks(1);
  Dies(2, KilledBy(9));
  job.Pass(2 * kSecond);  // for worker:1 to be heard of
  ASSERT_EQ(job.state.phase, JobPhase::kRestarting);
  ASSERT_THAT(job.AgentGot<Kill>("agent-a"), SizeIs(1));
  EXPECT_EQ(job.AgentGot<Kill>("agent-a")[0].incarnation, job.state.workers[1].incarnation);
  job.Exits(0, ExitedWith(75));
  job.ForgetOrders();
  job.Pass(4 * kSecond);
  EXPECT_THAT(job.AgentGot<Kill>("agent-b"), IsEmpty());
  job.Pass(kSecond);
  ASSERT_THAT(job.AgentGot<Kill>("agent-b"), SizeIs(1)) << "worker:3 is still there";
  EXPECT_EQ(job.AgentGot<Kill>("agent-b")[0].grace, Duration(0));
}

TEST_F(RestartTest, ExitsOfTheStoppedAreNoFailures) {
  job.Train();
  Dies(2, KilledBy(9));
  job.StreamBreaks(0);
  job.Complains(1, 0);
  job.Leaves(3, LeaveReason::kFailed, 120, 0, 70, "links broke");
  for (int i : {0, 1}) job.Exits(i, KilledBy(9));
  job.Exits(3, ExitedWith(78));
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), SizeIs(1));
  EXPECT_EQ(job.state.restarts.total, 1);
  EXPECT_FALSE(job.state.trouble_since);
}

TEST_F(RestartTest, AWorkerThatComesBackMeanwhileHearsStop) {
  job.Train();
  Dies(2, KilledBy(9));
  job.ForgetOrders();
  job.SaysHello(1);
  EXPECT_EQ(job.Got<Stop>(1).at(0).code, kExitNotNow);
}

// ---- all start again ----

TEST_F(RestartTest, AllStartAgainWithLivesNeverLivedBefore) {
  job.Train();
  const std::set<Incarnation> before = Lives();
  Dies(2, KilledBy(9));
  job.ForgetOrders();
  OthersExit(2);
  job.Pass(kSecond);
  EXPECT_THAT(job.AgentGot<Spawn>("agent-a"), SizeIs(2));
  EXPECT_THAT(job.AgentGot<Spawn>("agent-b"), SizeIs(2));
  EXPECT_EQ(job.AgentGot<Spawn>("agent-b")[1].cluster.NumTasks("worker"), 4);
  for (Incarnation life : Lives()) EXPECT_EQ(before.count(life), 0u);
  job.held = {0, 100, 7, -1};
  job.Join();
  EXPECT_EQ(job.state.phase, JobPhase::kTraining);
  EXPECT_EQ(job.Got<Prepare>(0).at(0).view.id, (ViewId{1, 2})) << "views only rise";
  EXPECT_EQ(job.Got<Prepare>(0).at(0).origin.step, 100);
}

TEST_F(RestartTest, WaitsForTheBackOff) {
  job.Train();
  Dies(2, KilledBy(9));
  OthersExit(2);
  const Duration back_off = job.state.restarting->back_off;
  EXPECT_GE(back_off, 375 * kMs);
  EXPECT_LE(back_off, 625 * kMs);
  job.Pass(300 * kMs);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  job.Pass(back_off);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
}

TEST_F(RestartTest, WaitsForTheLastExit) {
  job.Train();
  Dies(2, KilledBy(9));
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(4 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  job.Exits(3, ExitedWith(75));
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
}

TEST_F(RestartTest, WaitsForItsRecordToBeOnDiskButNotForEver) {
  for (const bool written : {true, false}) {
    TestJob stuck(2);
    stuck.options.max_restarts = 10;
    stuck.Train();
    stuck.journal_stuck = true;
    stuck.Exits(1, KilledBy(9));
    stuck.Pass(kSecond);
    stuck.Exits(0, ExitedWith(75));
    stuck.Feed(Journaled{static_cast<int64_t>(stuck.records.size()) - 1});
    stuck.Pass(20 * kSecond);
    EXPECT_EQ(stuck.state.phase, JobPhase::kRestarting);
    if (written) {
      stuck.Feed(Journaled{static_cast<int64_t>(stuck.records.size())});
    } else {
      stuck.Pass(10 * kSecond);
    }
    EXPECT_EQ(stuck.state.phase, JobPhase::kStarting) << written;
  }
}

TEST_F(RestartTest, ANewAgentTakesThePlaceOfALostHost) {
  job.Train();
  job.AgentRegisters("agent-c", "c", 2);  // idle until now
  job.StreamBreaks(2);
  job.StreamBreaks(3);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(2 * kSecond);
  ASSERT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.AgentGot<Spawn>("agent-c"), SizeIs(2));
  EXPECT_THAT(job.AgentGot<Spawn>("agent-b"), SizeIs(2)) << "the first two only";
}

TEST_F(RestartTest, TooFewSlotsAreWaitedForAsAtTheBeginning) {
  job.Train();
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kGathering);
  EXPECT_EQ(job.reason, "waiting for 2 more slots");
  job.Pass(30 * kSecond);
  job.AgentRegisters("agent-c", "c", 2);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.AgentGot<Spawn>("agent-c"), SizeIs(2));
}

TEST_F(RestartTest, SlotsThatDoNotComeEndTheJobWith75) {
  job.Train();
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(70 * kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("2 of 4 slots are missing"));
  EXPECT_THAT(job.end->reason, Not(HasSubstr("agent-b")));
}

TEST_F(RestartTest, AHostThatComesBackIsUsedAgainAndItsOldProcessesAreKilledFirst) {
  job.Train();
  const Incarnation old = job.state.workers[2].incarnation;
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(2 * kSecond);
  job.ForgetOrders();
  job.AgentRegisters("agent-b", "b", 2);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  const auto& orders = job.to_agents["agent-b"];
  ASSERT_GE(orders.size(), 4u);
  EXPECT_EQ(std::get<Kill>(orders[0]).incarnation, old);
  EXPECT_THAT(job.AgentGot<Spawn>("agent-b"), SizeIs(2));
  job.Feed(WorkerSaid{old, Hello{}});
  EXPECT_TRUE(std::holds_alternative<Stop>(job.to_workers[old].at(0)));
}

TEST_F(RestartTest, AProcessWhoseEndIsNeverToldDoesNotKeepTheJob) {
  job.Train();
  Dies(2, KilledBy(9));
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(10 * kSecond);  // worker:3 hangs in the kernel
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.AgentGot<Notice>("agent-a").back().text,
              HasSubstr("nothing is known of the end of worker:3"));
}

TEST_F(RestartTest, AHelloThatDoesNotComeAfterARestartIsNotWaitedForForEver) {
  job.Train();
  Dies(2, KilledBy(9));
  OthersExit(2);
  job.Pass(std::chrono::minutes(16));
  EXPECT_EQ(job.state.restarts.total, 2);
  const auto lost = job.Recorded(record_kind::kWorkerLost);
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_EQ(lost[0].task, "worker:0");
}

// ---- or it ends ----

TEST_F(RestartTest, ARequestToStopEndsTheJobInAnyMomentOfIt) {
  for (const int moment : {0, 1, 2, 3}) {
    TestJob j(4);
    j.options.max_restarts = 10;
    j.Train();
    if (moment == 3) {
      j.Feed(AgentStreamLost{"agent-b"});
      j.Pass(3 * kSecond);
    } else {
      j.Exits(2, KilledBy(9));
      j.Pass(300 * kMs);
    }
    if (moment > 0) j.Exits(0, ExitedWith(75));
    if (moment > 1) j.Exits(1, ExitedWith(75));
    if (moment == 2) j.Exits(3, ExitedWith(75));  // all are gone; the back-off runs
    if (moment == 3) j.Pass(2 * kSecond);         // gathering again
    ASSERT_FALSE(j.end) << moment;
    j.Feed(AgentSaid{"agent-a", StopRequest{"Ctrl-C"}});
    if (moment < 2) {
      EXPECT_EQ(j.Got<Stop>(3).back().code, kExitToldToLeave);
      for (int i : {0, 1, 3}) j.Exits(i, ExitedWith(143));
    }
    ASSERT_TRUE(j.end) << moment;
    EXPECT_EQ(j.end->code, kExitToldToLeave) << moment;
    EXPECT_EQ(j.end->reason, "Ctrl-C");
    EXPECT_THAT(j.Recorded(record_kind::kStopped), SizeIs(1));
  }
}

TEST_F(RestartTest, AFailureBeforeTheFirstViewEndsTheJob) {
  job.Gather();
  for (int i = 0; i < 3; ++i) job.SaysHello(i);
  job.Exits(3, ExitedWith(1), "NameError: lerning_rate\n");
  job.Pass(kSecond);
  for (int i = 0; i < 3; ++i) job.Exits(i, ExitedWith(1));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 1);
  EXPECT_EQ(job.end->reason,
            "worker:3 on b exited with code 1; last lines:\nNameError: lerning_rate");
}

TEST_F(RestartTest, BadDataEndsTheJobHoweverFarItIs) {
  job.Train();
  job.Leaves(1, LeaveReason::kFailed, 7, 1, 65, "records.bin: block 3 is damaged");
  job.Pass(kSecond);
  ASSERT_TRUE(job.state.ending);
  EXPECT_EQ(job.state.ending->code, 65);
}

TEST_F(RestartTest, ThreeFailuresOfOneReplicaAtOneStepEndTheJobWithItsCode) {
  job.Train();
  for (int i = 0; i < 2; ++i) {
    Dies(1, KilledBy(11), 100);
    ComesBack(1);
  }
  Dies(1, KilledBy(11), 100);
  OthersExit(1);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 139);
  EXPECT_EQ(job.end->reason,
            "worker:1 on a (replica 1) failed 3 times at step 100: was killed by signal 11 "
            "(SIGSEGV); last lines:\nboom");
  EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed).back().action, "end");
}

TEST_F(RestartTest, ThePeersTellTheStepOfADeathThatNoBeatTold) {
  job.Train();
  for (int i = 0; i < 2; ++i) {
    job.Beats(0, 90 + i);  // beats come too seldom to tell
    job.Exits(1, ExitedWith(3));
    for (int peer : {0, 2, 3}) job.Says(peer, Closed{job.state.view.id, 0, 100, 1});
    job.Pass(300 * kMs);
    EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed).back().step, 100);
    ComesBack(1);
  }
  EXPECT_EQ(job.state.restarts.failures.size(), 1u);
}

TEST_F(RestartTest, TheBudgetIsFilledByANewCheckpointOnly) {
  job.options.max_restarts = 2;
  job.Train();
  for (int i = 0; i < 2; ++i) {
    Dies(1, KilledBy(9));
    ComesBack(1);
  }
  job.Says(0, CheckpointCommitted{job.state.view.id, 0, 130, "p", 1, {}});
  for (int i = 0; i < 2; ++i) {
    Dies(1, KilledBy(9));
    ComesBack(1);
    job.Says(0, CheckpointCommitted{job.state.view.id, 0, 130, "p", 1, {}});
  }
  Dies(1, KilledBy(9));
  OthersExit(1);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 137);
  EXPECT_THAT(job.end->reason, HasSubstr("restarted 2 times without a new checkpoint"));
}

TEST_F(RestartTest, BrokenLinksBetweenLiveWorkersRestartToo) {
  job.Train();
  job.Complains(0, 2);
  job.Pass(3 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  EXPECT_THAT(job.Recorded(record_kind::kLinksBroken), SizeIs(1));
}

TEST_F(RestartTest, AJobThatAnotherRunHasTakenOverEndsWith75) {
  job.Train();
  job.Feed(Superseded{});
  EXPECT_EQ(job.Got<Stop>(0).at(0).code, kExitNotNow);
  job.AllExit(ExitedWith(75));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_EQ(job.end->reason, "another run has taken over this job");
}

// ---- what people see ----

TEST_F(RestartTest, PeopleAreToldWhatHappenedAndWhatFollows) {
  job.Train();
  job.Says(0, CheckpointCommitted{job.state.view.id, 0, 100, "p", 1, {}});
  job.ForgetOrders();
  Dies(1, KilledBy(9));
  const auto notices = job.AgentGot<Notice>("agent-b");
  ASSERT_THAT(notices, SizeIs(1));
  EXPECT_THAT(
      notices[0].text,
      HasSubstr("worker:1 on a was killed by signal 9 (SIGKILL) at step 120; all restart "
                "from the last checkpoint (restart 1, 9 left until the next checkpoint) in 0."));
  job.held = {0, 100, 7, -1};
  OthersExit(1);
  job.Pass(kSecond);
  job.Join();
  EXPECT_EQ(job.AgentGot<Notice>("agent-b").back().text,
            "training again from step 100: 20 steps to repeat, 1.3 s after the failure");
}

}  // namespace
}  // namespace everstep
