// cluster: Slurm's texts (compressed host lists, tasks per node), and the place of a process that
// srun started. Pure functions.
//
// Errors: kInvalidArgument with exit code 78, naming the variable, the place in it and the cure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/cluster/resolver_parts.h"

namespace everstep {

inline constexpr size_t kMaxSlurmHosts = 100000;
inline constexpr size_t kMaxSlurmText = size_t{64} << 10;
inline constexpr size_t kMaxHostName = 253;
inline constexpr int kSlurmPortBase = 29710;

// "n[01-03,07],login,rack[1-2]n[1-2]" is n01 n02 n03 n07 login rack1n1 rack1n2 rack2n1 rack2n2: in
// the list's own order, equal names kept, as `scontrol show hostnames` prints them. Beyond what
// Slurm 22 takes, a name may go on after its last bracket ("n[1-2]-ib"). What it takes and nobody
// can have meant is refused: brackets that do not close, "n[1-]", a list of no host. EV520.
absl::StatusOr<std::vector<std::string>> ExpandSlurmHosts(std::string_view text,
                                                          std::string_view where);

// "2(x3),1" is 2 2 2 1. EV521.
absl::StatusOr<std::vector<int>> ExpandSlurmTasksPerNode(std::string_view text,
                                                         std::string_view where);

// The step's tasks as workers in the order of their ranks, each at its node's name and
// EVERSTEP_SLURM_PORT_BASE (default 29710) + its number on its node. Nothing when this is no step
// of several tasks. Ranks are taken to lie block-wise, as srun puts them by default; where this
// process's own node or number says otherwise, the error asks for `srun -m block` (EV524).
absl::StatusOr<std::optional<ToldPlace>> ReadSlurmStep(const EnvironmentReader& environment);

}  // namespace everstep
