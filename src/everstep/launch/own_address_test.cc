// launch: rules of the own address.
#include "everstep/launch/own_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

const std::vector<NetworkInterface> kInterfaces = {{"lo", "127.0.0.1", true, true},
                                                   {"lo", "::1", true, true},
                                                   {"eth0", "10.0.0.2", true, false},
                                                   {"eth0", "fd00::2", true, false},
                                                   {"ib0", "10.1.0.2", true, false}};

OwnHost At(const std::string& address, std::vector<std::string> numbers) {
  return {"TF_CONFIG", {"worker", 1}, address, std::move(numbers), false};
}

TEST(ListenAddress, IsTheNumberThatThisHostHas) {
  EXPECT_EQ(*ListenAddress(At("10.0.0.2:2222", {"10.0.0.2"}), kInterfaces), "10.0.0.2");
  EXPECT_EQ(*ListenAddress(At("[fd00::2]:2222", {"fd00::2"}), kInterfaces), "fd00::2");
  EXPECT_EQ(*ListenAddress(At("a:2222", {"10.9.9.9", "10.1.0.2"}), kInterfaces), "10.1.0.2");
}

TEST(ListenAddress, LoopbackIsFineWhereItIsWritten) {
  EXPECT_EQ(*ListenAddress(At("localhost:2222", {"127.0.0.1"}), kInterfaces), "127.0.0.1");
  EXPECT_EQ(*ListenAddress(At("127.0.0.5:2222", {"127.0.0.5"}), kInterfaces), "127.0.0.5");
  EXPECT_EQ(*ListenAddress(At("[::1]:2222", {"::1"}), kInterfaces), "::1");
}

TEST(ListenAddress, ANameThatIsTheLoopbackHereIsRefusedWhenOthersHaveToReachIt) {
  OwnHost own = At("a:2222", {"127.0.1.1"});
  const absl::Status status = ListenAddress(own, kInterfaces).status();
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_EQ(status.message(),
            "TF_CONFIG says that worker:1 is at a:2222 (127.0.1.1), which on this host is its "
            "loopback (see /etc/hosts), where other hosts do not reach it; set "
            "EVERSTEP_SOCKET_IFNAME=eth0, or write the host's address");
  own.shared = true;
  EXPECT_EQ(*ListenAddress(own, kInterfaces), "127.0.1.1");
  EXPECT_EQ(*ListenAddress(At("a:2222", {"127.0.1.1", "10.0.0.2"}), kInterfaces), "10.0.0.2");
}

TEST(ListenAddress, AnAddressOfAnotherHostMeansAWrongIndex) {
  const absl::Status status =
      ListenAddress(At("10.0.0.9:2222", {"10.0.0.9"}), kInterfaces).status();
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_EQ(status.message(),
            "TF_CONFIG says that worker:1 is at 10.0.0.9:2222, but this host has 10.0.0.2 (eth0), "
            "fd00::2 (eth0), 10.1.0.2 (ib0): is the index right? EVERSTEP_SOCKET_IFNAME=eth0 if it "
            "is reached by that address all the same");
  EXPECT_THAT(
      std::string(ListenAddress(At("b:2222", {"10.0.0.9"}), kInterfaces).status().message()),
      HasSubstr("worker:1 is at b:2222 (10.0.0.9), but"));
}

TEST(LookUp, NumbersAreThemselves) {
  absl::StatusOr<UniqueFd> never = MakeEventFd();
  ASSERT_TRUE(never.ok());
  const Deadline deadline = After(RealClock(), std::chrono::seconds(5));
  EXPECT_EQ(*LookUp("10.0.0.9", deadline, never->get()), std::vector<std::string>{"10.0.0.9"});
  EXPECT_EQ(*LookUp("::1", deadline, never->get()), std::vector<std::string>{"::1"});
}

TEST(LookUp, ASignalEndsIt) {
  absl::StatusOr<UniqueFd> signal = MakeEventFd();
  ASSERT_TRUE(signal.ok());
  SignalEventFd(signal->get());
  const auto numbers =
      LookUp("no-such-host.invalid", After(RealClock(), std::chrono::hours(1)), signal->get());
  EXPECT_TRUE(absl::IsAborted(numbers.status())) << numbers.status();
}

}  // namespace
}  // namespace everstep
