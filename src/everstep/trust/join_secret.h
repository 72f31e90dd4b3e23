// trust: the join secret of a user: what processes that somebody starts by hand show the
// coordinator of a job whose own secret they cannot have yet. It is the same for all jobs of the
// user, on all hosts that share the file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/trust/secret.h"

namespace everstep {

// The file: EVERSTEP_JOIN_SECRET_FILE, else .everstep/join-secret in HOME; empty when neither is
// set. `environment`: what GetEnvironment is.
std::string JoinSecretPath(
    const std::function<std::optional<std::string>(const std::string&)>& environment);

// Reads it; makes it (mode 0600, in a directory of mode 0700, by exclusive create, whole or not at
// all) when it is the default one and not there; any number of processes may do that at once and
// all get the same. kFailedPrecondition with exit code 78, naming the file and the cure: it belongs
// to somebody else, others can read it, it holds no secret, it cannot be made, or there is no path.
absl::StatusOr<JobSecret> ReadJoinSecret(
    const std::function<std::optional<std::string>(const std::string&)>& environment);

}  // namespace everstep
