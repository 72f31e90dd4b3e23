// env: sockets, polling and shared memory.
#include "everstep/env/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/poll.h"
#include "everstep/env/shared_memory.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;

Deadline Soon(int64_t ms = 5000) { return After(RealClock(), milliseconds(ms)); }
absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

UniqueFd AcceptSoon(int listener) {
  PollItem item;
  item.fd = listener;
  item.read = true;
  EXPECT_TRUE(Poll(absl::MakeSpan(&item, 1), milliseconds(5000)).ok());
  return *Accept(listener).value();
}

bool IsCloseOnExec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(HostPort, ParsesNamesNumbersAndBrackets) {
  EXPECT_EQ(HostPort::Parse("node-1:29710")->host, "node-1");
  EXPECT_EQ(HostPort::Parse("10.0.0.1:1")->port, 1);
  EXPECT_EQ(HostPort::Parse("[::1]:80")->host, "::1");
  EXPECT_EQ(HostPort::Parse("[::1]:80")->ToString(), "[::1]:80");
  for (const char* bad :
       {"", ":", ":80", "a", "a:", "a:x", "a:1x", "a:65536", "a:-1", "::1:80", "[]:1", "[::1:80"}) {
    EXPECT_EQ(HostPort::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Tcp, ConnectsOnBothFamiliesAndCarriesBytes) {
  for (const std::string& host : {std::string("127.0.0.1"), std::string("::1")}) {
    auto listener = ListenTcp({host, 0});
    if (host == "::1" && !listener.ok()) continue;  // no IPv6 here
    ASSERT_TRUE(listener.ok()) << listener.status();
    const int port = PortOf(listener->get()).value();
    const UniqueFd dialed = DialTcp({host, port}, Soon()).value();
    const UniqueFd accepted = AcceptSoon(listener->get());
    ASSERT_TRUE(SetNoDelay(dialed.get()).ok());
    EXPECT_TRUE(IsCloseOnExec(dialed.get()) && IsCloseOnExec(accepted.get()) &&
                IsCloseOnExec(listener->get()));
    ASSERT_TRUE(SendAll(dialed.get(), BytesOf("hello"), Soon()).ok());
    std::string text(5, ' ');
    ASSERT_TRUE(
        ReceiveAll(accepted.get(), {reinterpret_cast<std::byte*>(text.data()), text.size()}, Soon())
            .ok());
    EXPECT_EQ(text, "hello");
  }
}

TEST(Tcp, NobodyThereIsUnavailableAndATakenPortIsPassedOver) {
  const UniqueFd taken = ListenTcp({"127.0.0.1", 0}).value();
  const int port = PortOf(taken.get()).value();
  const auto next = ListenTcpInRange("127.0.0.1", port, port, port + 20);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE(PortOf(next->get()).value(), port);
  EXPECT_EQ(ListenTcpInRange("127.0.0.1", 0, port, port).status().code(),
            absl::StatusCode::kUnavailable);
  int closed_port = 0;
  {
    const UniqueFd closed = ListenTcp({"127.0.0.1", 0}).value();
    closed_port = PortOf(closed.get()).value();
  }
  EXPECT_EQ(DialTcp({"127.0.0.1", closed_port}, Soon()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(Tcp, ALiveHostAcknowledgesThoughItsProcessDoesNotRead) {
  const UniqueFd listener = ListenTcp({"127.0.0.1", 0}).value();
  const UniqueFd dialed = DialTcp({"127.0.0.1", PortOf(listener.get()).value()}, Soon()).value();
  const UniqueFd accepted = AcceptSoon(listener.get());
  EXPECT_FALSE(InFlightOf(dialed.get()).any);
  const std::string big(64 << 20, 'x');
  EXPECT_FALSE(SendAll(dialed.get(), BytesOf(big), Soon(300)).ok());  // the window is full
  SleepFor(milliseconds(100));
  EXPECT_FALSE(InFlightOf(dialed.get()).any);
  EXPECT_FALSE(InFlightOf(MakeSocketPair()->first.get()).any);
}

TEST(Socket, ACancelDescriptorEndsAWait) {
  auto pair = MakeSocketPair().value();
  const UniqueFd cancel = MakeEventFd().value();
  std::thread canceller([&] {
    SleepFor(milliseconds(50));
    SignalEventFd(cancel.get());
  });
  std::byte byte;
  const TimePoint begin = RealClock().Now();
  EXPECT_EQ(ReceiveAll(pair.first.get(), absl::MakeSpan(&byte, 1), Soon(), cancel.get()).code(),
            absl::StatusCode::kAborted);
  EXPECT_LT(ToMilliseconds(RealClock().Now() - begin), 2000);
  canceller.join();
}

TEST(Socket, WaitsEndAtTheDeadlineAndAtTheEndOfTheStream) {
  auto pair = MakeSocketPair().value();
  std::byte byte;
  const TimePoint begin = RealClock().Now();
  EXPECT_EQ(ReceiveAll(pair.first.get(), absl::MakeSpan(&byte, 1), Soon(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(ToMilliseconds(RealClock().Now() - begin), 49);
  // A send that nobody takes ends too.
  const std::string big(8 << 20, 'x');
  EXPECT_EQ(SendAll(pair.first.get(), BytesOf(big), Soon(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
  pair.second.Reset();
  EXPECT_EQ(ReceiveAll(pair.first.get(), absl::MakeSpan(&byte, 1), Soon()).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(SendAll(pair.first.get(), BytesOf("x"), Soon()).code(), absl::StatusCode::kUnavailable);
}

TEST(Abstract, NameIsFreeAgainAtOnceAndTellsThePeersProcess) {
  const std::string name = "everstep-test-" + std::to_string(RandomBits64());
  EXPECT_EQ(DialAbstract(name, Soon()).status().code(), absl::StatusCode::kUnavailable);
  for (int i = 0; i < 2; ++i) {
    const UniqueFd listener = ListenAbstract(name).value();
    EXPECT_EQ(ListenAbstract(name).status().code(), absl::StatusCode::kUnavailable);
    const UniqueFd dialed = DialAbstract(name, Soon()).value();
    const UniqueFd accepted = AcceptSoon(listener.get());
    EXPECT_EQ(PeerPid(dialed.get()).value(), OwnPid());
    EXPECT_EQ(PeerPid(accepted.get()).value(), OwnPid());
  }
  EXPECT_EQ(ListenAbstract(std::string(101, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Descriptors, TravelAndMustBeAsManyAsExpected) {
  auto pair = MakeSocketPair().value();
  const UniqueFd event = MakeEventFd().value();
  const int fds[] = {event.get(), event.get()};
  std::string text(2, ' ');
  const absl::Span<std::byte> room(reinterpret_cast<std::byte*>(text.data()), text.size());
  ASSERT_TRUE(SendWithFds(pair.first.get(), BytesOf("ab"), fds, Soon()).ok());
  auto got = ReceiveWithFds(pair.second.get(), room, 2, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(text, "ab");
  EXPECT_TRUE(IsCloseOnExec((*got)[0].get()));
  SignalEventFd((*got)[1].get());
  PollItem item;
  item.fd = event.get();
  item.read = true;
  ASSERT_TRUE(Poll(absl::MakeSpan(&item, 1), milliseconds(0)).ok());
  EXPECT_TRUE(item.readable);
  DrainEventFd(event.get());
  ASSERT_TRUE(Poll(absl::MakeSpan(&item, 1), milliseconds(0)).ok());
  EXPECT_FALSE(item.readable);

  ASSERT_TRUE(SendWithFds(pair.first.get(), BytesOf("ab"), fds, Soon()).ok());
  EXPECT_EQ(ReceiveWithFds(pair.second.get(), room, 1, Soon()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PidFd, OfALivingProcessIsNotReadableAndOfNoneIsNotFound) {
  const UniqueFd self = OpenPidFd(OwnPid()).value();
  EXPECT_FALSE(HasExited(self.get()));
  EXPECT_TRUE(IsCloseOnExec(self.get()));
  EXPECT_EQ(OpenPidFd(1 << 30).status().code(), absl::StatusCode::kNotFound);
}

TEST(SharedMemory, IsSeenThroughAllMappingsAndCannotBeResized) {
  const size_t bytes = 3 * PageBytes();
  const UniqueFd fd = CreateSharedMemory("everstep-test", bytes).value();
  auto one = SharedMapping::Map(fd.get(), bytes).value();
  auto two = SharedMapping::Map(fd.get(), bytes).value();
  one.data()[bytes - 1] = std::byte{7};
  EXPECT_EQ(two.data()[bytes - 1], std::byte{7});
  EXPECT_NE(::ftruncate(fd.get(), 0), 0);
  EXPECT_EQ(SharedMapping::Map(fd.get(), bytes + 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  const UniqueFd event = MakeEventFd().value();
  EXPECT_EQ(SharedMapping::Map(event.get(), bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SharedMemoryDeathTest, ProtectedPagesCannotBeWritten) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const size_t bytes = 2 * PageBytes();
  const UniqueFd fd = CreateSharedMemory("everstep-test", bytes).value();
  auto mapping = SharedMapping::Map(fd.get(), bytes).value();
  ASSERT_TRUE(mapping.ProtectAgainstWrites(PageBytes(), PageBytes()).ok());
  mapping.data()[0] = std::byte{1};
  EXPECT_EQ(mapping.data()[PageBytes()], std::byte{0});
  EXPECT_DEATH({ *const_cast<volatile std::byte*>(mapping.data() + PageBytes()) = std::byte{1}; },
               "");
}

TEST(Futex, WakesAcrossMappingsAndTimesOut) {
  const UniqueFd fd = CreateSharedMemory("everstep-test", PageBytes()).value();
  auto one = SharedMapping::Map(fd.get(), PageBytes()).value();
  auto two = SharedMapping::Map(fd.get(), PageBytes()).value();
  auto& here = *reinterpret_cast<std::atomic<uint32_t>*>(one.data());
  auto& there = *reinterpret_cast<std::atomic<uint32_t>*>(two.data());
  TimePoint begin = RealClock().Now();
  FutexWait(here, 0, milliseconds(30));
  EXPECT_GE(ToMilliseconds(RealClock().Now() - begin), 25);
  FutexWait(here, 1, milliseconds(5000));  // not the expected value: at once
  std::thread waker([&] {
    SleepFor(milliseconds(30));
    there.store(1);
    FutexWakeAll(there);
  });
  begin = RealClock().Now();
  while (here.load() == 0) FutexWait(here, 0, milliseconds(5000));
  EXPECT_LT(ToMilliseconds(RealClock().Now() - begin), 2000);
  waker.join();
}

TEST(Processors, AtLeastOneIsAllowed) {
  uint64_t any = 0;
  for (uint64_t word : AllowedProcessors()) any |= word;
  EXPECT_NE(any, 0u);
}

}  // namespace
}  // namespace everstep
