// cluster: which of this host's addresses others are to use, chosen as NCCL_SOCKET_IFNAME is
// written. Pure functions.
//
// Errors: kInvalidArgument with exit code 78, naming the variable, what there is and the cure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/cluster/resolver_parts.h"
#include "everstep/env/interface.h"

namespace everstep {

// "eth,ib0": interfaces whose names begin so. A leading '=' ("=eth0,eth1"): those names exactly. A
// leading '^' ("^docker,lo", "^=eth0"): all others. Both stand once, first, and mean the whole
// list, as for NCCL.
class InterfacePattern {
 public:
  // EV540, naming the variable `where`.
  static absl::StatusOr<InterfacePattern> Parse(std::string_view text, std::string_view where);

  bool Matches(std::string_view name) const;
  bool excludes() const { return excludes_; }

 private:
  std::vector<std::string> names_;
  bool excludes_ = false;
  bool exact_ = false;
};

struct ChosenAddress {
  std::string interface;  // "eth0"
  std::string address;    // "10.0.0.2", "fd00::2"
};

// By EVERSTEP_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME; of the family that EVERSTEP_SOCKET_FAMILY,
// else NCCL_SOCKET_FAMILY says (AF_INET or AF_INET6; neither: IPv4 before IPv6). Of what matches
// the first in the kernel's order, but docker's bridges and then the loopback only when there is
// nothing else, and an address that nobody assigned (169.254.) after the others. Never an interface
// that is down, nor an IPv6 address of its link alone (fe80::), which other hosts cannot use as it
// is written here. Nothing when no pattern is set: then the address from which the coordinator is
// reached is the right one. EV541: none matches; EV542: no such family.
absl::StatusOr<std::optional<ChosenAddress>> ChooseAddress(
    const EnvironmentReader& environment, const std::vector<NetworkInterface>& interfaces);

}  // namespace everstep
