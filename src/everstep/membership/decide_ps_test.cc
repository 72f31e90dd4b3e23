// membership: the rules for jobs with parameter servers: tasks that are restarted while others go
// on.
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

// chief:0 and worker:0 on host a, worker:1 and ps:0 on b.
class PsTest : public GangTest {
 protected:
  PsTest() : job(Gang(2)) {
    job.options.chiefs = 1;
    job.options.parameter_servers = 1;
  }
  void Dies(const std::string& task, int status = KilledBy(9)) {
    job.Exits(job.IndexOf(task), status, "tail of " + task);
  }
  TestJob job;
};

TEST_F(PsTest, ALostWorkerIsRestartedAloneAtTheSameAddress) {
  Run(job);
  const WorkerEntry before = job.state.workers[job.IndexOf("worker:1")];
  job.ForgetOrders();
  job.Feed(AgentSaid{"agent-b", Ports{{7000, 7001}}});
  Dies("worker:1");
  job.Pass(3 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
  ASSERT_THAT(job.Spawned(), ElementsAre("worker:1"));
  const Spawn spawn = job.AgentGot<Spawn>("agent-b").at(0);
  EXPECT_EQ(spawn.cluster.jobs.at("worker").at(1), before.address);
  EXPECT_GT(spawn.incarnation, 4u) << "a life never lived before";
  const JobRecord record = job.Recorded(record_kind::kWorkerFailed).at(0);
  EXPECT_EQ(record.action, "restart");
  EXPECT_EQ(record.restarts_left, 9);
  EXPECT_THAT(record.tail, ElementsAre("tail of worker:1"));
  EXPECT_THAT(job.Told(), HasSubstr("worker:1 on b was killed by signal 9 (SIGKILL); it is "
                                    "restarted in 0."));
  EXPECT_THAT(job.Told(), HasSubstr("the others go on (restart 1, 9 left"));
}

TEST_F(PsTest, TwoLostWorkersAreBothRestartedAlone) {
  Run(job);
  job.ForgetOrders();
  Dies("worker:1");
  Dies("worker:0");
  job.Pass(5 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0", "worker:1"));
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
  EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed).size(), 2u);
}

TEST_F(PsTest, ALostServerRestartsItAndTheChiefWithTheFullGrace) {
  Run(job);
  job.ForgetOrders();
  Dies("ps:0");
  job.Pass(3 * kSecond);
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("chief:0"));
  EXPECT_EQ(job.AgentGot<Kill>("agent-a").at(0).grace, job.options.grace);
  EXPECT_THAT(job.Spawned(), ElementsAre("ps:0"));
  Vitals wrote = TestJob::GoingOn();
  wrote.wrote = true;
  job.Sees(job.IndexOf("chief:0"), wrote);
  EXPECT_THAT(job.Recorded(record_kind::kRecovered), IsEmpty()) << "it is the former life's";
  EXPECT_THAT(job.Told(), HasSubstr("it and chief:0 on a are restarted in 0."));
  Dies("chief:0", KilledBy(15));
  job.Pass(kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("chief:0", "ps:0"));
  EXPECT_EQ(job.state.restarts.total, 1);
}

TEST_F(PsTest, AChiefThatDiesBecauseOfALostServerIsNoSecondFailure) {
  Run(job);
  Dies("chief:0", ExitedWith(1));  // heard of first
  job.now += 20 * kMs;
  Dies("ps:0");
  job.Pass(5 * kSecond);
  const auto failed = job.Recorded(record_kind::kWorkerFailed);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].task, "ps:0");
  EXPECT_GT(job.LifeOf("chief:0"), 4u);
  EXPECT_EQ(job.state.restarts.total, 1);
}

TEST_F(PsTest, ALostChiefIsRestartedAloneWithThoseThatHadFinished) {
  Run(job);
  job.ForgetOrders();
  Dies("worker:0", ExitedWith(0));
  Dies("chief:0");
  job.Pass(3 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("chief:0", "worker:0"));
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
}

TEST_F(PsTest, TheChiefsSuccessIsTheEndAndHowTheOthersLeaveIsNoFailure) {
  Run(job);
  job.ForgetOrders();
  Dies("chief:0", ExitedWith(0));
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("ps:0", "worker:0", "worker:1"));
  Dies("ps:0", KilledBy(15));
  Dies("worker:0", ExitedWith(1));
  Dies("worker:1", KilledBy(9));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 0);
  EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), IsEmpty());
}

TEST_F(PsTest, AChiefsSuccessInAnswerToBeingEndedIsNone) {
  Run(job);
  Dies("ps:0");
  job.Pass(kSecond);
  Dies("chief:0", ExitedWith(0));
  job.Pass(kSecond);
  EXPECT_FALSE(job.state.ending);
  EXPECT_GT(job.LifeOf("chief:0"), 4u);
}

TEST_F(PsTest, SilenceIsThatOfTheTrainersWhateverAServerDoes) {
  Run(job);
  Vitals silent = TestJob::GoingOn();
  silent.idle = 61 * kSecond;
  for (const char* task : {"chief:0", "worker:0", "worker:1"}) {
    job.Sees(job.IndexOf(task), silent);
  }
  job.Sees(job.IndexOf("ps:0"), TestJob::GoingOn());
  job.Pass(kSecond);
  EXPECT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 1u);
}

TEST_F(PsTest, AWorkersSuccessIsWaitedWith) {
  Run(job);
  Dies("worker:0", ExitedWith(0));
  Dies("worker:1", ExitedWith(0));
  job.Pass(40 * kSecond);
  EXPECT_FALSE(job.state.ending);
  EXPECT_THAT(job.Told(), HasSubstr("worker:0 on a has exited with code 0 and chief:0 on a still "
                                    "runs; the job is done when the chief has"));
}

TEST_F(PsTest, TheThirdFailureOfOneTaskEndsTheJobAndTheOthersEndBecauseOfIt) {
  Run(job);
  for (int i = 0; i < 3; ++i) {
    Dies("worker:1", ExitedWith(4));
    job.Pass(10 * kSecond);
  }
  ASSERT_TRUE(job.state.ending);
  for (const char* task : {"chief:0", "worker:0", "ps:0"}) Dies(task, KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, 4);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 on b failed 3 times"));
  EXPECT_THAT(job.Told(), HasSubstr("chief:0, worker:0 and ps:0 ended because worker:1 did"));
}

TEST_F(PsTest, ALostHostRestartsAllAsItsAddressesAreGone) {
  Run(job);
  job.AgentRegisters("agent-c", "c", 2);
  job.Feed(AgentStreamLost{"agent-b"});
  job.ForgetOrders();
  job.Pass(4 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("chief:0", "worker:0"));
  Dies("chief:0", KilledBy(15));
  Dies("worker:0", KilledBy(15));
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.workers[job.IndexOf("ps:0")].address, "c.net:5001");
}

TEST_F(PsTest, AHostThatIsLostBeforeItsTaskIsThereAgainRestartsAll) {
  Run(job);
  job.journal_stuck = true;  // so that the restart is waited with
  Dies("worker:1");
  job.Pass(kSecond);
  Dies("ps:0", ExitedWith(0));
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(35 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  EXPECT_THAT(job.Told(), HasSubstr("worker:1 on b was lost with its host before it could be "
                                    "started again; all restart"));
}

TEST_F(PsTest, ARestartWaitsForItsRecordToBeOnDisk) {
  Run(job);
  job.journal_stuck = true;
  job.ForgetOrders();
  Dies("worker:1");
  job.Pass(10 * kSecond);
  EXPECT_THAT(job.Spawned(), IsEmpty());
  job.Feed(Journaled{static_cast<int64_t>(job.records.size())});
  job.Pass(100 * kMs);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:1"));
}

TEST_F(PsTest, AProcessWhoseEndIsNeverToldDoesNotKeepItsTask) {
  Run(job);
  job.ForgetOrders();
  Dies("ps:0");
  job.Pass(job.options.grace + 3 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("ps:0"));
  job.Pass(3 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("chief:0", "ps:0"));
  EXPECT_THAT(job.Told(), HasSubstr("nothing is known of the end of chief:0"));
  job.AgentRegisters("agent-a", "a", 2);
  EXPECT_EQ(job.AgentGot<Kill>("agent-a").back().incarnation, 1u) << "it is killed when seen again";
}

TEST_F(PsTest, AFormerLifesWordsAreNotTakenForTheNewOnes) {
  Run(job);
  const WorkerEntry before = job.state.workers[job.IndexOf("worker:1")];
  Dies("worker:1");
  job.Pass(3 * kSecond);
  job.Feed(
      AgentSaid{before.agent, Exited{before.task, before.incarnation, KilledBy(9), "", false, ""}});
  job.Pass(3 * kSecond);
  EXPECT_EQ(job.state.restarts.total, 1);
}

TEST_F(PsTest, AWorkerIsBackWhenItRunsAndTheChiefWhenItGoesOn) {
  Run(job);
  Dies("worker:1");
  job.Pass(3 * kSecond);
  EXPECT_THAT(job.Recorded(record_kind::kRecovered), IsEmpty());
  job.Sees(job.IndexOf("worker:1"), TestJob::GoingOn());
  ASSERT_EQ(job.Recorded(record_kind::kRecovered).size(), 1u);
  EXPECT_NEAR(*job.Recorded(record_kind::kRecovered)[0].lost_seconds, 3, 0.1);
  EXPECT_THAT(job.Told(), HasSubstr("worker:1 on b is back, 3.0 s after the failure"));

  Dies("ps:0");
  Dies("chief:0");
  job.Pass(3 * kSecond);
  job.Sees(job.IndexOf("ps:0"), TestJob::GoingOn());
  job.Sees(job.IndexOf("chief:0"), TestJob::GoingOn());
  EXPECT_EQ(job.Recorded(record_kind::kRecovered).size(), 1u);
  Vitals wrote = TestJob::GoingOn();
  wrote.wrote = true;
  job.Sees(job.IndexOf("chief:0"), wrote);
  EXPECT_GE(job.Recorded(record_kind::kRecovered).size(), 2u);
  EXPECT_THAT(job.Told(), HasSubstr("training again, 3.0 s after the failure"));
}

TEST_F(PsTest, AStoppedWorkerIsRestartedAloneAndOnlyItsStacksAreTaken) {
  Run(job);
  Vitals stopped = TestJob::GoingOn();
  stopped.stopped = 6 * kSecond;
  job.Sees(job.IndexOf("worker:0"), stopped);
  job.ForgetOrders();
  job.Pass(200 * kMs);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), ElementsAre("worker:0"));
  job.Answers(job.IndexOf("worker:0"), "Thread 1\n  File \"a.py\", line 3 in f\n");
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("worker:0"));
  EXPECT_EQ(job.AgentGot<Kill>("agent-a").at(0).grace, Duration(0)) << "it would not hear SIGTERM";
  Dies("worker:0");
  job.Pass(3 * kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("worker:0"));
  const JobRecord record = job.Recorded(record_kind::kWorkerHung).at(0);
  EXPECT_EQ(record.task, "worker:0");
  EXPECT_EQ(record.evidence, "strong");
  EXPECT_EQ(record.stacks, "/stacks-worker:0");
}

TEST_F(PsTest, AStoppedServerRestartsTheChiefTooAndItsDeathMeanwhileIsAConsequence) {
  Run(job);
  Vitals stopped = TestJob::GoingOn();
  stopped.stopped = 6 * kSecond;
  job.Sees(job.IndexOf("ps:0"), stopped);
  job.ForgetOrders();
  job.Pass(200 * kMs);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), ElementsAre("chief:0", "ps:0"));
  Dies("chief:0", KilledBy(6));
  Dies("worker:1");  // of its own
  job.Pass(10 * kSecond);
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("ps:0"));
  Dies("ps:0");
  job.Pass(kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("chief:0", "ps:0", "worker:1"));
  EXPECT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 1u);
  ASSERT_EQ(job.Recorded(record_kind::kWorkerFailed).size(), 1u);
  EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed)[0].task, "worker:1");
}

TEST_F(PsTest, AChiefWhoseHeartbeatsStopRestartsAll) {
  Run(job);
  Vitals late = TestJob::GoingOn();
  late.beats = true;
  late.beat_age = 301 * kSecond;
  late.beat_limit = 300 * kSecond;
  job.Sees(job.IndexOf("chief:0"), late);
  job.ForgetOrders();
  job.Pass(200 * kMs);
  EXPECT_EQ(job.TasksOf<TakeStacks>().size(), 4u);
  job.Pass(6 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
}

}  // namespace
}  // namespace everstep
