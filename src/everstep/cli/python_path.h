// cli: where everstep_heartbeat.py lies, for programs that want to be seen from inside.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "everstep/env/file.h"
#include "everstep/job/spec.h"

namespace everstep {

// The directory: beside the installed command `program`, or in the tree of its build; where it is
// in neither, as the command may be one file that was copied somewhere, the one that this writes:
// $XDG_CACHE_HOME/everstep/python-VERSION, ~/.cache where that is not set. kFailedPrecondition with
// exit code 78 when there is no such place.
absl::StatusOr<std::string> HeartbeatDirectory(FileSystem& fs, const std::string& program,
                                               const Environment& environment);

}  // namespace everstep
