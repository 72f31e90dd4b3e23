// membership: an agent's end of the control plane.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/membership/messages.h"
#include "everstep/wire/credentials.h"

namespace everstep {

// Any thread may send; one thread takes orders.
class AgentLink {
 public:
  virtual ~AgentLink() = default;

  // Queues a message; delivered in order, and again after a reconnect. Never blocks. A Register
  // replaces the one of the options.
  virtual void Send(AgentMessage message) = 0;

  // The next order, waiting until `deadline` (a deadline in the past polls). Nullopt: none came.
  // A Spawn comes once for an incarnation. JobEnded is the last order; after it the link stays
  // away.
  virtual std::optional<AgentOrder> Next(Deadline deadline) = 0;

  // From the next connection on it proves itself by this secret: who came by a join secret, and now
  // has the job's own, must not come to another job that has the same address one day.
  virtual void ProveBy(const JobSecret& secret) = 0;

  // How long the coordinator has been out of reach; zero while it is connected, and after JobEnded.
  virtual Duration AwayFor() const = 0;
};

struct AgentLinkOptions {
  std::string address;      // the coordinator's, "host:port"; looked up afresh at each attempt
  Credentials credentials;  // the job's secret, or the join secret of the user
  Register self;            // said first, at each connection
  Duration connect_timeout = std::chrono::seconds(10);  // for all attempts of ConnectAgent
  // Called from another thread when an order can be taken: to wake the agent's own loop. Must not
  // block or call the link. May be null.
  std::function<void()> on_arrival;
  const Clock* clock = nullptr;  // null: the real one
};

// Connects, trying again until connect_timeout, and registers. From then on the link reconnects by
// itself, registering and saying again what the agent had said.
// Errors, naming the address: kUnavailable or kDeadlineExceeded (not reached; the last reason),
// kPermissionDenied with exit code 78 (another job's coordinator, or another join secret), and as
// CheckAddress.
absl::StatusOr<std::unique_ptr<AgentLink>> ConnectAgent(AgentLinkOptions options);

}  // namespace everstep
