// env: names and addresses.
#include "everstep/env/resolve.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>

#include "everstep/env/clock.h"
#include "everstep/env/poll.h"

namespace everstep {
namespace {

using std::chrono::seconds;

Deadline Soon() { return After(RealClock(), seconds(20)); }

std::vector<std::string> Texts(const absl::StatusOr<std::vector<SocketAddress>>& found) {
  std::vector<std::string> texts;
  if (found.ok()) {
    for (const SocketAddress& address : *found) texts.push_back(NumericHost(address));
  }
  return texts;
}

TEST(Resolve, NumbersAreThemselvesWithoutAnyLookUp) {
  const Deadline long_ago = RealClock().Now() - seconds(1);
  for (const char* host : {"127.0.0.1", "10.1.2.3", "::1", "2001:db8::7", "fe80::1%lo"}) {
    EXPECT_EQ(Texts(Resolve(host, 80, long_ago)), std::vector<std::string>{host}) << host;
  }
}

TEST(Resolve, EveryAddressHasThePort) {
  const auto v4 = Resolve("127.0.0.1", 29710, Soon()).value();
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in&>(v4[0].storage).sin_port), 29710);
  EXPECT_EQ(v4[0].length, sizeof(sockaddr_in));
  const auto v6 = Resolve("::1", 29711, Soon()).value();
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6&>(v6[0].storage).sin6_port), 29711);
  EXPECT_EQ(v6[0].length, sizeof(sockaddr_in6));
}

TEST(Resolve, WhatIsNoHostIsUnavailableAndNamed) {
  for (const char* host : {"", "no such host", "fe80::1%no-such-link", "x..y"}) {
    const absl::Status status = Resolve(host, 1, Soon()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << host << ": " << status;
    EXPECT_NE(status.ToString().find("'" + std::string(host) + "'"), std::string::npos) << status;
  }
}

// A network of its own, seen by the thread that makes it: an /etc/hosts with one name in it, and
// one server of names that answers every A question with 10.9.8.7, or nothing at all.
class OwnNames {
 public:
  enum class Server { kAnswers, kSilent };

  // False where the system does not allow it.
  bool Make(Server kind) {
    if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/etc", "tmpfs", 0, nullptr) != 0) {
      return false;
    }
    std::ofstream("/etc/resolv.conf") << "nameserver 127.0.0.1\n";
    std::ofstream("/etc/hosts") << "10.1.2.3 node-7.cluster node-7\n";
    socket_ = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    const SocketAddress here = Resolve("127.0.0.1", 53, Soon()).value()[0];
    if (::ioctl(socket_.get(), SIOCSIFFLAGS, &loopback) != 0 ||
        ::bind(socket_.get(), here.get(), here.length) != 0) {
      return false;
    }
    if (kind == Server::kAnswers) server_ = std::thread([this] { Serve(); });
    return true;
  }

  ~OwnNames() {
    SignalEventFd(over_.get());
    if (server_.joinable()) server_.join();
  }

 private:
  void Serve() {
    while (true) {
      PollItem items[2];
      items[0].fd = socket_.get();
      items[1].fd = over_.get();
      items[0].read = items[1].read = true;
      if (!Poll(items, seconds(1)).ok() || items[1].readable) return;
      if (!items[0].readable) continue;
      unsigned char query[512];
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      const ssize_t n = ::recvfrom(socket_.get(), query, sizeof query, 0,
                                   reinterpret_cast<sockaddr*>(&from), &length);
      if (n < 17) continue;
      size_t end = 12;  // of the question: its name, its type, its class
      while (query[end] != 0) end += query[end] + 1u;
      const bool is_a = query[end + 2] == 1;
      std::string answer(reinterpret_cast<const char*>(query), end + 5);
      answer[2] = static_cast<char>(0x81);  // an answer
      answer[3] = static_cast<char>(0x80);  // without error
      answer[7] = is_a ? 1 : 0;             // so many addresses
      answer[11] = 0;                       // and nothing else
      if (is_a) answer += std::string("\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\x09\x08\x07", 16);
      ::sendto(socket_.get(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from),
               length);
    }
  }

  UniqueFd socket_;
  UniqueFd over_ = MakeEventFd().value();
  std::thread server_;
};

// Runs `body` in a thread with its own names; false where that cannot be had.
bool WithOwnNames(OwnNames::Server kind, const std::function<void()>& body) {
  bool made = false;
  std::thread([&] {
    OwnNames names;
    made = names.Make(kind);
    if (made) body();
  }).join();
  return made;
}

TEST(Resolve, NamesAreThoseOfTheHostsFileAndTheServersAndLocalhostIsThisHost) {
  const bool made = WithOwnNames(OwnNames::Server::kAnswers, [] {
    EXPECT_EQ(Texts(Resolve("node-7", 1, Soon())), std::vector<std::string>{"10.1.2.3"});
    EXPECT_EQ(Texts(Resolve("NODE-7.cluster", 1, Soon())), std::vector<std::string>{"10.1.2.3"});
    EXPECT_EQ(Texts(Resolve("node-8.cluster", 1, Soon())), std::vector<std::string>{"10.9.8.7"});
    // In neither, and no server is asked.
    const std::vector<std::string> loopback = {"127.0.0.1", "::1"};
    EXPECT_EQ(Texts(Resolve("localhost", 1, Soon())), loopback);
    EXPECT_EQ(Texts(Resolve("a.LOCALHOST", 1, Soon())), loopback);
    ASSERT_EQ(::unlink("/etc/hosts"), 0);
    EXPECT_EQ(Texts(Resolve("localhost", 1, Soon())), loopback);
    EXPECT_EQ(Texts(Resolve("node-7", 1, Soon())), std::vector<std::string>{"10.9.8.7"});
  });
  ASSERT_TRUE(made) << "it needs leave to make a network namespace: run it as root";
}

TEST(Resolve, ASilentServerIsWaitedForUntilTheDeadlineOrTheCancel) {
  const bool made = WithOwnNames(OwnNames::Server::kSilent, [] {
    const TimePoint begin = RealClock().Now();
    const auto late = Resolve("node-8.cluster", 1, begin + std::chrono::milliseconds(300));
    EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
    EXPECT_LT(RealClock().Now() - begin, seconds(3));
    const UniqueFd cancel = MakeEventFd().value();
    SignalEventFd(cancel.get());
    const auto given_up = Resolve("node-8.cluster", 1, Soon(), cancel.get());
    EXPECT_TRUE(absl::IsAborted(given_up.status())) << given_up.status();
  });
  ASSERT_TRUE(made) << "it needs leave to make a network namespace: run it as root";
}

TEST(Resolve, OfAnotherFamilyThereIsNoText) {
  SocketAddress address;
  address.storage.ss_family = AF_UNIX;
  EXPECT_EQ(NumericHost(address), "");
}

}  // namespace
}  // namespace everstep
