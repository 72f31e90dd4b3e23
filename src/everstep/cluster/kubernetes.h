// cluster: the place of a pod of an Indexed Job of Kubernetes with a headless Service. Pure.
//
// Errors: kInvalidArgument with exit code 78, naming the variable and what to set.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/cluster/resolver_parts.h"

namespace everstep {

inline constexpr int kKubernetesPort = 2222;

// From JOB_COMPLETION_INDEX and EVERSTEP_CLUSTER_SIZE (the Job's completions, of which Kubernetes
// tells a pod nothing): worker i is <job>-<i>.<service>.<namespace>.svc:EVERSTEP_CLUSTER_PORT,
// where <job>-<index> is this host's name. Service and namespace are EVERSTEP_SERVICE ("train",
// "train.ns" or "train.ns.svc"), else from the pod's own line in /etc/hosts, which is there when
// its template has `subdomain`. The cluster's domain is left out: it is not cluster.local
// everywhere. Nothing when there is no index, or the size is 1. Errors: EV530 index, EV531 size,
// EV532 host name, EV533 service.
absl::StatusOr<std::optional<ToldPlace>> ReadIndexedJob(const EnvironmentReader& environment,
                                                        const std::string& host_name,
                                                        const std::string& hosts_file);

}  // namespace everstep
