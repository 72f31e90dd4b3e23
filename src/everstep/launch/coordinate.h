// launch: being the coordinator of a job, for the process that does nothing else.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "everstep/launch/coordinator_child.h"

namespace everstep {

// Holds the job directory and decides the views of the job until its end; returns the job's exit
// code. `announce`: the descriptor on which to say how that goes (coordinator_child.h); negative:
// standard error hears errors and the end, and `listening` is called with the port. `read` is
// called first. While the process has a single thread.
int RunCoordinator(const std::function<absl::StatusOr<CoordinatorOrder>()>& read, int announce,
                   const std::function<void(const CoordinatorOrder&, int port)>& listening);

}  // namespace everstep
