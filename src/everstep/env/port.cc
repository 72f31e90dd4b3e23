// env: ports, Linux form.
#include "everstep/env/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"

namespace everstep {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::StatusOr<AddressList> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot find the address of '", host, "': ", gai_strerror(error)));
  }
  return AddressList(list, freeaddrinfo);
}

// errno of an attempt to bind, 0 when a server could. SO_REUSEADDR as servers have it, so that
// connections of the past in TIME_WAIT do not count; a listener does all the same.
int TryBind(const sockaddr* address, socklen_t size) {
  Descriptor fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno == EAFNOSUPPORT ? 0 : errno;
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (address->sa_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  }
  return bind(fd.get(), address, size) == 0 ? 0 : errno;
}

bool FreeOnAllAddresses(int port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  return TryBind(reinterpret_cast<const sockaddr*>(&v4), sizeof v4) == 0;
}

// An abstract socket of this name is the claim: it is seen by exactly those that share the ports
// (one network namespace) and goes with its owner.
Descriptor Claim(int port) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = absl::StrCat("everstep-port-", port);
  memcpy(name.sun_path + 1, text.data(), text.size());
  Descriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const socklen_t size = offsetof(sockaddr_un, sun_path) + 1 + text.size();
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0) fd.Reset();
  return fd;
}

// errno of connecting until `deadline`; 0 when connected.
int Connect(int fd, const addrinfo& address, Deadline deadline) {
  SetNonBlocking(fd);
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  const Duration left = std::max(deadline - RealClock().Now(), Duration::zero());
  pollfd poll_fd{fd, POLLOUT, 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  if (poll(&poll_fd, 1, static_cast<int>(milliseconds)) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

absl::StatusOr<std::string> LocalAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST];
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return absl::InternalError("a connected socket has no address of its own");
  }
  return std::string(host);
}

}  // namespace

std::string HostPort::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  HostPort result;
  const size_t colon = text.rfind(':');
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not HOST:PORT, e.g. 10.0.0.1:29700 or [::1]:29700"));
  if (colon == std::string::npos || colon == 0) return bad;
  result.host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(port, &result.port) || result.port > 65535) {
    return bad;
  }
  if (result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return bad;  // an IPv6 address needs its brackets
  }
  if (result.host.empty()) return bad;
  return result;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count) {
  PortReservation reservation;
  const int size = last - first + 1;
  const int start = size > 0 ? static_cast<int>(RandomBits64() % size) : 0;
  for (int i = 0; i < size && static_cast<int>(reservation.ports_.size()) < count; ++i) {
    const int port = first + (start + i) % size;
    Descriptor claim = Claim(port);
    if (!claim.valid() || !FreeOnAllAddresses(port)) continue;
    reservation.ports_.push_back(port);
    reservation.claims_.push_back(std::move(claim));
  }
  if (static_cast<int>(reservation.ports_.size()) < count) {
    return absl::ResourceExhaustedError(absl::StrCat("only ", reservation.ports_.size(), " of ",
                                                     count, " ports in ", first, "-", last,
                                                     " are free; choose another --port-range"));
  }
  std::sort(reservation.ports_.begin(), reservation.ports_.end());
  return reservation;
}

absl::Status CheckPortFree(const std::string& host, int port) {
  EV_ASSIGN_OR_RETURN(AddressList list, Resolve(host, port, AI_PASSIVE));
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    const int error = TryBind(a->ai_addr, a->ai_addrlen);
    if (error == 0) continue;
    if (error == EADDRINUSE) {
      return absl::UnavailableError(absl::StrCat("port ", port, " on ", host, " is in use"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", HostPort{host, port}.ToString(), ": ", strerror(error)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalAddressTowards(const HostPort& there, Deadline deadline) {
  absl::Status why;
  // A server that is just starting refuses; so again until the deadline.
  while (true) {
    absl::StatusOr<AddressList> list = Resolve(there.host, there.port, 0);
    why = list.status();
    for (const addrinfo* a = list.ok() ? list->get() : nullptr; a != nullptr; a = a->ai_next) {
      Descriptor fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!fd.valid()) continue;
      const int error = Connect(fd.get(), *a, deadline);
      if (error == 0) return LocalAddress(fd.get());
      why = absl::UnavailableError(
          absl::StrCat("cannot connect to ", there.ToString(), ": ", strerror(error)));
    }
    if (RealClock().Now() + std::chrono::milliseconds(200) >= deadline) return why;
    SleepFor(std::chrono::milliseconds(200));
  }
}

}  // namespace everstep
