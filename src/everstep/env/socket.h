// env: stream sockets: TCP and abstract unix ones. Every descriptor is close-on-exec and
// non-blocking; calls that wait take a Deadline of RealClock().
//
// Where there is a `cancel_fd`, the call ends with kAborted once that descriptor is readable.
//
// Errors: kUnavailable (refused, reset, unreachable, end of file: the other end is not there),
// kDeadlineExceeded, kInvalidArgument (an address that is none), kResourceExhausted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/env/fd.h"

namespace everstep {

struct HostPort {
  std::string host;  // a name or a numeric address, without brackets
  int port = 0;

  std::string ToString() const;  // "host:port"; "[::1]:29710" for IPv6
  // kInvalidArgument for anything but HOST:PORT or [IPV6]:PORT with a port in 0..65535.
  static absl::StatusOr<HostPort> Parse(std::string_view text);
};

// Listens on host:port; port 0 lets the kernel choose. kUnavailable when the port is taken.
absl::StatusOr<UniqueFd> ListenTcp(const HostPort& address);
// Listens on `preferred` (0: none) or else the first free port of [first, last].
absl::StatusOr<UniqueFd> ListenTcpInRange(const std::string& host, int preferred, int first,
                                          int last);
absl::StatusOr<int> PortOf(int socket);  // the local port

// Connects; a name is looked up first (resolve.h), within the same deadline.
absl::StatusOr<UniqueFd> DialTcp(const HostPort& address, Deadline deadline, int cancel_fd = -1);

// Small writes go out at once (TCP_NODELAY). No TCP_USER_TIMEOUT and no keep-alives: the first also
// breaks a connection to a live process that does not read for that long, the others never end
// while this host's own interface is down. See InFlightOf.
absl::Status SetNoDelay(int socket);

// What is on its way to the other end's kernel, which acknowledges as long as its host is there,
// whatever its process does. What waits for a slow reader's window to open is not on its way.
// (Kernels before 5.4 do not tell that window; then bytes that this host holds back are not seen.)
struct InFlight {
  bool any = false;
  Duration since_acknowledgement = Duration::zero();  // of anything, by the other end
};
InFlight InFlightOf(int socket);  // nothing for a socket that is not TCP

// Abstract unix sockets exist in a network namespace, not in a file system: nothing is left behind.
// `name` has at most 100 bytes. kUnavailable when the name is taken, or nobody listens.
absl::StatusOr<UniqueFd> ListenAbstract(const std::string& name);
absl::StatusOr<UniqueFd> DialAbstract(const std::string& name, Deadline deadline);

// Two connected unix sockets.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakeSocketPair();

// The process at the other end of a unix socket (that connected, or listened). kNotFound when it
// cannot be seen from here, as across process namespaces.
absl::StatusOr<int> PeerPid(int socket);

// The next waiting connection; nothing when there is none.
absl::StatusOr<std::optional<UniqueFd>> Accept(int listener);

// As much as goes at once; 0 when nothing does. Never raises SIGPIPE.
absl::StatusOr<size_t> SendSome(int socket, absl::Span<const std::byte> bytes);
// Two pieces one after the other, as one.
absl::StatusOr<size_t> SendSome(int socket, absl::Span<const std::byte> first,
                                absl::Span<const std::byte> second);

struct Received {
  size_t bytes = 0;          // 0 and not the end: nothing there now
  bool end_of_file = false;  // the other end closed, in order
};
absl::StatusOr<Received> ReceiveSome(int socket, absl::Span<std::byte> out);
// Into `first`, and what is left over into `second`.
absl::StatusOr<Received> ReceiveSome(int socket, absl::Span<std::byte> first,
                                     absl::Span<std::byte> second);

// All of it, or an error; an end of file before that is kUnavailable.
absl::Status SendAll(int socket, absl::Span<const std::byte> bytes, Deadline deadline,
                     int cancel_fd = -1);
absl::Status ReceiveAll(int socket, absl::Span<std::byte> out, Deadline deadline,
                        int cancel_fd = -1);
// Returns once bytes are there to receive, or the end of the stream.
absl::Status AwaitReadable(int socket, Deadline deadline, int cancel_fd = -1);

// Unix sockets only: the bytes (at least one) with copies of descriptors, at most 8.
absl::Status SendWithFds(int socket, absl::Span<const std::byte> bytes, absl::Span<const int> fds,
                         Deadline deadline, int cancel_fd = -1);
// Fills `out`, as ReceiveAll, and takes the descriptors sent with its first byte. kInvalidArgument
// unless they are exactly `num_fds`.
absl::StatusOr<std::vector<UniqueFd>> ReceiveWithFds(int socket, absl::Span<std::byte> out,
                                                     int num_fds, Deadline deadline,
                                                     int cancel_fd = -1);

}  // namespace everstep
