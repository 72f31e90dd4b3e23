// membership: a worker's end of the control plane, as the engine sees it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "everstep/base/clock.h"
#include "everstep/membership/messages.h"

namespace everstep {

// Send and Next: one thread. The heartbeat has a thread of its own behind this interface.
class ControlLink {
 public:
  virtual ~ControlLink() = default;

  // Queues a message; delivered in order, again after a reconnect where that is needed. Never
  // blocks.
  virtual void Send(WorkerMessage message) = 0;

  // The next order, waiting until `deadline` (a deadline in the past polls). Nullopt: none came.
  virtual std::optional<WorkerOrder> Next(Deadline deadline) = 0;

  // Called from another thread as soon as an order arrives that concerns a running round (Close,
  // Stop), before Next returns it: the callee decides whether to cut the round short. Null clears
  // it, and returns only when no call is running.
  virtual void OnInterrupt(std::function<void(const WorkerOrder&)> callback) = 0;

  // How long the coordinator has been out of reach; zero while it is connected.
  virtual Duration AwayFor() const = 0;
};

}  // namespace everstep
