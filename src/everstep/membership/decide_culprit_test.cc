// membership: the rules for who is the culprit of a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/membership/decide_test_gang.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(HangTest, TheCulpritIsTheOneBehindInSteps) {
  Run(job);
  job.Sees(0, Beats(42, 310 * kSecond));
  job.Sees(1, Beats(41, 305 * kSecond));
  job.Sees(2, Beats(42, 304 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "wait.py"});
  EXPECT_EQ(Hung().task, "worker:1");
  EXPECT_THAT(Hung().cause, HasSubstr("it is at step 41 and others at 42"));
}

TEST_F(HangTest, StepsSayMoreThanStacks) {
  Run(job);
  job.Sees(0, Beats(42, 301 * kSecond));
  job.Sees(1, Beats(41, 301 * kSecond));
  job.Sees(2, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "save.py"});
  EXPECT_EQ(Hung().task, "worker:1");
}

TEST_F(HangTest, TwoThatAreBehindTellNothing) {
  Run(job);
  job.Sees(0, Beats(41, 301 * kSecond));
  job.Sees(1, Beats(41, 301 * kSecond));
  job.Sees(2, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "wait.py"});
  EXPECT_THAT(Hung().cause, Not(HasSubstr("step")));
}

TEST_F(HangTest, OfTwoStacksNeitherIsTheOddOne) {
  TestJob two = Gang(2);
  Run(two);
  for (int i = 0; i < 2; ++i) two.Sees(i, Beats(42, 301 * kSecond));
  two.Pass(100 * kMs);
  two.Answers(0, Frames("wait.py"));
  two.Answers(1, Frames("input.py"));
  EXPECT_THAT(two.Recorded(record_kind::kWorkerHung).at(0).cause, Not(HasSubstr("stack")));
}

TEST_F(HangTest, AddressesDoNotMakeAStackUnlikeTheOthers) {
  Run(job);
  for (int i = 0; i < 3; ++i) job.Sees(i, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  for (int i = 0; i < 3; ++i) {
    job.Answers(i, absl::StrCat("thread 7 (train)\n  #0 0x7f", i / 2, "ab in poll\n"));
  }
  EXPECT_THAT(Hung().cause, Not(HasSubstr("stack")));
}

TEST_F(HangTest, OneThatBeatsIsNotTheCulpritThoughItIsBehind) {
  Run(job);
  job.Sees(0, Beats(42, 301 * kSecond));
  job.Sees(1, Beats(30, 0 * kSecond));
  job.Sees(2, Beats(42, 1 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "step.py", "step.py"});
  EXPECT_EQ(Hung().task, "worker:0");
  EXPECT_EQ(Hung().cause, "worker:0 on a sent no heartbeat for 301.0 s, and its limit is 300.0 s");
}

TEST_F(HangTest, ACulpritThatIsNotYetPastItsOwnLimitIsToldWithTheOneThatIs) {
  Run(job);
  job.Sees(0, Beats(42, 301 * kSecond));
  job.Sees(1, Beats(41, 400 * kSecond, 600 * kSecond));
  job.Sees(2, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "wait.py"});
  EXPECT_EQ(Hung().task, "worker:1");
  EXPECT_THAT(Hung().cause, HasSubstr("worker:1 on a sent no heartbeat for 400.0 s, and worker:0 "
                                      "on a sent no heartbeat for 301.0 s, and its limit is "
                                      "300.0 s; it is at step 41 and others at 42"));
}

TEST_F(HangTest, TheStepIsSaidOnce) {
  Run(job);
  job.Sees(0, Beats(24, 301 * kSecond));
  job.Sees(1, Beats(14, 301 * kSecond));
  job.Sees(2, Beats(24, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "wait.py"});
  EXPECT_THAT(job.Told(), HasSubstr("it is at step 14 and others at 24; all restart"));
}

TEST_F(HangTest, TheCulpritIsTheOneThatStandsElsewhere) {
  Run(job);
  for (int i = 0; i < 3; ++i) job.Sees(i, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "input.py"});
  EXPECT_EQ(Hung().task, "worker:2");
  EXPECT_THAT(Hung().cause, HasSubstr("its stack is unlike those of the others"));
}

TEST_F(HangTest, TheCulpritIsTheOneSilentForLongest) {
  Run(job);
  job.Sees(0, Beats(42, 301 * kSecond));
  job.Sees(1, Beats(42, 304 * kSecond));
  job.Sees(2, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "wait.py"});
  EXPECT_EQ(Hung().task, "worker:1");
  EXPECT_THAT(Hung().cause, HasSubstr("it is silent for longest"));
}

TEST_F(HangTest, AStoppedOneIsTheCulpritWhoeverElseLooksLikeIt) {
  Run(job);
  job.Sees(0, Beats(41, 1 * kSecond));
  Vitals stopped = Beats(42, 6 * kSecond);
  stopped.stopped = 6 * kSecond;
  job.Sees(1, stopped);
  job.Sees(2, Beats(42, 1 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"other.py", "wait.py", "wait.py"});
  EXPECT_EQ(Hung().task, "worker:1");
}

TEST_F(HangTest, ReasonsThatDoNotHoldAreNotGiven) {
  Run(job);
  for (int i = 0; i < 3; ++i) job.Sees(i, Beats(42, 301 * kSecond));
  job.Pass(100 * kMs);
  AllAnswer({"wait.py", "wait.py", "wait.py"});
  EXPECT_THAT(Hung().cause, Not(HasSubstr("longest")));
  EXPECT_THAT(Hung().cause, Not(HasSubstr("step")));
  EXPECT_THAT(Hung().cause, Not(HasSubstr("stack")));
}

}  // namespace
}  // namespace everstep
