// env: finding free TCP ports, and which of our addresses another host sees.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/env/descriptor.h"

namespace everstep {

// "host:port", or "[v6]:port". kInvalidArgument otherwise; `port` is 0-65535.
struct HostPort {
  std::string host;
  int port = 0;
  std::string ToString() const;  // brackets an IPv6 address
};
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

bool IsLoopback(const std::string& host);  // a name or number that stays on this machine

// Ports that were free and that no other holder of reservations on this host has, for as long as
// this lives. Programs that know nothing of it may still take one.
class PortReservation {
 public:
  const std::vector<int>& ports() const { return ports_; }

 private:
  friend absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count);
  std::vector<int> ports_;
  std::vector<Descriptor> claims_;
};

// `count` ports of [first, last], beginning at a random one. kResourceExhausted when there are not
// enough.
absl::StatusOr<PortReservation> ReservePorts(int first, int last, int count);

// OK when a listener could be bound to host:port now. kUnavailable "port 29700 on 127.0.0.1 is in
// use", kInvalidArgument when the host is none of ours.
absl::Status CheckPortFree(const std::string& host, int port);

// The address from which this host reaches host:port, by connecting to it: also the proof that
// something listens there. kUnavailable, naming both and the reason, when it does not answer until
// `deadline`.
absl::StatusOr<std::string> LocalAddressTowards(const HostPort& there, Deadline deadline);

}  // namespace everstep
