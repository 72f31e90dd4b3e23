// env: stream sockets, Linux form.
#include "everstep/env/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/string_view.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/resolve.h"

namespace everstep {
namespace {

constexpr int kBacklog = 128;
constexpr int kMaxFds = 8;
constexpr size_t kMaxAbstractName = 100;

absl::Status Failed(std::string_view what, int error) {
  const std::string message = absl::StrCat(ToAbsl(what), ": ", strerror(error));
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// ListenTcp has no deadline; addresses to listen on are numbers or names in /etc/hosts nearly
// always.
constexpr auto kListenLookUpLimit = std::chrono::seconds(30);

absl::Status AwaitReady(int socket, bool write, Deadline deadline, int cancel_fd,
                        std::string_view what) {
  PollItem items[2];
  items[0].fd = socket;
  items[0].read = !write;
  items[0].write = write;
  items[1].fd = cancel_fd;
  items[1].read = true;
  while (true) {
    const Duration left = deadline - RealClock().Now();
    if (left <= Duration::zero()) {
      return absl::DeadlineExceededError(absl::StrCat(ToAbsl(what), ": no answer in time"));
    }
    EV_RETURN_IF_ERROR(Poll(items, left));
    if (items[1].readable) return absl::AbortedError(absl::StrCat(ToAbsl(what), ": given up"));
    if (items[0].readable || items[0].writable) return absl::OkStatus();
  }
}

absl::StatusOr<UniqueFd> NewSocket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Failed("socket", errno);
  return fd;
}

absl::Status ConnectTo(int socket, const sockaddr* to, socklen_t length, Deadline deadline,
                       int cancel_fd, std::string_view what) {
  if (::connect(socket, to, length) == 0) return absl::OkStatus();
  // A unix socket whose listener has a full queue says EAGAIN: the caller tries again.
  if (errno != EINPROGRESS) return Failed(what, errno);
  EV_RETURN_IF_ERROR(AwaitReady(socket, /*write=*/true, deadline, cancel_fd, what));
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : Failed(what, error);
}

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

absl::StatusOr<AbstractAddress> AbstractOf(const std::string& name) {
  if (name.empty() || name.size() > kMaxAbstractName) {
    return absl::InvalidArgumentError(absl::StrCat("an abstract socket's name has 1 to ",
                                                   kMaxAbstractName, " bytes, not ", name.size()));
  }
  AbstractAddress result;
  result.address.sun_family = AF_UNIX;
  memcpy(result.address.sun_path + 1, name.data(), name.size());  // after a NUL: abstract
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

absl::StatusOr<size_t> SendMessage(int socket, msghdr& message) {
  while (true) {
    const ssize_t n = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (WouldBlock(errno)) return 0;
    return Failed("send", errno);
  }
}

iovec AsIovec(absl::Span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

// Takes over the descriptors of a received message.
std::vector<UniqueFd> TakeFds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

std::string HostPort::ToString() const {
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> HostPort::Parse(std::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("'", ToAbsl(text), "' is not an address: write HOST:PORT or [IPV6]:PORT"));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return bad;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad;  // IPv6 without brackets: where the port begins cannot be told
  }
  int port = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port < 0 || port > 65535) return bad;
  return HostPort{std::string(host), port};
}

absl::StatusOr<UniqueFd> ListenTcp(const HostPort& address) {
  EV_ASSIGN_OR_RETURN(const std::vector<SocketAddress> list,
                      Resolve(address.host, address.port, After(RealClock(), kListenLookUpLimit)));
  absl::Status last = absl::UnavailableError("no address to listen on");
  for (const SocketAddress& at : list) {
    EV_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(at.family()));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at.family() == AF_INET6) {
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    if (::bind(fd.get(), at.get(), at.length) == 0 && ::listen(fd.get(), kBacklog) == 0) {
      return fd;
    }
    last = Failed(absl::StrCat("listening on ", address.ToString()), errno);
  }
  return last;
}

absl::StatusOr<UniqueFd> ListenTcpInRange(const std::string& host, int preferred, int first,
                                          int last) {
  absl::Status status = absl::InvalidArgumentError(
      absl::StrCat("no port to listen on: the range ", first, "-", last, " is empty"));
  if (preferred != 0) {
    absl::StatusOr<UniqueFd> fd = ListenTcp({host, preferred});
    if (fd.ok()) return fd;
    status = fd.status();
  }
  for (int port = first; port <= last; ++port) {
    absl::StatusOr<UniqueFd> fd = ListenTcp({host, port});
    if (fd.ok()) return fd;
    status = fd.status();
  }
  return Annotate(status, absl::StrCat("no free port in ", first, "-", last, " on ", host,
                                       " (choose another with --port-range)"));
}

absl::StatusOr<int> PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Failed("getsockname", errno);
  }
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return absl::InvalidArgumentError("not a TCP socket");
}

absl::StatusOr<UniqueFd> DialTcp(const HostPort& address, Deadline deadline, int cancel_fd) {
  EV_ASSIGN_OR_RETURN(const std::vector<SocketAddress> list,
                      Resolve(address.host, address.port, deadline, cancel_fd));
  const std::string what = absl::StrCat("connecting to ", address.ToString());
  absl::Status last = absl::UnavailableError(absl::StrCat(what, ": it has no address"));
  for (const SocketAddress& at : list) {
    EV_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(at.family()));
    last = ConnectTo(fd.get(), at.get(), at.length, deadline, cancel_fd, what);
    if (last.ok()) return fd;
  }
  return last;
}

absl::Status SetNoDelay(int socket) {
  const int on = 1;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0) return absl::OkStatus();
  return Failed("TCP_NODELAY", errno);
}

absl::StatusOr<UniqueFd> ListenAbstract(const std::string& name) {
  EV_ASSIGN_OR_RETURN(const AbstractAddress at, AbstractOf(name));
  EV_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(AF_UNIX));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return Failed(absl::StrCat("listening on the abstract socket ", name), errno);
  }
  return fd;
}

absl::StatusOr<UniqueFd> DialAbstract(const std::string& name, Deadline deadline) {
  EV_ASSIGN_OR_RETURN(const AbstractAddress at, AbstractOf(name));
  const std::string what = absl::StrCat("connecting to the abstract socket ", name);
  while (true) {
    EV_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(AF_UNIX));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.length) == 0) {
      return fd;
    }
    if (!WouldBlock(errno)) return Failed(what, errno);
    // The listener's queue is full, and nothing can be polled for room in it.
    if (RealClock().Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(what, ": its queue stays full"));
    }
    SleepFor(std::chrono::milliseconds(1));
  }
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakeSocketPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return Failed("socketpair", errno);
  }
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

absl::StatusOr<int> PeerPid(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return Failed("SO_PEERCRED", errno);
  }
  if (credentials.pid <= 0) {
    return absl::NotFoundError("the process at the other end is in another process namespace");
  }
  return credentials.pid;
}

absl::StatusOr<std::optional<UniqueFd>> Accept(int listener) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) return std::optional<UniqueFd>(std::move(fd));
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EBADF:
    case EINVAL:
      return Failed("accept", errno);
    default:  // none there, or one that was gone again: the next poll tells
      return std::optional<UniqueFd>();
  }
}

absl::StatusOr<size_t> SendSome(int socket, absl::Span<const std::byte> bytes) {
  return SendSome(socket, bytes, {});
}

absl::StatusOr<size_t> SendSome(int socket, absl::Span<const std::byte> first,
                                absl::Span<const std::byte> second) {
  iovec pieces[2] = {AsIovec(first), AsIovec(second)};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = second.empty() ? 1 : 2;
  return SendMessage(socket, message);
}

absl::StatusOr<Received> ReceiveSome(int socket, absl::Span<std::byte> out) {
  return ReceiveSome(socket, out, {});
}

absl::StatusOr<Received> ReceiveSome(int socket, absl::Span<std::byte> first,
                                     absl::Span<std::byte> second) {
  if (first.empty() && second.empty()) return Received{};
  iovec pieces[2] = {{first.data(), first.size()}, {second.data(), second.size()}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = second.empty() ? 1 : 2;
  while (true) {
    const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n > 0) return Received{static_cast<size_t>(n), false};
    if (n == 0) return Received{0, true};
    if (errno == EINTR) continue;
    if (WouldBlock(errno)) return Received{};
    return Failed("receive", errno);
  }
}

absl::Status AwaitReadable(int socket, Deadline deadline, int cancel_fd) {
  return AwaitReady(socket, /*write=*/false, deadline, cancel_fd, "receive");
}

absl::Status SendAll(int socket, absl::Span<const std::byte> bytes, Deadline deadline,
                     int cancel_fd) {
  while (!bytes.empty()) {
    EV_ASSIGN_OR_RETURN(const size_t n, SendSome(socket, bytes));
    bytes.remove_prefix(n);
    if (n == 0) EV_RETURN_IF_ERROR(AwaitReady(socket, /*write=*/true, deadline, cancel_fd, "send"));
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int socket, absl::Span<std::byte> out, Deadline deadline, int cancel_fd) {
  while (!out.empty()) {
    EV_ASSIGN_OR_RETURN(const Received got, ReceiveSome(socket, out));
    if (got.end_of_file) return absl::UnavailableError("receive: the other end closed");
    out.remove_prefix(got.bytes);
    if (got.bytes == 0) {
      EV_RETURN_IF_ERROR(AwaitReadable(socket, deadline, cancel_fd));
    }
  }
  return absl::OkStatus();
}

absl::Status SendWithFds(int socket, absl::Span<const std::byte> bytes, absl::Span<const int> fds,
                         Deadline deadline, int cancel_fd) {
  if (bytes.empty() || fds.size() > kMaxFds) {
    return absl::InvalidArgumentError(
        "descriptors travel with at least one byte, at most 8 of them");
  }
  if (fds.empty()) return SendAll(socket, bytes, deadline, cancel_fd);
  iovec piece = AsIovec(bytes);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  while (true) {
    EV_ASSIGN_OR_RETURN(const size_t n, SendMessage(socket, message));
    if (n > 0) return SendAll(socket, bytes.subspan(n), deadline, cancel_fd);
    EV_RETURN_IF_ERROR(AwaitReady(socket, /*write=*/true, deadline, cancel_fd, "send"));
  }
}

absl::StatusOr<std::vector<UniqueFd>> ReceiveWithFds(int socket, absl::Span<std::byte> out,
                                                     int num_fds, Deadline deadline,
                                                     int cancel_fd) {
  iovec piece = {out.data(), out.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  while (true) {
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n == 0) return absl::UnavailableError("receive: the other end closed");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (!WouldBlock(errno)) return Failed("receive", errno);
      EV_RETURN_IF_ERROR(AwaitReadable(socket, deadline, cancel_fd));
      continue;
    }
    std::vector<UniqueFd> fds = TakeFds(message);
    if (static_cast<int>(fds.size()) != num_fds || (message.msg_flags & MSG_CTRUNC) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("received ", fds.size(), " descriptors where ", num_fds, " were expected"));
    }
    EV_RETURN_IF_ERROR(
        ReceiveAll(socket, out.subspan(static_cast<size_t>(n)), deadline, cancel_fd));
    return fds;
  }
}

}  // namespace everstep
