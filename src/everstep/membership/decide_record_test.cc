// membership: rules of what is put on record, and of the status of a job.
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
using ::testing::SizeIs;

class RecordTest : public ::testing::Test {
 protected:
  RecordTest() {
    job.options.max_restarts = 10;
    job.options.term = 3;
    job.options.first_incident = 5;
  }
  std::vector<std::string> Kinds() const {
    std::vector<std::string> kinds;
    for (const JobRecord& record : job.records) kinds.push_back(record.kind);
    return kinds;
  }
  void DiesAt120AndRestoresAt100() {
    for (int i = 0; i < 2; ++i) job.Beats(i, 120);
    job.Exits(1, KilledBy(9), "a\nb\n");
    job.Pass(300 * kMs);
    job.Exits(0, ExitedWith(75));
    job.Pass(kSecond);
    job.held = {0, 100, 7, -1};
    job.Join();
  }

  TestJob job{2};
};

TEST_F(RecordTest, ARunThatNothingDisturbsHasABeginningTrainingAndAnEnd) {
  job.held = {1, 40, 7, -1};
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.AllExit();
  ASSERT_THAT(Kinds(), ElementsAre("run_started", "training", "run_ended"));
  for (const JobRecord& record : job.records) {
    EXPECT_EQ(record.term, 3);
    EXPECT_EQ(record.incident, 0);
  }
  EXPECT_EQ(job.records[1].view, (ViewId{3, 1}));
  EXPECT_EQ(job.records[1].step, 40);
  EXPECT_EQ(job.records[1].history, 1);
  EXPECT_EQ(job.records[2].exit_code, 0);
  EXPECT_EQ(job.records[2].step, 100);
  EXPECT_EQ(job.records[2].cause, "");
}

TEST_F(RecordTest, AKilledWorkerIsRecordedWithAllThatIsKnown) {
  job.Train();
  DiesAt120AndRestoresAt100();
  const auto failed = job.Recorded(record_kind::kWorkerFailed);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].incident, 5);
  EXPECT_EQ(failed[0].cause, "worker:1 was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(failed[0].task, "worker:1");
  EXPECT_EQ(failed[0].host, "a");
  EXPECT_EQ(failed[0].view, (ViewId{3, 1}));
  EXPECT_EQ(failed[0].step, 120);
  EXPECT_EQ(failed[0].exit_code, 137);
  EXPECT_EQ(failed[0].signal, 9);
  EXPECT_FALSE(failed[0].oom);
  EXPECT_THAT(failed[0].tail, ElementsAre("a", "b"));
  EXPECT_EQ(failed[0].log, "/log");
  EXPECT_EQ(failed[0].action, "restart");
  EXPECT_EQ(failed[0].restarts_left, 9);
  ASSERT_TRUE(failed[0].back_off_seconds);
  EXPECT_NEAR(*failed[0].back_off_seconds, 0.5, 0.125);
}

TEST_F(RecordTest, LackOfMemoryIsToldAsSuch) {
  job.Train();
  job.Exits(1, KilledBy(9), "", /*oom=*/true);
  job.Pass(kSecond);
  const auto failed = job.Recorded(record_kind::kWorkerFailed);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_TRUE(failed[0].oom);
  EXPECT_EQ(failed[0].cause, "worker:1 was killed by the kernel for lack of memory (OOM)");
}

TEST_F(RecordTest, OnlyTheLastTwentyLinesAreKept) {
  job.Train();
  std::string tail;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&tail, "line ", i, "\n");
  job.Exits(1, ExitedWith(1), tail);
  job.Pass(kSecond);
  const auto failed = job.Recorded(record_kind::kWorkerFailed).at(0);
  ASSERT_THAT(failed.tail, SizeIs(20));
  EXPECT_EQ(failed.tail.front(), "line 10");
}

TEST_F(RecordTest, ALostWorkerHasNoExitCode) {
  job.Train();
  job.StreamBreaks(1);
  job.Pass(3 * kSecond);
  const auto lost = job.Recorded(record_kind::kWorkerLost);
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_EQ(lost[0].task, "worker:1");
  EXPECT_FALSE(lost[0].exit_code);
  EXPECT_FALSE(lost[0].signal);
}

TEST_F(RecordTest, OwnWordsGoBeforeTheWayItThenExited) {
  job.Train();
  job.Leaves(1, LeaveReason::kFailed, 50, 1, 70, "assertion");
  job.Exits(1, KilledBy(9), "tail");
  job.Pass(kSecond);
  const auto failed = job.Recorded(record_kind::kWorkerFailed).at(0);
  EXPECT_EQ(failed.cause, "worker:1 failed: assertion");
  EXPECT_EQ(failed.exit_code, 70);
  EXPECT_FALSE(failed.signal);
  EXPECT_EQ(failed.step, 50);
  EXPECT_THAT(failed.tail, ElementsAre("tail"));
}

TEST_F(RecordTest, RecoveredIsWhenTheStepThatWasCutShortIsDone) {
  job.Train();
  DiesAt120AndRestoresAt100();
  job.Pass(kSecond);
  job.Beats(1, 121);  // not the committer
  job.Beats(0, 120);
  EXPECT_THAT(job.Recorded(record_kind::kRecovered), IsEmpty());
  job.Pass(kSecond);
  job.Beats(0, 121);
  job.Beats(0, 122);
  const auto recovered = job.Recorded(record_kind::kRecovered);
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].incident, 5);
  EXPECT_EQ(recovered[0].step, 120);
  EXPECT_EQ(recovered[0].restored_step, 100);
  EXPECT_EQ(recovered[0].repeated_steps, 20);
  ASSERT_TRUE(recovered[0].lost_seconds);
  EXPECT_NEAR(*recovered[0].lost_seconds, 3.3, 0.001);
}

TEST_F(RecordTest, AnIncidentOnTheWayBackLeavesTheFirstOneOpen) {
  job.Train();
  DiesAt120AndRestoresAt100();
  job.Beats(0, 110);
  job.Exits(1, KilledBy(9));
  job.Pass(300 * kMs);
  job.Exits(0, ExitedWith(75));
  job.Pass(2 * kSecond);
  job.Join();
  job.Beats(0, 111);
  ASSERT_THAT(job.Recorded(record_kind::kRecovered), SizeIs(1));
  EXPECT_EQ(job.Recorded(record_kind::kRecovered)[0].incident, 6);
  job.Beats(0, 121);
  ASSERT_THAT(job.Recorded(record_kind::kRecovered), SizeIs(2));
  EXPECT_EQ(job.Recorded(record_kind::kRecovered)[1].incident, 5);
}

TEST_F(RecordTest, AJobThatIsDoneHasRecovered) {
  job.Train();
  DiesAt120AndRestoresAt100();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished, 120);
  EXPECT_THAT(job.Recorded(record_kind::kRecovered), SizeIs(1));
}

TEST_F(RecordTest, StatesThatDifferAreAnIncident) {
  job.Train();
  job.Leaves(0, LeaveReason::kFinished, 100, 5);
  job.Leaves(1, LeaveReason::kFinished, 100, 6);
  const auto differ = job.Recorded(record_kind::kStatesDiffer);
  ASSERT_THAT(differ, SizeIs(1));
  EXPECT_EQ(differ[0].incident, 5);
  EXPECT_EQ(differ[0].action, "end");
  EXPECT_THAT(differ[0].cause, HasSubstr("worker:1"));
}

TEST_F(RecordTest, BeingToldToStopIsRecordedAndIsNoIncident) {
  job.Train();
  job.Beats(0, 60);
  job.Leaves(1, LeaveReason::kToldToLeave, 60);
  job.Pass(300 * kMs);
  job.AllExit(ExitedWith(143));
  const auto stopped = job.Recorded(record_kind::kStopped);
  ASSERT_THAT(stopped, SizeIs(1));
  EXPECT_EQ(stopped[0].incident, 0);
  EXPECT_EQ(stopped[0].cause, "worker:1 was told to leave");
  EXPECT_EQ(stopped[0].task, "worker:1");
  EXPECT_EQ(stopped[0].step, 60);
  EXPECT_EQ(job.Recorded(record_kind::kRunEnded).at(0).exit_code, 143);
}

TEST_F(RecordTest, TheEndNamesTheLastStepThoughItIsToldWhileTheJobStops) {
  job.Train();
  job.Beats(0, 60);
  job.Feed(StopAsked{"SIGTERM"});
  job.Leaves(1, LeaveReason::kToldToLeave, 74);
  EXPECT_EQ(StatusOf(job.now, job.state).step, 74);
  job.AllExit(ExitedWith(143));
  EXPECT_EQ(job.Recorded(record_kind::kRunEnded).at(0).step, 74);
}

TEST_F(RecordTest, TheEndNamesTheLastStepThoughOnlyItsCheckpointWasTold) {
  job.Train();
  job.Beats(0, 60);
  job.Feed(StopAsked{"SIGTERM"});
  job.Says(0, CheckpointCommitted{job.state.view.id, 0, 74, "p", 1, {}});
  EXPECT_EQ(StatusOf(job.now, job.state).step, 74);
  job.AllExit(ExitedWith(143));
  EXPECT_EQ(job.Recorded(record_kind::kRunEnded).at(0).step, 74);
}

TEST_F(RecordTest, AFailureAfterTrainingIsRecordedToo) {
  job.Train();
  for (int i = 0; i < 2; ++i) job.Leaves(i, LeaveReason::kFinished);
  job.Exits(0, ExitedWith(9), "cannot save plot");
  job.Exits(1, ExitedWith(0));
  const auto failed = job.Recorded(record_kind::kWorkerFailed);
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].exit_code, 9);
  EXPECT_EQ(failed[0].action, "end");
}

TEST_F(RecordTest, NotesBecomeRecordsOnceAMinuteForTheSameText) {
  job.Train();
  const auto note = [&](int index, Step step, const std::string& text) {
    job.Says(index, Note{record_kind::kCheckpointFailed, step, text});
  };
  note(0, 10, "no space");
  note(1, 10, "no space");
  note(0, 20, "no space");
  note(0, 20, "no inode");
  job.Says(0, Note{record_kind::kStorageSlow, 20, "no space"});
  const auto failed = job.Recorded(record_kind::kCheckpointFailed);
  ASSERT_THAT(failed, SizeIs(2));
  EXPECT_EQ(failed[0].incident, 5);
  EXPECT_EQ(failed[0].step, 10);
  EXPECT_EQ(failed[0].cause, "no space");
  EXPECT_EQ(failed[0].task, "worker:0");
  EXPECT_EQ(failed[1].cause, "no inode");
  EXPECT_THAT(job.Recorded(record_kind::kStorageSlow), SizeIs(1));
  job.Pass(61 * kSecond);
  note(0, 10, "no space");  // the one that was recorded, said again after a reconnect
  EXPECT_THAT(job.Recorded(record_kind::kCheckpointFailed), SizeIs(2));
  note(0, 30, "no space");
  EXPECT_THAT(job.Recorded(record_kind::kCheckpointFailed), SizeIs(3));
}

TEST_F(RecordTest, ANoteOfAnyOtherKindIsPassedOver) {
  job.Train();
  const size_t before = job.records.size();
  job.Says(0, Note{record_kind::kRunEnded, 10, "I say so"});
  EXPECT_EQ(job.records.size(), before);
}

// ---- the status ----

TEST_F(RecordTest, TheStatusTellsHowTheJobIsDoing) {
  EXPECT_EQ(StatusOf(job.now, MakeJob(job.options)).phase, "gathering");
  job.Train();
  job.Says(0, CheckpointCommitted{job.state.view.id, 0, 50, "p", 1, {}});
  job.Pass(2 * kSecond);
  Beat beat;
  beat.view = job.state.view.id;
  beat.step = 60;
  beat.phase = "input";
  beat.scalars.total_steps = 1000;
  job.Says(0, beat);
  job.Pass(kSecond);
  const JobStatus status = StatusOf(job.now, job.state);
  EXPECT_EQ(status.phase, "training");
  EXPECT_EQ(status.line, "training in view 3.1 with 2 workers");
  EXPECT_EQ(status.term, 3);
  EXPECT_EQ(status.view, (ViewId{3, 1}));
  EXPECT_EQ(status.step, 60);
  EXPECT_EQ(status.workers_wanted, 2);
  EXPECT_EQ(status.restarts, 0);
  EXPECT_EQ(status.restarts_left, 10);
  EXPECT_EQ(status.incidents, 4) << "of former runs";
  EXPECT_EQ(status.checkpoint_step, 50);
  EXPECT_NEAR(status.checkpoint_age_seconds, 3, 0.001);
  EXPECT_EQ(status.scalars.total_steps, 1000);
  ASSERT_THAT(status.tasks, SizeIs(2));
  EXPECT_EQ(status.tasks[0].task, "worker:0");
  EXPECT_EQ(status.tasks[0].host, "a");
  EXPECT_EQ(status.tasks[0].state, "training");
  EXPECT_EQ(status.tasks[0].phase, "input");
  EXPECT_EQ(status.tasks[0].step, 60);
  EXPECT_NEAR(status.tasks[0].silent_seconds, 1, 0.001);
  EXPECT_NEAR(status.tasks[1].silent_seconds, 3, 0.001);
  EXPECT_EQ(status.exit_code, -1);
}

TEST_F(RecordTest, TheStatusTellsOfRestartsAndOfTheEnd) {
  job.Train();
  job.Exits(1, KilledBy(9));
  job.Pass(300 * kMs);
  JobStatus status = StatusOf(job.now, job.state);
  EXPECT_EQ(status.phase, "restarting");
  EXPECT_EQ(status.restarts, 1);
  EXPECT_EQ(status.restarts_left, 9);
  EXPECT_EQ(status.incidents, 5);
  EXPECT_EQ(status.checkpoint_step, -1);
  job.Feed(StopAsked{"enough"});
  EXPECT_EQ(StatusOf(job.now, job.state).phase, "ending");
  job.Exits(0, ExitedWith(143));
  status = StatusOf(job.now, job.state);
  EXPECT_EQ(status.phase, "ended");
  EXPECT_EQ(status.exit_code, kExitToldToLeave);
  EXPECT_EQ(status.reason, "enough");
}

}  // namespace
}  // namespace everstep
