// runtime: RunWorker.
#include "everstep/runtime/run_worker.h"

#include <errno.h>

#include <cstdio>
#include <exception>
#include <string>

#include "everstep/base/exit_code.h"
#include "everstep/runtime/worker_process.h"

namespace everstep {

int RunWorker(const std::function<absl::Status(Worker&)>& train) {
  auto worker = WorkerProcess::FromEnvironment();
  if (!worker.ok()) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name,
                 std::string(worker.status().message()).c_str());
    return ExitCodeFor(worker.status());
  }
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

}  // namespace everstep
