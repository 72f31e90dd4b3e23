// base: the exit codes of every program of ours, and how a Status becomes one.
#pragma once

#include "absl/status/status.h"

namespace everstep {

enum ExitCode : int {
  kExitDone = 0,       // the whole job is done
  kExitUsage = 2,      // unknown option, wrong argument
  kExitBadData = 65,   // input or checkpoint bytes are damaged or missing
  kExitOurFault = 70,  // a bug or a broken promise of ours
  kExitNotNow = 75,    // could not start now: port, directory in use, members missing; try again
  kExitConfiguration = 78,  // the job as described cannot run; change it
  kExitToldToLeave = 143,   // ended on request (SIGTERM); run me again
};

// Makes `status` end the process with `code` whatever its canonical code says (a Status payload).
absl::Status WithExitCode(absl::Status status, int code);

// The code set by WithExitCode, else by canonical code: OK 0, kInvalidArgument and
// kFailedPrecondition 78, kNotFound and kDataLoss 65, kUnavailable, kDeadlineExceeded,
// kResourceExhausted and kAborted 75, kCancelled 143, the rest 70.
int ExitCodeFor(const absl::Status& status);

}  // namespace everstep
