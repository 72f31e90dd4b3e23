// runtime: a program's way in.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "everstep/train/worker.h"

namespace everstep {

// Runs `train` as one worker of a job, or alone when nobody started it as one of several, and
// returns the exit code of the process: int main() { return everstep::RunWorker(...); } An error
// that `train` returns or throws is printed as one line. From here on SIGTERM and SIGINT mean:
// finish the step, write a checkpoint, leave.
//
// Started by hand as one of several (TF_CONFIG, EVERSTEP_COORDINATOR and others:
// cluster/resolver.h) it does not call `train` but runs this program again, as its child, which
// does; so call it before the program starts threads, and do nothing of weight before it.
int RunWorker(const std::function<absl::Status(Worker&)>& train);

}  // namespace everstep
