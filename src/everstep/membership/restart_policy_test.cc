// membership: rules of the restart policy.
#include "everstep/membership/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "everstep/base/exit_code.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

RestartBook InTraining() {
  RestartBook book;
  book.native = book.trained = true;
  return book;
}

Fault FaultAt(Step step, Blame blame, int code = 1) {
  Fault fault;
  fault.blame = blame;
  fault.code = code;
  fault.who = "worker:1";
  fault.what = "exited with code 1";
  fault.task_index = 1;
  fault.step = step;
  fault.replica_begin = 2;
  fault.replica_end = 4;
  return fault;
}

bool Restarts(const RestartBook& book, const Fault& fault) {
  return RestartOrEnd(book, fault).restart;
}

double Seconds(const RestartBook& book) {
  return ToSeconds(RestartOrEnd(book, FaultAt(7, Blame::kOutside)).back_off);
}

TEST(BlameFor, IsTheProgramsOwnUnlessAnotherHadAHandInIt) {
  for (int code : {1, 3, 70, 127, 255}) EXPECT_EQ(BlameFor(code, 0, false), Blame::kOwn) << code;
  for (int signal : {4, 6, 7, 8, 11}) {
    EXPECT_EQ(BlameFor(128 + signal, signal, false), Blame::kOwn) << signal;
  }
  for (int signal : {1, 2, 9}) {
    EXPECT_EQ(BlameFor(128 + signal, signal, false), Blame::kOutside) << signal;
  }
  EXPECT_EQ(BlameFor(137, 0, false), Blame::kOutside) << "a shell tells of its child's end";
  EXPECT_EQ(BlameFor(137, 9, true), Blame::kOwn) << "it took too much memory itself";
  EXPECT_EQ(BlameFor(kExitNotNow, 0, false), Blame::kAgain);
  for (int code : {143, 42}) EXPECT_EQ(BlameFor(code, 0, false), Blame::kLeave) << code;
}

TEST(RestartOrEnd, AnyFailureInTrainingRestarts) {
  for (Blame blame : {Blame::kOwn, Blame::kAgain, Blame::kOutside}) {
    EXPECT_TRUE(Restarts(InTraining(), FaultAt(7, blame)));
  }
}

TEST(RestartOrEnd, UsageDataAndConfigurationEndAtOnce) {
  for (int code : {kExitUsage, kExitBadData, kExitConfiguration}) {
    const RestartVerdict verdict = RestartOrEnd(InTraining(), FaultAt(7, Blame::kOwn, code));
    EXPECT_FALSE(verdict.restart) << code;
    EXPECT_EQ(verdict.reason, "worker:1 exited with code 1");
  }
}

TEST(RestartOrEnd, WhoIsToldToLeaveEndsAtOnce) {
  EXPECT_FALSE(Restarts(InTraining(), FaultAt(7, Blame::kLeave, 143)));
}

TEST(RestartOrEnd, BeforeAnyViewOnlyWhatCameFromOutsideRestarts) {
  RestartBook book = InTraining();
  book.trained = false;
  EXPECT_FALSE(Restarts(book, FaultAt(-1, Blame::kOwn)));
  EXPECT_FALSE(Restarts(book, FaultAt(-1, Blame::kAgain, kExitNotNow)));
  EXPECT_TRUE(Restarts(book, FaultAt(-1, Blame::kOutside, 137)));
}

TEST(RestartOrEnd, ProgramsThatNeverSaidHelloEndByTheirOwnFaultAndRestartWhenKilled) {
  RestartBook book = InTraining();
  book.native = false;
  EXPECT_FALSE(Restarts(book, FaultAt(-1, Blame::kOwn)));
  EXPECT_FALSE(Restarts(book, FaultAt(-1, Blame::kAgain, kExitNotNow)));
  EXPECT_TRUE(Restarts(book, FaultAt(-1, Blame::kOutside, 137)));
}

TEST(RestartOrEnd, NoRestartsWantedMeansNoneAndTheReasonIsPlain) {
  RestartBook book = InTraining();
  book.max_restarts = 0;
  const RestartVerdict verdict = RestartOrEnd(book, FaultAt(7, Blame::kOutside));
  EXPECT_FALSE(verdict.restart);
  EXPECT_EQ(verdict.reason, "worker:1 exited with code 1");
}

TEST(RestartOrEnd, TheBudgetIsUsedUpByFailuresAndTheReasonSaysSo) {
  RestartBook book = InTraining();
  book.max_restarts = 2;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Restarts(book, FaultAt(i, Blame::kOutside)));
    BookRestart(book, FaultAt(i, Blame::kOutside));
  }
  EXPECT_EQ(RestartsLeft(book), 0);
  const RestartVerdict verdict = RestartOrEnd(book, FaultAt(9, Blame::kOutside));
  EXPECT_FALSE(verdict.restart);
  EXPECT_THAT(verdict.reason, HasSubstr("restarted 2 times without a new checkpoint"));
  EXPECT_THAT(verdict.reason, HasSubstr("--max-restarts"));
}

TEST(RestartOrEnd, TheThirdFailureOfOneReplicaRangeAtOneStepEndsTheJob) {
  RestartBook book = InTraining();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Restarts(book, FaultAt(100, Blame::kOwn))) << i;
    BookRestart(book, FaultAt(100, Blame::kOwn));
  }
  EXPECT_TRUE(Restarts(book, FaultAt(101, Blame::kOwn))) << "another step";
  Fault other = FaultAt(100, Blame::kOwn);
  other.replica_begin = 0;
  other.replica_end = 2;
  EXPECT_TRUE(Restarts(book, other)) << "other replicas";
  other = FaultAt(100, Blame::kOwn);
  other.history = 1;
  EXPECT_TRUE(Restarts(book, other)) << "another history";
  EXPECT_TRUE(Restarts(book, FaultAt(100, Blame::kOutside, 137))) << "not its own fault";
  const RestartVerdict verdict = RestartOrEnd(book, FaultAt(100, Blame::kOwn));
  EXPECT_FALSE(verdict.restart);
  EXPECT_EQ(verdict.reason,
            "worker:1 (replicas 2-3) failed 3 times at step 100: exited with code 1");
}

TEST(RestartOrEnd, DeathsFromOutsideAreNeverPoison) {
  RestartBook book = InTraining();
  for (int i = 0; i < 5; ++i) BookRestart(book, FaultAt(100, Blame::kOutside, 137));
  EXPECT_TRUE(Restarts(book, FaultAt(100, Blame::kOutside, 137)));
  EXPECT_TRUE(Restarts(book, FaultAt(100, Blame::kOwn)));
}

TEST(RestartOrEnd, FailingBeforeJoiningIsPoisonOfThatTaskToo) {
  RestartBook book = InTraining();
  Fault fault = FaultAt(-1, Blame::kOwn, 127);
  fault.replica_begin = fault.replica_end = -1;
  for (int i = 0; i < 2; ++i) BookRestart(book, fault);
  EXPECT_EQ(RestartOrEnd(book, fault).reason,
            "worker:1 failed 3 times before it joined the others: exited with code 1");
  fault.task_index = 2;
  EXPECT_TRUE(Restarts(book, fault));
}

TEST(BookCheckpoint, OneThatIsFurtherThanAllBeforeFillsTheBudget) {
  RestartBook book = InTraining();
  BookTraining(book, 0, 50);  // restored
  for (int i = 0; i < 3; ++i) BookRestart(book, FaultAt(60, Blame::kOutside));
  BookCheckpoint(book, 0, 50);
  EXPECT_EQ(RestartsLeft(book), 7) << "no progress";
  BookCheckpoint(book, 0, 60);
  EXPECT_EQ(RestartsLeft(book), 10);
  BookRestart(book, FaultAt(70, Blame::kOutside));
  BookCheckpoint(book, 0, 60);
  EXPECT_EQ(RestartsLeft(book), 9) << "the same one again";
  BookCheckpoint(book, 1, 40);
  EXPECT_EQ(RestartsLeft(book), 10) << "of a later history";
  EXPECT_EQ(book.total, 4);
}

TEST(BookCheckpoint, DoesNotForgetFailuresAtStepsBehindIt) {
  RestartBook book = InTraining();
  for (int i = 0; i < 2; ++i) BookRestart(book, FaultAt(100, Blame::kOwn));
  for (int i = 0; i < 2; ++i) BookRestart(book, FaultAt(120, Blame::kOwn));
  BookCheckpoint(book, 0, 110);
  EXPECT_FALSE(Restarts(book, FaultAt(120, Blame::kOwn)));
  EXPECT_EQ(book.failures.size(), 1u) << "those before it are history";
}

TEST(BackOff, DoublesFromHalfASecondToThirtyAndStartsAgainAfterACheckpoint) {
  RestartBook book = InTraining();
  book.max_restarts = 100;
  double base = 0.5;
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(Seconds(book), 0.75 * base) << i;
    EXPECT_LE(Seconds(book), 1.25 * base) << i;
    BookRestart(book, FaultAt(7, Blame::kOutside));
    base = std::min(30.0, 2 * base);
  }
  BookCheckpoint(book, 0, 100);
  EXPECT_LE(Seconds(book), 0.625);
}

TEST(BackOff, ItsJitterDependsOnTermAndNumberOnly) {
  RestartBook a = InTraining(), b = InTraining();
  EXPECT_EQ(Seconds(a), Seconds(b));
  std::set<double> seen;
  for (int term = 1; term <= 20; ++term) {
    a.term = term;
    seen.insert(Seconds(a));
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_LT(*seen.begin(), 0.45);
  EXPECT_GT(*seen.rbegin(), 0.55);
}

// ---- gangs ----

RestartBook OfGang() {
  RestartBook book;
  book.gang = true;
  return book;
}

Fault Of(const std::string& task, Blame blame, int code = 1) {
  Fault fault = FaultAt(-1, blame, code);
  fault.task = fault.who = task;
  return fault;
}

TEST(GangPolicy, OwnFaultsAreCountedForEachTaskAndForgivenByACheckpoint) {
  RestartBook book = OfGang();
  for (int i = 0; i < 2; ++i) {
    BookRestart(book, Of("worker:0", Blame::kOwn));
    BookRestart(book, Of("worker:1", Blame::kOwn));
  }
  EXPECT_FALSE(Restarts(book, Of("worker:0", Blame::kOwn)));
  EXPECT_TRUE(Restarts(book, Of("worker:0", Blame::kOutside, 137)));
  EXPECT_TRUE(Restarts(book, Of("worker:2", Blame::kOwn)));
  BookCheckpointSeen(book, true);
  EXPECT_FALSE(Restarts(book, Of("worker:0", Blame::kOwn))) << "it may save at each start, and fail";
  BookCheckpointSeen(book, false);
  EXPECT_TRUE(Restarts(book, Of("worker:0", Blame::kOwn)));
  EXPECT_EQ(RestartsLeft(book), 10);
  EXPECT_EQ(book.total, 4) << "what was done is not undone";
}

TEST(GangPolicy, AnEarlyOwnFaultEndsAnEarlyKillDoesNot) {
  Fault early = Of("worker:0", Blame::kOwn);
  early.early = true;
  EXPECT_FALSE(Restarts(OfGang(), early));
  early.blame = Blame::kOutside;
  EXPECT_TRUE(Restarts(OfGang(), early));
  early.blame = Blame::kAgain;
  EXPECT_TRUE(Restarts(OfGang(), early));
}

TEST(GangPolicy, LeavesCostNothingOfTheBudgetButAreWaitedForLongerAndLonger) {
  RestartBook book = OfGang();
  const Duration first = RestartOrEnd(book, Of("worker:0", Blame::kLeave, 143)).back_off;
  for (int i = 0; i < 6; ++i) BookRestart(book, Of("worker:0", Blame::kLeave, 143));
  EXPECT_EQ(RestartsLeft(book), 10);
  EXPECT_EQ(book.total, 6);
  EXPECT_GT(RestartOrEnd(book, Of("worker:0", Blame::kLeave, 143)).back_off, 16 * first);
}

TEST(GangPolicy, LeavesAreFreeThoughTheBudgetIsUsedUp) {
  RestartBook book = OfGang();
  book.max_restarts = 1;
  BookRestart(book, Of("worker:0", Blame::kOutside, 137));
  EXPECT_FALSE(Restarts(book, Of("worker:0", Blame::kOutside, 137)));
  EXPECT_TRUE(Restarts(book, Of("worker:0", Blame::kLeave, 143)));
}

}  // namespace
}  // namespace everstep
