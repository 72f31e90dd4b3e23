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

// TensorFlow's servers listen on it, whatever their address in the cluster is.
constexpr char kAnyAddress[] = "0.0.0.0";

absl::StatusOr<std::string> LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) == 0) {
    if (std::string host = NumericHost(address); !host.empty()) return host;
  }
  return absl::InternalError("a connected socket has no address of its own");
}

}  // namespace

bool PortReservation::Take() {
  const int size = last_ - first_ + 1;
  const int start = size > 0 ? static_cast<int>(RandomBits64() % size) : 0;
  for (int i = 0; i < size; ++i) {
    const int port = first_ + (start + i) % size;
    // An abstract socket of this name is the claim: it is seen by exactly those that share the
    // ports (one network namespace) and goes with its owner.
    absl::StatusOr<UniqueFd> claim = ListenAbstract(absl::StrCat("everstep-port-", port));
    if (!claim.ok() || !ListenTcp({kAnyAddress, port}).ok()) continue;
    ports_.push_back(port);
    claims_.push_back(*std::move(claim));
    return true;
  }
  return false;
}

bool PortReservation::ReplaceBusy(const std::set<int>& in_use) {
  bool replaced = false;
  for (size_t i = 0; i < ports_.size(); ++i) {
    if (in_use.count(ports_[i]) != 0 || ListenTcp({kAnyAddress, ports_[i]}).ok()) continue;
    if (!Take()) return replaced;
    ports_[i] = ports_.back();
    claims_[i] = std::move(claims_.back());
    ports_.pop_back();
    claims_.pop_back();
    replaced = true;
  }
  return replaced;
}

absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count) {
  PortReservation reservation;
  reservation.first_ = first;
  reservation.last_ = last;
  while (static_cast<int>(reservation.ports_.size()) < count && reservation.Take()) {
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
