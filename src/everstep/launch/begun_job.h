// launch: a job that this process begins: its directory made or gone on with, its coordinator
// started.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/job/directory.h"
#include "everstep/launch/coordinator_child.h"
#include "everstep/trust/secret.h"

namespace everstep {

// The job's directory, and its coordinator, which has it now.
struct BegunJob {
  JobDirectory directory;
  CoordinatorChild coordinator;
  JobSecret secret;
};

// `resumed`: the job that goes on; else `made` becomes one. `command`: of the coordinator, for the
// job directory. On an error nothing is left of it. As StartCoordinator.
absl::StatusOr<BegunJob> BeginJob(
    const CoordinatorPlan& plan,
    const std::function<CoordinatorCommand(const std::string& job)>& command,
    const std::optional<JobDirectory>& resumed, const NewJob& made, SignalQueue* signals);

// After this host's part is over: `part` is not OK when it has not even begun. `told`: the
// coordinator has ended the job, and goes by itself. Leaves no process of it.
void EndJob(BegunJob* job, const absl::Status& part, bool told);

}  // namespace everstep
