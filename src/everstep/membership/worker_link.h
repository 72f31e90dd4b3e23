// membership: a worker's end of the control plane over the network.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/membership/control.h"
#include "everstep/metrics/phase.h"
#include "everstep/wire/credentials.h"

namespace everstep {

struct WorkerLinkOptions {
  std::string address;      // the coordinator's, "host:port"; looked up afresh at each attempt
  Credentials credentials;  // the job's secret
  Duration connect_timeout = std::chrono::seconds(10);  // for all attempts of ConnectWorker
  Duration beat_interval = std::chrono::milliseconds(250);
  // What beats say. Called from the link's thread until it is destroyed; all but the clock may be
  // null. `phases` must outlive the link.
  const PhaseBoard* phases = nullptr;
  std::function<std::vector<int>()> waits;  // ranks the communicator waits for
  std::function<Scalars()> scalars;
  const Clock* clock = nullptr;  // null: the real one
};

// Connects, trying again until connect_timeout, and returns when both ends have proved that they
// hold the secret. From then on the link reconnects by itself; after a reconnect it says Hello
// again with the view and step it has come to, and whatever it had said since that view began.
// Orders that it has handed out already are not handed out twice; orders of a term below the
// highest seen are dropped.
// Errors, naming the address: kUnavailable or kDeadlineExceeded (not reached; the last reason),
// kPermissionDenied with exit code 78 (another secret), and as CheckAddress.
absl::StatusOr<std::unique_ptr<ControlLink>> ConnectWorker(WorkerLinkOptions options);

}  // namespace everstep
