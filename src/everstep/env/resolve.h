// env: from a host's name to its addresses, and back to text. By c-ares, which reads /etc/hosts and
// /etc/resolv.conf itself, as gRPC does: no plug-ins of the C library (NSS) that a static program
// could not load, and no look-up that outlasts its deadline. Any thread.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"

namespace everstep {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

// The addresses of `host` (a name, or a number as "10.0.0.1", "::1", "fe80::1%eth0"), best first,
// never none, each with `port`. localhost is this host, whatever files and servers say.
// kUnavailable when there is no such host or no server answers, kDeadlineExceeded, kAborted once
// `cancel_fd` is readable. Numbers never wait.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host, int port,
                                                   Deadline deadline, int cancel_fd = -1);

// "10.0.0.1", "::1", "fe80::1%eth0"; empty for an address of another family.
std::string NumericHost(const SocketAddress& address);

}  // namespace everstep
