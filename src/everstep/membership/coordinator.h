// membership: the coordinator of a job: a thin loop around Decide (decide.h) with a listener for
// workers and agents.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/job/journal.h"
#include "everstep/membership/decide.h"
#include "everstep/wire/credentials.h"

namespace everstep {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:29700";  // "host:port"; port 0: any free one
  Credentials credentials;
  JobOptions job;
  Duration tick = std::chrono::milliseconds(50);
  const Clock* clock = nullptr;  // null: the real one
  // Where records and the status go, and the lease to decide by; must outlive the coordinator.
  // Null: nowhere, records count as durable at once, and the lease is always held.
  Journal* journal = nullptr;
  // Agents may prove themselves with this as well, as processes started by hand do.
  std::optional<JobSecret> join_secret;
};

// While the lease is not held it decides nothing and tells nobody anything: what arrives waits.
// When another run has taken the job over, the job ends with 75 whether the lease is held or not.
class Coordinator {
 public:
  // Listens and begins to decide, in a thread of its own.
  // Errors: kInvalidArgument (as CheckJob, or not an address), kUnavailable (port in use),
  // kFailedPrecondition (beyond loopback without leave).
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(CoordinatorOptions options);
  virtual ~Coordinator() = default;  // goes away at once: agents and workers lose it

  virtual int port() const = 0;

  // The end of the job, once all agents have been told of it (or 2 s after it, for those that do
  // not take it). Nullopt when it has not come by `deadline`. Any thread.
  virtual std::optional<JobEnded> WaitForEnd(Deadline deadline) = 0;

  // As if an agent had asked for it. Any thread; never blocks.
  virtual void RequestStop(std::string reason) = 0;

  virtual std::string Status() const = 0;  // a line for people: what the job waits for or does
};

}  // namespace everstep
