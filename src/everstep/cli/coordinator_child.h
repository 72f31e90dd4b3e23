// cli: the coordinator as a child process of `everstep run`, and what the two say to each other.
//
// The child hears the run, as JSON, on one pipe, and says lines on another:
//   wait SECONDS TEXT   another run holds the job directory; it waits, at most so long
//   CODE KIND TEXT      it cannot; an exit code and an absl::StatusCode
//   PORT                it listens
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"

namespace everstep {

struct CoordinatorPlan {
  HostPort listen;        // port 0: any
  bool any_port = false;  // will do, as only this host needs to know it
  std::string dial_host;  // of the coordinator, for everyone
};

struct CoordinatorChild {
  Process process;
  std::string address;  // "host:port"
};

// Waits until it listens; then it holds the newest term of `job`, and its secret is in the file. A
// signal of `signals` ends the waiting with kCancelled. On the thread that lives as long as the
// process.
absl::StatusOr<CoordinatorChild> StartCoordinator(const CoordinatorPlan& plan,
                                                  const JobDirectory& job, SignalQueue* signals);

// For the child. A negative `fd`: nobody listens.
void SayWaiting(int fd, const std::string& text, Duration at_most);
void SayFailed(int fd, const absl::Status& status);
void SayListening(int fd, int port);

}  // namespace everstep
