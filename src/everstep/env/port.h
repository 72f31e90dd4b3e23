// env: finding free TCP ports, and which of our addresses another host sees.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/env/fd.h"
#include "everstep/env/socket.h"

namespace everstep {

// Ports that were free and that no other holder of reservations on this host has, for as long as
// this lives. Programs that know nothing of it may still take one.
class PortReservation {
 public:
  const std::vector<int>& ports() const { return ports_; }

  // Gives up those that something listens on now, other than `in_use`, and puts others of the range
  // in their places; one without a substitute stays. True when any was replaced.
  bool ReplaceBusy(const std::set<int>& in_use);

 private:
  friend absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count);
  bool Take();  // one more

  int first_ = 0, last_ = 0;
  std::vector<int> ports_;
  std::vector<UniqueFd> claims_;  // one for each
};

// `count` ports of [first, last], beginning at a random one. kResourceExhausted when there are not
// enough.
absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count);

// OK when a listener could be bound to the address now; else as ListenTcp, kUnavailable with "port
// 29700 on 127.0.0.1 is in use" when it is.
absl::Status CheckPortFree(const HostPort& address);

// The address from which this host reaches `there`, by connecting to it: also the proof that
// something listens there. Tries again until `deadline`. Errors name the address and the reason.
absl::StatusOr<std::string> LocalAddressTowards(const HostPort& there, Deadline deadline);

}  // namespace everstep
