// launch: waiting for a coordinator that somebody else starts at about the same time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"

namespace everstep {

struct AwaitedCoordinator {
  HostPort address;
  std::string who;  // starts it: "the process of worker:0"; empty: not known
  Duration at_most{};
  std::optional<TimePoint> since = {};          // when the waiting began; not there: now
  std::function<void(const std::string&)> say;  // a line, every few seconds
  Duration say_every = std::chrono::seconds(5);
};

// Until something listens there; gives the address from which this host reaches it. kCancelled as
// soon as one of `signals` but SIGCHLD comes; with exit code 75, and the last reason: too late.
absl::StatusOr<std::string> AwaitCoordinator(const AwaitedCoordinator& awaited,
                                             SignalQueue* signals);

}  // namespace everstep
