// env: names and addresses, by c-ares.
#include "everstep/env/resolve.h"

#include <ares.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"

namespace everstep {
namespace {

static_assert(std::is_same_v<ares_socket_t, int>);

void SetPort(SocketAddress& address, int port) {
  const uint16_t network_order = htons(static_cast<uint16_t>(port));
  if (address.family() == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = network_order;
  } else {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = network_order;
  }
}

// An address written as a number.
std::optional<SocketAddress> Parse(const std::string& host) {
  SocketAddress result;
  auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    result.length = sizeof v4;
    return result;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
  const size_t percent = host.find('%');
  if (inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  if (percent != std::string::npos) {
    v6.sin6_scope_id = if_nametoindex(host.c_str() + percent + 1);
    if (v6.sin6_scope_id == 0) return std::nullopt;
  }
  v6.sin6_family = AF_INET6;
  result.length = sizeof v6;
  return result;
}

// This host by RFC 6761, whatever files or servers say. (c-ares 1.18 does not know it without a
// hosts file, and loses a few bytes each time with one.)
bool IsLocalhost(const std::string& host) {
  return absl::EqualsIgnoreCase(host, "localhost") || absl::EndsWithIgnoreCase(host, ".localhost");
}

struct Answer {
  bool there = false;
  int status = ARES_SUCCESS;
  std::vector<SocketAddress> addresses;
};

void TakeAnswer(void* argument, int status, int /*timeouts*/, ares_addrinfo* found) {
  auto& answer = *static_cast<Answer*>(argument);
  answer.there = true;
  answer.status = status;
  if (found == nullptr) return;
  for (const ares_addrinfo_node* at = found->nodes; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    SocketAddress address;
    address.length = at->ai_addrlen;
    memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    answer.addresses.push_back(address);
  }
  ares_freeaddrinfo(found);
}

struct ChannelDeleter {
  void operator()(ares_channeldata* channel) const { ares_destroy(channel); }
};
using Channel = std::unique_ptr<ares_channeldata, ChannelDeleter>;

Duration UntilItsTimeout(ares_channel channel, Duration most) {
  timeval time{};
  if (ares_timeout(channel, nullptr, &time) == nullptr) return most;
  return std::min<Duration>(
      most, std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec));
}

// One wait for the servers, and what it brought.
absl::Status Step(ares_channel channel, Duration left, int cancel_fd) {
  ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
  const int wanted = ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
  PollItem items[ARES_GETSOCK_MAXNUM + 1];
  for (int i = 0; i < ARES_GETSOCK_MAXNUM; ++i) {
    items[i].read = ARES_GETSOCK_READABLE(wanted, i) != 0;
    items[i].write = ARES_GETSOCK_WRITABLE(wanted, i) != 0;
    if (items[i].read || items[i].write) items[i].fd = sockets[i];
  }
  PollItem& cancel = items[ARES_GETSOCK_MAXNUM];
  cancel.fd = cancel_fd;
  cancel.read = true;
  EV_RETURN_IF_ERROR(Poll(items, UntilItsTimeout(channel, left)));
  if (cancel.readable) return absl::AbortedError("given up");
  bool any = false;
  for (int i = 0; i < ARES_GETSOCK_MAXNUM; ++i) {
    if (!items[i].readable && !items[i].writable) continue;
    any = true;
    ares_process_fd(channel, items[i].readable ? items[i].fd : ARES_SOCKET_BAD,
                    items[i].writable ? items[i].fd : ARES_SOCKET_BAD);
  }
  if (!any) ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // its timeouts
  return absl::OkStatus();
}

absl::Status NoSuchHost(const std::string& host, int error) {
  return absl::UnavailableError(
      absl::StrCat("looking up '", host, "': ", ares_strerror(error), "; check the host's name"));
}

absl::StatusOr<std::vector<SocketAddress>> LookUp(const std::string& host, Deadline deadline,
                                                  int cancel_fd) {
  // gRPC has initialised the library or will; on Linux that counts calls and does nothing else.
  static const int initialised = ares_library_init(ARES_LIB_INIT_ALL);
  ares_channel made = nullptr;
  int status = initialised;
  // A channel for each look-up: it reads the files anew, so a changed one is seen.
  if (status == ARES_SUCCESS) status = ares_init(&made);
  if (status != ARES_SUCCESS) return NoSuchHost(host, status);
  Answer answer;  // outlives the channel, whose end calls TakeAnswer if nothing did before
  const Channel channel(made);
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  ares_getaddrinfo(channel.get(), host.c_str(), nullptr, &hints, &TakeAnswer, &answer);
  while (!answer.there) {
    const Duration left = deadline - RealClock().Now();
    if (left <= Duration::zero()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "looking up '", host, "': no answer in time; check the servers in /etc/resolv.conf"));
    }
    if (absl::Status step = Step(channel.get(), left, cancel_fd); !step.ok()) {
      return Annotate(step, absl::StrCat("looking up '", host, "'"));
    }
  }
  if (answer.status != ARES_SUCCESS) return NoSuchHost(host, answer.status);
  if (answer.addresses.empty()) return NoSuchHost(host, ARES_ENODATA);
  return std::move(answer.addresses);
}

}  // namespace

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host, int port,
                                                   Deadline deadline, int cancel_fd) {
  std::vector<SocketAddress> addresses;
  if (std::optional<SocketAddress> number = Parse(host)) {
    addresses.push_back(*number);
  } else if (host.empty()) {
    return NoSuchHost(host, ARES_ENOTFOUND);
  } else if (IsLocalhost(host)) {
    addresses = {*Parse("127.0.0.1"), *Parse("::1")};
  } else {
    EV_ASSIGN_OR_RETURN(addresses, LookUp(host, deadline, cancel_fd));
  }
  for (SocketAddress& address : addresses) SetPort(address, port);
  return addresses;
}

std::string NumericHost(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN];
  if (address.family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    return inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  }
  if (address.family() != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  std::string result = inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  char name[IF_NAMESIZE];
  if (v6.sin6_scope_id != 0 && if_indextoname(v6.sin6_scope_id, name) != nullptr) {
    absl::StrAppend(&result, "%", name);
  }
  return result;
}

}  // namespace everstep
