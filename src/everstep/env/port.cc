// env: ports, Linux form.
#include "everstep/env/port.h"

#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/resolve.h"

namespace everstep {
namespace {

absl::StatusOr<std::string> LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) == 0) {
    if (std::string host = NumericHost(address); !host.empty()) return host;
  }
  return absl::InternalError("a connected socket has no address of its own");
}

}  // namespace

absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count) {
  PortReservation reservation;
  const int size = last - first + 1;
  const int start = size > 0 ? static_cast<int>(RandomBits64() % size) : 0;
  for (int i = 0; i < size && static_cast<int>(reservation.ports_.size()) < count; ++i) {
    const int port = first + (start + i) % size;
    // An abstract socket of this name is the claim: it is seen by exactly those that share the
    // ports (one network namespace) and goes with its owner.
    absl::StatusOr<UniqueFd> claim = ListenAbstract(absl::StrCat("everstep-port-", port));
    if (!claim.ok() || !ListenTcp({"0.0.0.0", port}).ok()) continue;
    reservation.ports_.push_back(port);
    reservation.claims_.push_back(*std::move(claim));
  }
  if (static_cast<int>(reservation.ports_.size()) < count) {
    return absl::ResourceExhaustedError(absl::StrCat("only ", reservation.ports_.size(), " of ",
                                                     count, " ports in ", first, "-", last,
                                                     " are free; choose another --port-range"));
  }
  std::sort(reservation.ports_.begin(), reservation.ports_.end());
  return reservation;
}

absl::Status CheckPortFree(const HostPort& address) {
  const absl::Status status = ListenTcp(address).status();
  if (!absl::StrContains(status.message(), "in use")) return status;
  return absl::UnavailableError(
      absl::StrCat("port ", address.port, " on ", address.host, " is in use"));
}

absl::StatusOr<std::string> LocalAddressTowards(const HostPort& there, Deadline deadline) {
  // A server that is just starting refuses; so again until the deadline.
  while (true) {
    absl::StatusOr<UniqueFd> fd = DialTcp(there, deadline);
    if (fd.ok()) return LocalAddress(fd->get());
    if (RealClock().Now() + std::chrono::milliseconds(200) >= deadline) return fd.status();
    SleepFor(std::chrono::milliseconds(200));
  }
}

}  // namespace everstep
