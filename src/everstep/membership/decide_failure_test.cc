// membership: rules of a failure, from its first sign to its cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Every order in which `signs` can come, 20 ms apart; `check` sees each job once time has passed.
void InEveryOrder(int workers, const std::vector<std::function<void(TestJob&)>>& signs,
                  const std::function<void(TestJob&, const std::string& order)>& check) {
  std::vector<int> order(signs.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    TestJob job(workers);
    job.Train();
    for (int sign : order) {
      signs[sign](job);
      job.now += 20 * kMs;
      job.Feed(Tick{});
    }
    job.Pass(5 * kSecond);
    for (int i = 0; i < workers; ++i) job.Exits(i, ExitedWith(137));
    std::string text;
    for (int sign : order) text += std::to_string(sign);
    check(job, text);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(RootCause, IsTheKilledWorkerInWhateverOrderTheSignsCome) {
  InEveryOrder(
      4,
      {[](TestJob& job) { job.StreamBreaks(2); },
       [](TestJob& job) { job.Exits(2, KilledBy(9), "epoch 3\n"); },
       [](TestJob& job) { job.Complains(0, -1); },  // the engine names nobody
       [](TestJob& job) { job.Complains(1, 2); }, [](TestJob& job) { job.Complains(3, 2); }},
      [](TestJob& job, const std::string& order) {
        ASSERT_TRUE(job.end) << order;
        EXPECT_EQ(job.end->code, 137) << order;
        EXPECT_EQ(job.end->reason,
                  "worker:2 on b was killed by signal 9 (SIGKILL); last lines:\nepoch 3")
            << order;
        EXPECT_EQ(job.ends, 1) << order;
      });
}

TEST(RootCause, IsNotASurvivorThatExitsBecauseOfIt) {
  InEveryOrder(
      3,
      {[](TestJob& job) { job.StreamBreaks(2); }, [](TestJob& job) { job.Exits(2, ExitedWith(3)); },
       [](TestJob& job) { job.Complains(0, -1); },
       [](TestJob& job) { job.Exits(0, ExitedWith(70)); },
       [](TestJob& job) { job.Exits(1, ExitedWith(75)); }},
      [](TestJob& job, const std::string& order) {
        ASSERT_TRUE(job.end) << order;
        EXPECT_EQ(job.end->code, 3) << order << " " << job.end->reason;
        EXPECT_THAT(job.end->reason, HasSubstr("worker:2")) << order;
      });
}

TEST(RootCause, IsTheWorkerThatSaysItFailedWithItsCodeAndMessage) {
  InEveryOrder(
      3,
      {[](TestJob& job) { job.Complains(0, 1); }, [](TestJob& job) { job.Complains(2, 1); },
       [](TestJob& job) {
         job.Leaves(1, LeaveReason::kFailed, 7, 1, 65, "records.bin: block 3 is damaged");
       },
       [](TestJob& job) { job.StreamBreaks(1); },
       [](TestJob& job) { job.Exits(1, ExitedWith(1), "bye"); }},
      [](TestJob& job, const std::string& order) {
        ASSERT_TRUE(job.end) << order;
        EXPECT_EQ(job.end->code, kExitBadData) << order;
        EXPECT_THAT(job.end->reason,
                    HasSubstr("worker:1 on a failed: records.bin: block 3 is damaged"))
            << order;
      });
}

TEST(Failure, ClosesTheViewAtOnceAndStopsTheSurvivorsWithTheCause) {
  TestJob job(3);
  job.Train();
  job.StreamBreaks(2);
  EXPECT_THAT(job.Got<Close>(0), IsEmpty());  // its connection only, perhaps
  job.Exits(2, KilledBy(9));
  EXPECT_EQ(job.Got<Close>(0).at(0).view, job.state.view.id);
  EXPECT_THAT(job.Got<Close>(2), IsEmpty());
  EXPECT_THAT(job.Got<Stop>(0), IsEmpty());
  job.Pass(kSecond);
  for (int i : {0, 1}) {
    ASSERT_THAT(job.Got<Stop>(i), SizeIs(1));
    EXPECT_EQ(job.Got<Stop>(i)[0].code, 137);
    EXPECT_EQ(job.Got<Stop>(i)[0].reason, "worker:2 on b was killed by signal 9 (SIGKILL)");
  }
  EXPECT_THAT(job.Got<Stop>(2), IsEmpty());
  job.Exits(0, ExitedWith(137));
  EXPECT_FALSE(job.end);
  job.Exits(1, ExitedWith(137));
  EXPECT_EQ(job.end->code, 137);
}

TEST(Failure, AComplaintClosesTheViewSoThatNobodyWaits) {
  TestJob job(2);
  job.Train();
  job.Complains(0, 1);
  EXPECT_THAT(job.Got<Close>(1), SizeIs(1));
  job.Says(1, Closed{job.state.view.id, 0, 3, 1});
  EXPECT_EQ(job.state.workers[1].state, WorkerState::kClosed);
}

TEST(Failure, AComplaintOfAnOlderViewIsPassedOver) {
  TestJob job(2);
  job.Train();
  job.Says(0, LinkLost{ViewId{1, 0}, 1, "old"});
  job.Pass(5 * kSecond);
  EXPECT_FALSE(job.state.ending);
}

TEST(Failure, ABrokenLinkBetweenLiveWorkersEndsWith75AndBothComplaints) {
  TestJob job(3);
  job.Train();
  job.Complains(0, 2);
  job.Complains(2, 0);
  job.Pass(kSecond);
  EXPECT_FALSE(job.state.ending);
  job.Pass(2 * kSecond);
  for (int i = 0; i < 3; ++i) job.Exits(i, ExitedWith(75));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:0 on a says: lost rank 2"));
  EXPECT_THAT(job.end->reason, HasSubstr("worker:2 on b says: lost rank 0"));
}

TEST(Failure, ALostStreamWaitsForTheAgentsWordAndThenForNobody) {
  TestJob job(2);
  job.Train();
  job.StreamBreaks(1);
  job.Pass(1900 * kMs);
  EXPECT_FALSE(job.state.ending);
  job.Pass(200 * kMs);
  ASSERT_TRUE(job.state.ending);
  const auto kills = job.AgentGot<Kill>("agent-a");  // it may be stopped or cut off: not left alone
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].grace, Duration(0));
  job.Exits(1, KilledBy(9));
  job.Exits(0, ExitedWith(75));
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason,
              HasSubstr("worker:1 was silent for 2.0 s (its process is still there)"));
}

TEST(Failure, ALostStreamWhoseExitComesLateIsToldByTheExit) {
  TestJob job(2);
  job.Train();
  job.StreamBreaks(1);
  job.Pass(1500 * kMs);
  job.Exits(1, KilledBy(6), "terminate called");
  job.Pass(kSecond);
  job.Exits(0, ExitedWith(1));
  EXPECT_EQ(job.end->code, 134);
  EXPECT_THAT(job.end->reason, HasSubstr("SIGABRT"));
}

TEST(Failure, AMemberThatExitsWith0BeforeTheEndIsAnErrorThatNamesIt) {
  TestJob job(2);
  job.Train();
  job.StreamBreaks(1);
  job.Exits(1, 0);
  job.Pass(kSecond);
  job.Exits(0, ExitedWith(70));
  EXPECT_EQ(job.end->code, kExitOurFault);
  EXPECT_EQ(job.end->reason, "worker:1 exited with code 0 before the job was done");
}

TEST(Failure, AWorkerThatFailedAndThenExitsIsToldByItsOwnWords) {
  TestJob job(2);
  job.Train();
  job.Leaves(1, LeaveReason::kFailed, 3, 1, 65, "no such file");
  job.Exits(1, ExitedWith(1));
  job.Pass(kSecond);
  job.Exits(0, 0);
  EXPECT_EQ(job.end->code, 65);
  EXPECT_EQ(job.end->reason, "worker:1 failed: no such file");
}

TEST(Failure, AFailureWithoutACodeIsOurs) {
  TestJob job(1);
  job.Train();
  job.Leaves(0, LeaveReason::kFailed, 3, 1, 0, "odd");
  job.Pass(kSecond);
  EXPECT_EQ(job.Got<Stop>(0).at(0).code, kExitOurFault);
}

TEST(Failure, OfAllTheMembersAtTheirEndDoesNotCountAsFinished) {
  TestJob job(2);
  job.Train();
  job.Leaves(0, LeaveReason::kFinished);
  job.Exits(1, KilledBy(9));
  job.Pass(kSecond);
  job.Exits(0, ExitedWith(137));
  EXPECT_EQ(job.end->code, 137);
}

TEST(Failure, ALostHostIsToldAsSuchAndItsWorkersAreNotWaitedFor) {
  TestJob job(4);
  job.Train();
  job.StreamBreaks(2);
  job.StreamBreaks(3);
  job.Pass(100 * kMs);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Complains(0, -1);
  job.Pass(3 * kSecond);
  ASSERT_TRUE(job.state.ending);
  EXPECT_THAT(job.Got<Stop>(0), SizeIs(1));
  job.Exits(0, ExitedWith(75));
  job.Exits(1, ExitedWith(75));
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:2 on b was lost with its host b"));
}

TEST(Failure, AnAgentThatComesBackInTimeCostsNothing) {
  TestJob job(2);
  job.Train();
  job.Feed(AgentStreamLost{"agent-a"});
  job.Pass(1500 * kMs);
  job.AgentRegisters("agent-a", "a", 2);
  job.Pass(5 * kSecond);
  EXPECT_FALSE(job.state.ending);
}

TEST(Failure, AWorkerToldToLeaveByItsAgentsDeathIsALossOfTheAgentWhicheverIsHeardOfFirst) {
  for (const bool agent_first : {true, false}) {
    TestJob job(4);
    job.Train();
    if (agent_first) job.Feed(AgentStreamLost{"agent-b"});
    job.Leaves(2, LeaveReason::kToldToLeave);
    job.Pass(100 * kMs);
    if (!agent_first) job.Feed(AgentStreamLost{"agent-b"});
    EXPECT_FALSE(job.state.ending);
    job.Pass(3 * kSecond);
    ASSERT_TRUE(job.state.ending);
    EXPECT_EQ(job.state.ending->code, kExitNotNow) << agent_first;
    EXPECT_THAT(job.state.ending->reason, HasSubstr("agent-b"));
  }
}

TEST(Failure, AfterTheCauseIsNamedNothingChangesIt) {
  TestJob job(3);
  job.Train();
  job.Exits(2, ExitedWith(3));
  job.Pass(kSecond);
  job.Leaves(0, LeaveReason::kFailed, 1, 1, 65, "later");
  job.Exits(0, KilledBy(11));
  job.Exits(1, ExitedWith(4));
  EXPECT_EQ(job.end->code, 3);
}

TEST(Failure, AWorkerOfALostHostThatComesBackIsToldToStop) {
  TestJob job(4);
  job.Train();
  job.StreamBreaks(2);
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  job.SaysHello(2);
  EXPECT_THAT(job.Got<Stop>(2), SizeIs(1));
  job.AgentRegisters("agent-b", "b", 2);
  EXPECT_THAT(job.AgentGot<Kill>("agent-b"), SizeIs(2));
}

TEST(Failure, BytesOfTheDeadWorkersOutputAreKeptAsTheyAre) {
  TestJob job(1);
  job.Gather();
  job.Exits(0, ExitedWith(1), "\xff\xfe line\n\n");
  job.Pass(kSecond);
  EXPECT_THAT(job.end->reason, HasSubstr("\xff\xfe line"));
  EXPECT_THAT(job.end->reason, Not(HasSubstr("\n\n")));
}

}  // namespace
}  // namespace everstep
