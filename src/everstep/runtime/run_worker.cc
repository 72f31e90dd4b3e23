// runtime: RunWorker.
#include "everstep/runtime/run_worker.h"

#include <errno.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cluster/resolver.h"
#include "everstep/env/environment.h"
#include "everstep/runtime/by_hand.h"
#include "everstep/runtime/worker_process.h"

namespace everstep {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name,
               std::string(status.message()).c_str());
  return ExitCodeFor(status);
}

int Train(absl::StatusOr<std::unique_ptr<WorkerProcess>> worker,
          const std::function<absl::Status(Worker&)>& train) {
  if (!worker.ok()) return Fail(worker.status());
  if ((*worker)->IsDone()) {
    std::fprintf(stderr, "everstep: the job is done already\n");
    return kExitDone;
  }
  absl::Status outcome;
  try {  // the program's own code; none of ours throws
    outcome = train(**worker);
  } catch (const std::exception& e) {
    // Its own failure, not ours: the code that a shell gives to programs that just failed.
    outcome = WithExitCode(absl::InternalError(std::string("the program threw: ") + e.what()), 1);
  }
  return (*worker)->Finish(outcome);
}

}  // namespace

int RunWorker(const std::function<absl::Status(Worker&)>& train) {
  if (GetEnvironment(kCoordinateVariable).has_value()) return RunCoordinatorOfHand();
  if (GetEnvironment("EVERSTEP_INCARNATION").has_value()) {
    return Train(WorkerProcess::OfAgent(), train);
  }
  const absl::StatusOr<Place> place = ResolvePlace(RealSurroundings());
  if (!place.ok()) return Fail(place.status());
  if (!place->coordinator.empty()) return RunByHand(*place);
  return Train(WorkerProcess::Alone(*place), train);
}

}  // namespace everstep
