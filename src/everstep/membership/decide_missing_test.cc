// membership: rules of Decide about what is told of tasks and slots that are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/claims_test_job.h"
#include "everstep/membership/job_status.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// ---- who is waited for ----

TEST_F(Claims, TheMissingAreToldByNameEveryFewSeconds) {
  Come(0);
  Come(3);
  job.ForgetOrders();
  job.Feed(AgentStreamLost{"d"});
  job.Pass(11 * kSecond);
  const auto notices = job.AgentGot<Notice>("a");
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices.back().text,
            "waiting for 3 of 4 tasks: worker:1 (expected at b.net:29711; not seen yet), worker:2 "
            "(expected at c.net:29711; not seen yet), worker:3 (last seen on host d, d.net:29711, "
            "10 s ago)");
  EXPECT_EQ(StatusOf(job.now, job.state).line,
            "waiting for 3 of 4 tasks: worker:1, worker:2, worker:3");
}

TEST_F(Claims, OfAJobThatGoesOnTheFormerHostsAreKnown) {
  job.options.last_seen = {{"worker:1", "on host b, as of 2026-01-02T03:04:05Z"}};
  Come(0);
  EXPECT_THAT(LastNotice("a"), HasSubstr("worker:1 (expected at b.net:29711; not seen in this run; "
                                         "before on host b, as of 2026-01-02T03:04:05Z)"));
  EXPECT_THAT(LastNotice("a"), HasSubstr("worker:2 (expected at c.net:29711; not seen yet)"));
}

TEST_F(Claims, PastTheDeadlineTheListIsTheReason) {
  job.options.agents_deadline = 30 * kSecond;
  Come(0);
  Come(1);
  job.Claims("z", "z", "worker:1", kFour);
  job.Pass(31 * kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason,
              HasSubstr("2 of 4 tasks are missing after 30.0 s: worker:2 (expected at "
                        "c.net:29711; not seen yet), worker:3 (expected at d.net:29711; not seen "
                        "yet); worker:1 was started twice, on host b and on host z; the second was "
                        "refused"));
  EXPECT_THAT(job.end->reason, HasSubstr("--join-deadline"));
  EXPECT_EQ(job.AgentGot<JobEnded>("a").at(0).code, kExitNotNow);
  EXPECT_EQ(job.AgentGot<JobEnded>("z").at(0).code, kExitConfiguration) << "told before";
}

TEST_F(Claims, ThatATaskWasStartedTwiceIsForgottenOnceAllAreThere) {
  Come(0);
  for (int i = 0; i < 2; ++i) job.Claims(absl::StrCat("z", i), "a", "worker:0", kFour);
  job.Pass(5 * kSecond);
  EXPECT_EQ(job.state.double_claims.at({"worker", 0}).starts, 3);
  for (int i : {1, 2, 3}) Come(i);
  job.Join();
  LoseTheLast();
  EXPECT_THAT(LastNotice("a"), HasSubstr("waiting for 1 of 4 tasks"));
  EXPECT_THAT(LastNotice("a"), Not(HasSubstr("was started")));
}

TEST(Slots, OfWhomIsLostTheLastPlaceIsTold) {
  TestJob job(4);
  job.options.max_restarts = 10;
  job.Train();
  job.Feed(AgentStreamLost{"agent-b"});
  job.Pass(3 * kSecond);
  for (int i : {0, 1}) job.Exits(i, ExitedWith(75));
  job.Pass(8 * kSecond);
  const std::string text = job.AgentGot<Notice>("agent-a").back().text;
  EXPECT_THAT(text, HasSubstr("waiting for 2 more slots; here are agent-a on a with 2; worker:2 "
                              "was last seen on host b, b.net:5000, "));
  EXPECT_THAT(text, HasSubstr("worker:3 was last seen on host b, b.net:5001, "));
  job.AgentRegisters("agent-b2", "b", 1);
  job.ForgetOrders();
  job.Pass(6 * kSecond);
  EXPECT_THAT(job.AgentGot<Notice>("agent-a").back().text, Not(HasSubstr("last seen")));
}

TEST(Slots, BeforeAnythingIsLostTheFormerRunIsTold) {
  TestJob job(3);
  job.options.last_seen = {{"worker:2", "on host c, as of then"}};
  job.AgentRegisters("one", "a", 2);
  job.Pass(6 * kSecond);
  EXPECT_EQ(job.AgentGot<Notice>("one").back().text,
            "waiting for 1 more slot; here are one on a with 2; in the former run: worker:2 on "
            "host c, as of then");
}

}  // namespace
}  // namespace everstep
