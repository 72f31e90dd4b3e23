// runtime: the life of a process that somebody started by hand as one of several: it is the agent
// of one slot, whose program is itself.
#pragma once

#include "absl/status/status.h"
#include "everstep/cluster/resolver.h"

namespace everstep {

// The descriptors at which the program finds that it is to be the coordinator of a job: of what it
// is told, and of where it says how that goes (launch/coordinator_child.h).
inline constexpr char kCoordinateVariable[] = "EVERSTEP_COORDINATE_FD";
inline constexpr char kAnnounceVariable[] = "EVERSTEP_ANNOUNCE_FD";
// The number on which the child listens, where it is not that of its address in the cluster.
inline constexpr char kListenHostVariable[] = "EVERSTEP_LISTEN_HOST";

// kFailedPrecondition with exit code 78 when a program made with Everstep cannot be what `place`
// says, or not in that cluster: it has chief and workers only.
absl::Status CheckRole(const Place& place);

// Until the job has ended; the exit code of this process. `place` has a coordinator. Starts the
// coordinator where the place says so. While the process has a single thread.
int RunByHand(const Place& place);

// The other program that a child of it is: the coordinator.
int RunCoordinatorOfHand();

}  // namespace everstep
