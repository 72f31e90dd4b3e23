// launch: the coordinator as a child process of whoever begins a job, and what the two say to each
// other.
//
// The child hears on one pipe what it is to coordinate, and says lines on another:
//   wait SECONDS TEXT   another run holds the job directory; it waits, at most so long
//   CODE KIND TEXT      it cannot; an exit code and an absl::StatusCode
//   PORT                it listens
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"

namespace everstep {

struct CoordinatorPlan {
  HostPort listen;        // port 0: any
  bool any_port = false;  // will do, as only this host needs to know it
  std::string dial_host;  // of the coordinator, for everyone
  // When those who start the processes by hand fixed the trainers' cluster: its canonical text, and
  // how many of them are chiefs.
  std::string cluster = "";
  int chiefs = 0;
};

// The program that becomes the coordinator, and its environment. It finds its ends of the two pipes
// at these descriptors.
struct CoordinatorCommand {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
};
inline constexpr int kAnnounceFd = 3;
inline constexpr int kRunFd = 4;

struct CoordinatorChild {
  Process process;
  std::string address;  // "host:port"
};

// Waits until it listens; then it holds the newest term of `job`, and its secret is in the file. A
// signal of `signals` ends the waiting with kCancelled. On the thread that lives as long as the
// process.
absl::StatusOr<CoordinatorChild> StartCoordinator(const CoordinatorPlan& plan,
                                                  const CoordinatorCommand& command,
                                                  const JobDirectory& job, SignalQueue* signals);

// --- for the child ---

struct CoordinatorOrder {
  JobDirectory job;
  std::string listen;  // "host:port"
  std::string cluster = "";
  int chiefs = 0;
};

// Reads and closes the descriptor.
absl::StatusOr<CoordinatorOrder> ReadOrder(int fd);

// A negative `fd`: nobody listens.
void SayWaiting(int fd, const std::string& text, Duration at_most);
void SayFailed(int fd, const absl::Status& status);
void SayListening(int fd, int port);

}  // namespace everstep
