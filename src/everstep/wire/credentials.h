// wire: what a control-plane end shows and demands.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "everstep/trust/secret.h"

namespace everstep {

struct Credentials {
  // Both ends prove that they hold it before anything else is said. The job's, or an agent's join
  // secret.
  JobSecret secret;
  // Allows addresses beyond loopback although what is said there could be read and changed by
  // others on the network.
  bool insecure = false;
};

// Whether `address` ("host:port") is of this host only: 127.x.x.x, ::1 in brackets or localhost.
bool IsLoopback(std::string_view address);

// kInvalidArgument when `address` is not "host:port"; kFailedPrecondition, with the cure, when it
// is beyond loopback and `credentials` do not allow that.
absl::Status CheckAddress(std::string_view address, const Credentials& credentials);

}  // namespace everstep
