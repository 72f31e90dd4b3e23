// membership: the rules for hangs of gangs.
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

// ---- strong evidence ----

TEST_F(HangTest, AProcessStoppedForFiveSecondsIsOneAndAllSayWhatTheyDoBeforeTheyAreEnded) {
  Run(job);
  job.ForgetOrders();
  Watch(5 * kSecond,
        [](int i, Duration gone) { return i == 1 ? Stopped(gone) : TestJob::GoingOn(); });
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  job.Sees(1, Stopped(5 * kSecond));
  job.Pass(100 * kMs);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), ElementsAre("worker:0", "worker:1", "worker:2"));
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
  EXPECT_THAT(job.Told(),
              HasSubstr("worker:1 on a has been stopped by a signal for 5.0 s; the stacks "
                        "of 3 processes are taken before they are ended"));
  EXPECT_EQ(job.reason, "finding out what hangs");
  AllAnswer({"a.py", "a.py"});
  EXPECT_THAT(job.TasksOf<Kill>(), IsEmpty());
  job.Answers(2, Frames("a.py"));
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("worker:0", "worker:1", "worker:2"));
  EXPECT_EQ(job.AgentGot<Kill>("agent-a").at(1).grace, Duration(0)) << "it would not hear SIGTERM";
  EXPECT_EQ(job.AgentGot<Kill>("agent-a").at(0).grace, job.options.grace);
  EXPECT_EQ(Hung().task, "worker:1");
  EXPECT_EQ(Hung().evidence, "strong");
  EXPECT_EQ(Hung().action, "restart");
  EXPECT_EQ(Hung().restarts_left, 9);
  EXPECT_EQ(Hung().stacks, "/stacks-worker:1");
  EXPECT_THAT(Hung().tail, ElementsAre("  File \"a.py\", line 3 in step",
                                       "  File \"train.py\", line 70 in <module>"));
}

TEST_F(HangTest, AnswersThatDoNotComeAreNotWaitedForForEver) {
  Run(job);
  job.Sees(0, Stopped(6 * kSecond));
  job.Pass(4 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  EXPECT_EQ(Hung().task, "worker:0");
  EXPECT_EQ(Hung().stacks, "");
}

TEST_F(HangTest, WhoDiesWhileStacksAreTakenIsAConsequence) {
  Run(job);
  job.Sees(2, Stopped(6 * kSecond));
  job.Pass(100 * kMs);
  job.Exits(0, KilledBy(6));
  job.Exits(1, KilledBy(9));
  job.Answers(2, Frames("a.py"));
  job.Exits(2, KilledBy(6), "its last line");
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting) << "the dead are not waited for";
  EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), IsEmpty());
  EXPECT_EQ(Hung().task, "worker:2");
  EXPECT_THAT(Hung().tail, ElementsAre("its last line"));
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_THAT(job.Told(), HasSubstr("worker:0 and worker:1 ended because worker:2 did"));
}

TEST_F(HangTest, WhenAllAreStoppedSomebodyDoesThatOnPurpose) {
  Run(job);
  Watch(60 * kSecond, [](int, Duration gone) {
    Vitals vitals = Stopped(gone + kSecond);
    vitals.idle = gone + 50 * kSecond;
    return vitals;
  });
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  const std::string told = job.Told();
  EXPECT_THAT(told, HasSubstr("all processes of the job are stopped by a signal"));
  EXPECT_EQ(told.find("are stopped by"), told.rfind("are stopped by")) << "once";
  // Let go on again they have the time that they had before.
  Watch(50 * kSecond, [](int, Duration gone) { return Silent(gone + 120 * kSecond); });
  EXPECT_THAT(job.Recorded(record_kind::kWorkerHung), IsEmpty());
  Watch(15 * kSecond, [](int, Duration gone) { return Silent(gone + 170 * kSecond); });
  EXPECT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 1u);
}

// From first to last that takes longer than one of them may be stopped.
TEST_F(HangTest, NorIsOneWhoLetsThemGoOnOneAfterAnother) {
  Run(job);
  Watch(9 * kSecond, [](int, Duration gone) { return Stopped(gone + kSecond); });
  Watch(12 * kSecond, [](int i, Duration gone) {
    return gone >= 4 * i * kSecond ? TestJob::GoingOn() : Stopped(gone + 10 * kSecond);
  });
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  // That was all; the next one who is stopped is nobody's purpose.
  Watch(7 * kSecond,
        [](int i, Duration gone) { return i == 1 ? Stopped(gone + kSecond) : TestJob::GoingOn(); });
  EXPECT_EQ(job.TasksOf<TakeStacks>().size(), 3u);
}

TEST_F(HangTest, NorOneWhoStopsThemOneAfterAnother) {
  Run(job);
  Watch(30 * kSecond, [](int i, Duration gone) {
    return gone < 4 * i * kSecond ? TestJob::GoingOn() : Stopped(gone - 4 * i * kSecond + kSecond);
  });
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  EXPECT_THAT(job.Told(), HasSubstr("all processes of the job are stopped by a signal"));
}

TEST_F(HangTest, ButOneWhoIsLeftStoppedHangs) {
  Run(job);
  Watch(9 * kSecond, [](int, Duration gone) { return Stopped(gone + kSecond); });
  auto left = [](int i, Duration gone) {
    return i == 2 ? Stopped(gone + 10 * kSecond) : TestJob::GoingOn();
  };
  Watch(5 * kSecond, left);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  Watch(2 * kSecond, left);
  EXPECT_THAT(job.Told(), HasSubstr("worker:2 on b has been stopped by a signal for 10.0 s"));
}

// Its own clock begins again with each breath; the other's does not.
TEST_F(HangTest, OneWhoIsStoppedAgainAndAgainDoesNotHideAnother) {
  Run(job);
  Watch(12 * kSecond, [](int i, Duration gone) {
    if (i == 0 && (gone / kSecond) % 2 == 1) return Stopped(500 * kMs);
    return i == 1 ? Stopped(gone + kSecond) : TestJob::GoingOn();
  });
  EXPECT_EQ(job.TasksOf<TakeStacks>().size(), 3u);
}

TEST_F(HangTest, TheLastOneThatIsStoppedWhenOthersAreDoneHangs) {
  TestJob two = Gang(2);
  Run(two);
  two.Exits(0, 0);
  for (int i = 1; i <= 7; ++i) {
    two.Sees(1, Stopped(i * kSecond));
    two.Pass(kSecond);
  }
  EXPECT_THAT(two.TasksOf<TakeStacks>(), ElementsAre("worker:1"));
}

TEST_F(HangTest, APeerThatGaveUpOnAStoppedOneIsNotTheCause) {
  Run(job);
  job.Sees(1, Stopped(3 * kSecond));
  job.Exits(0, ExitedWith(1), "UNAVAILABLE");
  job.Pass(kSecond);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), ElementsAre("worker:1", "worker:2"));
  job.Answers(1, Frames("a.py"));
  job.Answers(2, Frames("a.py"));
  EXPECT_EQ(Hung().task, "worker:1");
  EXPECT_THAT(job.Recorded(record_kind::kWorkerFailed), IsEmpty());
}

TEST_F(HangTest, NorIsItThoughTheStoppedOneIsTheLastThatLives) {
  TestJob two = Gang(2);
  Run(two);
  two.Sees(1, Stopped(3 * kSecond));
  two.Exits(0, ExitedWith(1), "UNAVAILABLE");
  two.Pass(6 * kSecond);
  EXPECT_EQ(two.Recorded(record_kind::kWorkerHung).at(0).task, "worker:1");
  EXPECT_THAT(two.Recorded(record_kind::kWorkerFailed), IsEmpty());
}

TEST_F(HangTest, ButOneThatWasKilledIs) {
  Run(job);
  job.Sees(1, Stopped(3 * kSecond));
  job.Exits(0, KilledBy(9));
  job.Pass(kSecond);
  EXPECT_EQ(job.Recorded(record_kind::kWorkerFailed).at(0).task, "worker:0");
  EXPECT_THAT(job.Recorded(record_kind::kWorkerHung), IsEmpty());
}

TEST_F(HangTest, AHeartbeatPastItsLimitIsOne) {
  Run(job);
  job.Sees(0, Beats(42, 299 * kSecond));
  job.Pass(kSecond);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  job.Sees(0, Beats(42, 301 * kSecond));
  job.Pass(kSecond);
  EXPECT_EQ(job.TasksOf<TakeStacks>().size(), 3u);
  EXPECT_THAT(job.Told(),
              HasSubstr("worker:0 on a sent no heartbeat for 301.0 s, and its limit is 300.0 s"));
}

TEST_F(HangTest, AHungOneThatIsNotStoppedIsAskedToLeaveBeforeItIsKilled) {
  Run(job);
  job.Sees(0, Beats(42, 301 * kSecond));
  job.Pass(6 * kSecond);
  EXPECT_EQ(job.AgentGot<Kill>("agent-a").at(0).grace, job.options.restart_grace);
}

// ---- evidence that counts for nothing ----

TEST_F(HangTest, VitalsOlderThanFiveSecondsCountForNothing) {
  Run(job);
  Watch(4 * kSecond, [](int, Duration) { return TestJob::GoingOn(); });
  job.Sees(0, Stopped(4900 * kMs));
  job.Pass(kSecond);
  job.options.stopped_after = job.state.options.stopped_after = 4 * kSecond;
  job.state.workers[0].vitals_at = job.now - 5100 * kMs;
  job.Pass(kSecond);
  EXPECT_FALSE(job.state.gang.hang);
}

TEST_F(HangTest, VitalsHeardAcrossAGapOfTheCoordinatorsOwnCountForNothing) {
  Run(job);
  job.Sees(0, Stopped(4900 * kMs));
  job.state.options.stopped_after = 4 * kSecond;
  job.now += 3 * kSecond;
  job.Pass(kSecond);
  EXPECT_FALSE(job.state.gang.hang);
  job.Sees(0, Stopped(6 * kSecond));
  job.Pass(kSecond);
  EXPECT_TRUE(job.state.gang.hang) << "what is heard after it does";
}

TEST_F(HangTest, VitalsOfAFormerLifeCountForNothing) {
  Run(job);
  Vitals former = Stopped(6 * kSecond);
  former.incarnation = job.state.workers[0].incarnation;
  Fails(job, 1, KilledBy(9));
  job.Feed(AgentSaid{"agent-a", former});
  job.Pass(kSecond);
  EXPECT_FALSE(job.state.gang.hang);
}

TEST_F(HangTest, ANativeProgramIsNotJudgedSo) {
  TestJob native(2);
  native.Train();
  native.Sees(0, Stopped(60 * kSecond));
  native.Sees(1, Silent(600 * kSecond));
  native.Pass(kSecond);
  EXPECT_THAT(native.TasksOf<TakeStacks>(), IsEmpty());
  EXPECT_EQ(native.state.phase, JobPhase::kTraining);
}

// ---- weak evidence ----

TEST_F(HangTest, SilenceOfAllPastTheirLimitsIsToldOnceASpellAndNotActedOn) {
  Run(job);
  Watch(100 * kSecond,
        [](int i, Duration gone) { return Silent(gone + (i == 2 ? 5 : 0) * kSecond); });
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  ASSERT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 1u);
  EXPECT_EQ(Hung().evidence, "weak");
  EXPECT_EQ(Hung().task, "worker:2");
  EXPECT_EQ(Hung().action, "");
  EXPECT_THAT(Hung().cause, HasSubstr("shows no progress for 6"));
  EXPECT_THAT(job.Told(), HasSubstr("it is silent for longest"));
  EXPECT_THAT(job.Told(), HasSubstr("--hang-action kill"));
  EXPECT_THAT(StatusOf(job.now, job.state).line, HasSubstr("no progress seen for 10"));
  job.Pass(10 * kSecond);
  EXPECT_THAT(job.Told(), Not(HasSubstr("progress again"))) << "nothing is known for a while";
  Watch(3 * kSecond, [](int, Duration) { return TestJob::GoingOn(); });
  EXPECT_THAT(job.Told(), HasSubstr("there is progress again, after 11"));
  EXPECT_THAT(StatusOf(job.now, job.state).line, Not(HasSubstr("no progress")));
  Watch(70 * kSecond, [](int, Duration gone) { return Silent(gone); });
  EXPECT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 2u) << "another spell";
}

TEST_F(HangTest, OneThatIsSilentWhileAnotherIsBusyIsNormal) {
  Run(job);
  Watch(300 * kSecond,
        [](int i, Duration gone) { return i == 0 ? TestJob::GoingOn() : Silent(gone); });
  EXPECT_THAT(job.Recorded(record_kind::kWorkerHung), IsEmpty());
}

TEST_F(HangTest, OneThatNothingIsKnownOfMayBeBusy) {
  Run(job);
  Watch(300 * kSecond,
        [](int, Duration gone) { return Silent(gone < 30 * kSecond ? gone : 30 * kSecond); });
  for (int n = 0; n < 100; ++n) {
    job.Sees(0, Silent(400 * kSecond));
    job.Sees(1, Silent(400 * kSecond));
    job.Pass(kSecond);  // and nothing is seen of worker:2
  }
  EXPECT_THAT(job.Recorded(record_kind::kWorkerHung), IsEmpty());
}

TEST_F(HangTest, AProgramThatSendsHeartbeatsIsJudgedByThemAlone) {
  Run(job);
  Watch(300 * kSecond, [](int, Duration gone) {
    Vitals vitals = Beats(7, gone, 900 * kSecond);
    vitals.idle = gone;
    return vitals;
  });
  EXPECT_THAT(job.Recorded(record_kind::kWorkerHung), IsEmpty());
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
}

TEST_F(HangTest, WithHangActionKillSilenceIsActedOn) {
  job.options.hang_action = HangAction::kKill;
  Run(job);
  Watch(62 * kSecond, [](int, Duration gone) { return Silent(gone); });
  EXPECT_EQ(job.TasksOf<TakeStacks>().size(), 3u);
  job.Pass(6 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
  ASSERT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 1u);
  EXPECT_EQ(Hung().evidence, "weak");
  EXPECT_EQ(Hung().action, "restart");
}

TEST_F(HangTest, WhoHasFinishedIsNotSilent) {
  Run(job);
  job.Exits(0, ExitedWith(0));
  Watch(62 * kSecond, [](int, Duration gone) { return Silent(gone); });
  EXPECT_EQ(job.Recorded(record_kind::kWorkerHung).size(), 1u);
}

TEST_F(HangTest, AnEvaluatorMayWaitAsLongAsItLikes) {
  job.options.evaluators = 1;
  Run(job);
  Watch(300 * kSecond,
        [](int i, Duration gone) { return i == 3 ? Silent(gone) : TestJob::GoingOn(); });
  EXPECT_THAT(job.Recorded(record_kind::kWorkerHung), IsEmpty());
}

TEST_F(HangTest, AStoppedEvaluatorIsRestartedAlone) {
  job.options.evaluators = 1;
  Run(job);
  job.ForgetOrders();
  job.Sees(3, Stopped(6 * kSecond));
  job.Pass(kSecond);
  EXPECT_THAT(job.TasksOf<Kill>(), ElementsAre("evaluator:0"));
  EXPECT_THAT(job.TasksOf<TakeStacks>(), IsEmpty());
  job.Exits(3, KilledBy(9));
  job.Pass(kSecond);
  EXPECT_THAT(job.Spawned(), ElementsAre("evaluator:0"));
  EXPECT_EQ(Hung().task, "evaluator:0");
}

TEST_F(HangTest, WhatIsSeenWhileStacksAreTakenIsTheWorkOfThat) {
  Run(job);
  job.Sees(1, Stopped(6 * kSecond));
  job.Pass(100 * kMs);
  job.Sees(1, TestJob::GoingOn());  // it was made to answer
  AllAnswer({"a.py", "a.py", "a.py"});
  EXPECT_EQ(Hung().task, "worker:1");
  EXPECT_THAT(Hung().cause, HasSubstr("stopped by a signal"));
}

TEST_F(HangTest, AnswersAreWaitedForThoughTheCoordinatorWasNotRunning) {
  Run(job);
  job.Sees(1, Stopped(6 * kSecond));
  job.Pass(100 * kMs);
  job.now += 10 * kSecond;
  job.Pass(kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kRunning);
  AllAnswer({"a.py", "a.py", "a.py"});
  EXPECT_EQ(job.state.phase, JobPhase::kRestarting);
}

TEST_F(HangTest, WithoutRestartsItEndsTheJobWith75) {
  job.options.max_restarts = 0;
  Run(job);
  job.Sees(1, Stopped(6 * kSecond));
  job.Pass(6 * kSecond);
  job.AllExit(KilledBy(9));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 on a has been stopped by a signal"));
}

TEST_F(HangTest, ARequestToStopMeanwhileEndsTheJob) {
  Run(job);
  job.Sees(1, Stopped(6 * kSecond));
  job.Pass(100 * kMs);
  job.Feed(StopAsked{"SIGINT"});
  job.AllExit(KilledBy(15));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitToldToLeave);
}

}  // namespace
}  // namespace everstep
