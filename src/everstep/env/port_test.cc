// env: tests of ports.
#include "everstep/env/port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

#include "everstep/env/clock.h"

namespace everstep {
namespace {

using testing::HasSubstr;

// A listener on 127.0.0.1; its port.
UniqueFd Listen(int* port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd.get(), 1), 0);
  socklen_t size = sizeof address;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  return fd;
}

TEST(ReservePorts, TwoHoldersNeverShare) {
  absl::StatusOr<PortReservation> a = ReservePorts(29710, 29799, 8);
  absl::StatusOr<PortReservation> b = ReservePorts(29710, 29799, 8);
  ASSERT_TRUE(a.ok() && b.ok());
  std::set<int> all(a->ports().begin(), a->ports().end());
  all.insert(b->ports().begin(), b->ports().end());
  EXPECT_EQ(all.size(), 16u);
}

TEST(ReservePorts, SkipsAListenerAndSaysWhenThereAreTooFew) {
  int port = 0;
  const UniqueFd listener = Listen(&port);
  const absl::Status status = ReservePorts(port, port, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--port-range"));
}

TEST(ReservePorts, AreFreeAgainAfterwards) {
  int port = 0;
  Listen(&port).Reset();
  EXPECT_TRUE(ReservePorts(port, port, 1).ok());
  EXPECT_TRUE(ReservePorts(port, port, 1).ok());
}

TEST(ReplaceBusy, GivesUpWhatAnotherProgramTook) {
  absl::StatusOr<PortReservation> reserved = ReservePorts(29710, 29799, 3);
  ASSERT_TRUE(reserved.ok());
  const std::vector<int> before = reserved->ports();
  EXPECT_FALSE(reserved->ReplaceBusy({})) << "all are free";
  const absl::StatusOr<UniqueFd> first = ListenTcp({"127.0.0.1", before[0]});
  const absl::StatusOr<UniqueFd> last = ListenTcp({"127.0.0.1", before[2]});
  ASSERT_TRUE(first.ok() && last.ok());
  EXPECT_TRUE(reserved->ReplaceBusy({before[2]}));
  const std::vector<int>& after = reserved->ports();
  ASSERT_EQ(after.size(), 3u);
  EXPECT_NE(after[0], before[0]);
  EXPECT_EQ(after[1], before[1]);
  EXPECT_EQ(after[2], before[2]) << "it is in use by who should";
  EXPECT_TRUE(CheckPortFree({"0.0.0.0", after[0]}).ok());
  // The new one is claimed, the old one is not any more.
  EXPECT_EQ(ReservePorts(after[0], after[0], 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ReplaceBusy, WithoutASubstituteItStays) {
  int port = 0;
  Listen(&port).Reset();
  absl::StatusOr<PortReservation> reserved = ReservePorts(port, port, 1);
  ASSERT_TRUE(reserved.ok());
  const absl::StatusOr<UniqueFd> taken = ListenTcp({"127.0.0.1", port});
  ASSERT_TRUE(taken.ok());
  EXPECT_FALSE(reserved->ReplaceBusy({}));
  EXPECT_EQ(reserved->ports(), std::vector<int>{port});
}

TEST(CheckPortFree, NamesPortAndHost) {
  int port = 0;
  const UniqueFd listener = Listen(&port);
  const absl::Status status = CheckPortFree({"127.0.0.1", port});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "port " + std::to_string(port) + " on 127.0.0.1 is in use");
  EXPECT_TRUE(CheckPortFree({"127.0.0.1", 0}).ok());
  EXPECT_FALSE(CheckPortFree({"192.0.2.1", 0}).ok()) << "none of our addresses";
}

TEST(LocalAddressTowards, IsTheInterfaceThatLeadsThere) {
  int port = 0;
  const UniqueFd listener = Listen(&port);
  absl::StatusOr<std::string> local =
      LocalAddressTowards({"127.0.0.1", port}, After(RealClock(), std::chrono::seconds(5)));
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(*local, "127.0.0.1");
}

TEST(LocalAddressTowards, NamesTheAddressAndTheReasonWithinItsDeadline) {
  int port = 0;
  Listen(&port).Reset();
  const TimePoint start = RealClock().Now();
  const absl::Status status =
      LocalAddressTowards({"127.0.0.1", port}, start + std::chrono::milliseconds(300)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused"));
  EXPECT_LT(RealClock().Now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace everstep
