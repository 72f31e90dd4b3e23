// launch: rules of waiting for a coordinator.
#include "everstep/launch/await_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <vector>

#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class AwaitCoordinatorTest : public ::testing::Test {
 protected:
  AwaitCoordinatorTest() : signals_({SIGTERM, SIGCHLD}) {
    listener_ = *ListenTcp({"127.0.0.1", 0});
    awaited_.address = {"127.0.0.1", *PortOf(listener_.get())};
    awaited_.who = "the process of worker:0";
    awaited_.at_most = milliseconds(600);
    awaited_.say = [this](const std::string& line) {
      said_.push_back(line);
      waits_ = true;
    };
    awaited_.say_every = milliseconds(100);
  }

  SignalQueue signals_;
  UniqueFd listener_;
  AwaitedCoordinator awaited_;
  std::vector<std::string> said_;
  std::atomic<bool> waits_ = false;
};

TEST_F(AwaitCoordinatorTest, GivesTheAddressFromWhichItIsReached) {
  const auto local = AwaitCoordinator(awaited_, &signals_);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(*local, "127.0.0.1");
}

TEST_F(AwaitCoordinatorTest, SaysWhatItWaitsForAndEndsAtTheDeadline) {
  listener_.Reset();
  const auto local = AwaitCoordinator(awaited_, &signals_);
  EXPECT_EQ(ExitCodeFor(local.status()), kExitNotNow);
  const std::string where = "the coordinator at " + awaited_.address.ToString() +
                            ", which the process of worker:0 starts";
  EXPECT_THAT(std::string(local.status().message()),
              HasSubstr(where + ", was not there within 0.6 s (EVERSTEP_JOIN_DEADLINE); last: "));
  ASSERT_FALSE(said_.empty());
  EXPECT_THAT(said_[0], HasSubstr("waiting for " + where + "; last: "));
  EXPECT_THAT(said_[0], HasSubstr("refused"));
}

TEST_F(AwaitCoordinatorTest, AWishToLeaveEndsItAtOnceAndTheEndOfAChildDoesNot) {
  listener_.Reset();
  awaited_.at_most = std::chrono::hours(1);
  raise(SIGCHLD);
  std::thread later([this] {
    while (!waits_) SleepFor(milliseconds(5));
    kill(OwnPid(), SIGTERM);
  });
  const auto local = AwaitCoordinator(awaited_, &signals_);
  later.join();
  EXPECT_EQ(ExitCodeFor(local.status()), kExitToldToLeave) << local.status();
}

}  // namespace
}  // namespace everstep
