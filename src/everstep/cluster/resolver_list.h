// cluster: the place of a process whose cluster is a list of addresses in variables. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/cluster/resolver_parts.h"
#include "everstep/env/interface.h"

namespace everstep {

// EVERSTEP_TASK; nothing when it is not set. EV505.
absl::StatusOr<std::optional<Task>> ReadClaimedTask(const EnvironmentReader& environment);

// EVERSTEP_CLUSTER_WORKERS=h1:p,h2:p and EVERSTEP_CLUSTER_CHIEF=h:p, of which this process is
// EVERSTEP_TASK, else the one whose host is an address or the name of this host. Nothing when
// neither is set. Errors: EV510 address, EV511 the same twice, EV505 task, EV512 none is this
// host's, EV513 several are.
absl::StatusOr<std::optional<ToldPlace>> ReadList(const EnvironmentReader& environment,
                                                  const std::string& host_name,
                                                  const std::vector<NetworkInterface>& interfaces);

}  // namespace everstep
