// membership: the rules for what is seen of gangs: checkpoints, recovery, notes, status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/membership/decide_test_gang.h"
#include "everstep/membership/job_status.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Duration kMinute = std::chrono::minutes(1);

Vitals AtStep(Step step) {
  Vitals vitals = TestJob::GoingOn();
  vitals.beats = true;
  vitals.step = step;
  vitals.phase = "train";
  vitals.beat_limit = 300 * kSecond;
  return vitals;
}

class SeenTest : public GangTest {
 protected:
  SeenTest() : job(Gang(2)) {}
  // The gang is killed and starts again.
  void Restart() {
    job.Exits(1, KilledBy(9));
    FinishRestart(job);
  }
  TestJob job;
};

// ---- no checkpoint ----

TEST_F(SeenTest, NoCheckpointIsWarnedOfEachTimeItIsDue) {
  Run(job);
  job.Pass(29 * kMinute);
  EXPECT_THAT(job.Recorded(record_kind::kNoCheckpoint), IsEmpty());
  job.Pass(2 * kMinute);
  ASSERT_EQ(job.Recorded(record_kind::kNoCheckpoint).size(), 1u);
  EXPECT_THAT(job.Told(), HasSubstr("nothing like a checkpoint was written for 30 min; a restart "
                                    "would lose 30 min; if it saves elsewhere say where: "
                                    "--checkpoint-path DIR"));
  EXPECT_EQ(job.Recorded(record_kind::kNoCheckpoint)[0].incident, 1);
  job.Pass(30 * kMinute);
  EXPECT_EQ(job.Recorded(record_kind::kNoCheckpoint).size(), 2u);
  EXPECT_THAT(job.Told(), HasSubstr("was written for 60 min"));
}

TEST_F(SeenTest, ACheckpointPutsTheWarningOffAndCountsForWhatARestartWouldLose) {
  Run(job);
  job.Pass(20 * kMinute);
  job.SeesCheckpoint("/ckpt-1", kMinute);
  job.Pass(29 * kMinute);
  EXPECT_THAT(job.Recorded(record_kind::kNoCheckpoint), IsEmpty());
  job.Pass(2 * kMinute);
  EXPECT_THAT(job.Told(), HasSubstr("written for 30 min; a restart would lose 31 min"));
}

TEST_F(SeenTest, AfterARestartTheTimeBeginsAnew) {
  Run(job);
  job.SeesCheckpoint("/ckpt-1");
  job.Pass(20 * kMinute);
  Restart();
  job.Pass(28 * kMinute);
  EXPECT_THAT(job.Recorded(record_kind::kNoCheckpoint), IsEmpty());
  job.Pass(3 * kMinute);
  EXPECT_EQ(job.Recorded(record_kind::kNoCheckpoint).size(), 1u);
  EXPECT_THAT(job.Told(), HasSubstr("a restart would lose 30 min;"));
}

TEST_F(SeenTest, ANativeProgramIsNotWarned) {
  TestJob native(2);
  native.Train();
  native.Pass(40 * kMinute);
  EXPECT_THAT(native.Recorded(record_kind::kNoCheckpoint), IsEmpty());
}

// ---- recovered ----

TEST_F(SeenTest, ARestartIsRecoveredAtTheFirstSignOfProgressOfTheNewLife) {
  Vitals wrote = TestJob::GoingOn();
  wrote.wrote = true;
  for (int sign = 0; sign < 3; ++sign) {
    TestJob gang = Gang(2);
    Run(gang);
    const TimePoint failed = gang.now;
    gang.Exits(1, KilledBy(9));
    FinishRestart(gang);
    gang.Sees(0, TestJob::GoingOn());
    gang.Sees(1, TestJob::GoingOn());
    gang.SeesCheckpoint("/old", gang.now - failed + 5 * kSecond);
    EXPECT_THAT(gang.Recorded(record_kind::kRecovered), IsEmpty()) << "it only runs";
    if (sign == 0) gang.Sees(1, wrote);
    if (sign == 1) gang.Sees(1, AtStep(1));
    if (sign == 2) gang.SeesCheckpoint("/ckpt-1");
    ASSERT_EQ(gang.Recorded(record_kind::kRecovered).size(), 1u) << sign;
    const JobRecord record = gang.Recorded(record_kind::kRecovered)[0];
    EXPECT_EQ(record.incident, 1);
    EXPECT_DOUBLE_EQ(*record.lost_seconds, ToSeconds(gang.now - failed));
    EXPECT_THAT(gang.Told(), HasSubstr("training again, 41.0 s after the failure"));
  }
}

TEST_F(SeenTest, AnEvaluatorThatIsBackDoesNotMeanThatTheTrainingIs) {
  job.options.evaluators = 1;
  Run(job);
  Restart();
  job.Exits(2, KilledBy(9));
  job.Pass(3 * kSecond);
  job.Sees(2, TestJob::GoingOn());
  const auto recovered = job.Recorded(record_kind::kRecovered);
  ASSERT_EQ(recovered.size(), 1u);
  EXPECT_EQ(recovered[0].incident, 2);
}

TEST_F(SeenTest, StepsThatHeartbeatsTellAreOnRecord) {
  Run(job);
  job.Sees(0, AtStep(120));
  Restart();
  EXPECT_THAT(job.Told(), HasSubstr("was killed by signal 9 (SIGKILL) at step 120"));
  job.Sees(0, AtStep(101));
  const JobRecord record = job.Recorded(record_kind::kRecovered).at(0);
  EXPECT_EQ(record.step, 120);
  EXPECT_EQ(record.restored_step, 101);
  EXPECT_EQ(record.repeated_steps, 19);
}

TEST_F(SeenTest, AJobThatIsDoneHasRecovered) {
  Run(job);
  Restart();
  EXPECT_THAT(job.Recorded(record_kind::kRecovered), IsEmpty());
  job.AllExit();
  EXPECT_EQ(job.Recorded(record_kind::kRecovered).size(), 1u);
  ASSERT_TRUE(job.end);
}

TEST_F(SeenTest, EachLifeOfTheGangHasATrainingRecordAndAViewOfItsOwn) {
  Run(job);
  Restart();
  const auto training = job.Recorded(record_kind::kTraining);
  ASSERT_EQ(training.size(), 2u);
  EXPECT_EQ(training[0].view.ToString(), "1.1");
  EXPECT_EQ(training[1].view.ToString(), "1.2");
}

TEST_F(SeenTest, TheTerminalIsToldTheStepOfTheFirstTask) {
  Run(job);
  job.Sees(1, AtStep(7));
  job.Sees(0, AtStep(5));
  job.Sees(0, AtStep(5));
  job.Sees(0, AtStep(6));
  const auto told = job.AgentGot<Progress>("agent-a");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].step, 5);
  EXPECT_EQ(told[1].step, 6);
  EXPECT_EQ(told[1].workers, 2);
}

// ---- notes ----

TEST_F(SeenTest, AnAgentsNoteOfARottenCheckpointIsRecordedAndToldOnce) {
  Run(job);
  const Note note{record_kind::kCheckpointRejected, 0, "checkpoint /x/ckpt-5 is damaged"};
  job.Feed(AgentSaid{"agent-a", note});
  job.Feed(AgentSaid{"agent-a", note});  // after a reconnect
  job.Feed(AgentSaid{"agent-a", Note{"worker_failed", 0, "no such kind"}});
  const auto records = job.Recorded(record_kind::kCheckpointRejected);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].cause, "checkpoint /x/ckpt-5 is damaged");
  EXPECT_EQ(records[0].host, "a");
  EXPECT_EQ(records[0].incident, 1);
  EXPECT_THAT(job.Told(), HasSubstr("/x/ckpt-5 is damaged"));
  EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), IsEmpty());
}

// ---- status ----

TEST_F(SeenTest, TheStatusTellsWhatIsSeen) {
  job.options.evaluators = 1;
  Run(job);
  Vitals vitals = AtStep(12);
  vitals.beat_age = 4 * kSecond;
  vitals.cpu = 1.5;
  vitals.memory = 1 << 30;
  vitals.seen = "output 3 s ago";
  job.Sees(0, vitals);
  Vitals stopped = TestJob::GoingOn();
  stopped.stopped = 2 * kSecond;
  stopped.idle = 7 * kSecond;
  job.Sees(1, stopped);
  JobStatus status = StatusOf(job.now, job.state);
  EXPECT_TRUE(status.gang);
  EXPECT_EQ(status.phase, "running");
  EXPECT_EQ(status.line, "running: 3 processes, no checkpoint seen");
  ASSERT_EQ(status.tasks.size(), 3u);
  EXPECT_EQ(status.tasks[0].state, "running");
  EXPECT_EQ(status.tasks[0].phase, "train");
  EXPECT_EQ(status.tasks[0].step, 12);
  EXPECT_EQ(status.step, 12);
  EXPECT_EQ(status.tasks[0].silent_seconds, 4);
  EXPECT_EQ(status.tasks[0].cores, 1.5);
  EXPECT_EQ(status.tasks[0].memory_bytes, 1 << 30);
  EXPECT_EQ(status.tasks[0].seen, "output 3 s ago");
  EXPECT_EQ(status.tasks[1].state, "stopped");
  EXPECT_EQ(status.tasks[1].silent_seconds, 7);
  EXPECT_EQ(status.tasks[2].task, "evaluator:0");
  EXPECT_NEAR(status.unsaved_seconds, ToSeconds(job.now - job.state.gang.began), 1e-9);
}

TEST_F(SeenTest, TheStatusTellsTheCheckpointAndWhatARestartWouldLose) {
  Run(job);
  job.Pass(10 * kMinute);
  job.SeesCheckpoint("/m/ckpt-5", 30 * kSecond);
  job.Pass(3 * kMinute);
  JobStatus status = StatusOf(job.now, job.state);
  EXPECT_EQ(status.line, "running: 2 processes, last checkpoint 3 min ago");
  EXPECT_EQ(status.checkpoint_path, "/m/ckpt-5");
  EXPECT_NEAR(status.checkpoint_age_seconds, 210, 0.1);
  EXPECT_NEAR(status.unsaved_seconds, 210, 0.1);
  EXPECT_EQ(job.reason, "running: 2 processes") << "logged when it changes: it must not count";
  Restart();
  status = StatusOf(job.now, job.state);
  EXPECT_LT(status.unsaved_seconds, 45) << "since the restart";
  EXPECT_GT(status.checkpoint_age_seconds, 240);
}

TEST_F(SeenTest, TheStatusOfAnEvaluatorIsItsOwnWhileTheOthersRestart) {
  job.options.evaluators = 1;
  Run(job);
  job.Exits(1, KilledBy(9));
  job.Pass(kSecond);
  const JobStatus status = StatusOf(job.now, job.state);
  EXPECT_EQ(status.tasks[0].state, "restarting");
  EXPECT_EQ(status.tasks[2].state, "running");
  EXPECT_EQ(status.line, "restarting: 1 process has not exited yet");
}

TEST_F(SeenTest, TheStatusTellsWhoIsRestartedAndWhoHasFinished) {
  job.options.chiefs = 1;
  job.options.parameter_servers = 1;
  Run(job);
  job.Exits(1, ExitedWith(0));
  job.Exits(2, KilledBy(9));
  job.Pass(300 * kMs);
  const JobStatus status = StatusOf(job.now, job.state);
  EXPECT_EQ(status.tasks[0].state, "running");
  EXPECT_EQ(status.tasks[1].state, "finished");
  EXPECT_EQ(status.tasks[2].state, "restarting");
  EXPECT_EQ(status.restarts, 1);
  EXPECT_EQ(status.line, "running: 2 processes, no checkpoint seen");
}

}  // namespace
}  // namespace everstep
