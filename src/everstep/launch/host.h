// launch: being the agent of this host, at a terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/base/task.h"
#include "everstep/env/file.h"
#include "everstep/env/process.h"
#include "everstep/job/spec.h"
#include "everstep/observe/console.h"
#include "everstep/supervise/agent.h"
#include "everstep/supervise/guardian.h"
#include "everstep/wire/credentials.h"

namespace everstep {

// The task that the one slot of this host is for.
struct HostClaim {
  Task task;
  std::string cluster = "";  // of the trainers, as WriteCluster gives it; empty: not known
  int port = 0;              // of the task in the cluster; 0: a free one
};

struct HostOptions {
  std::vector<std::string> program;
  Credentials credentials;
  std::string coordinator = "";  // "host:port", as this host and its processes reach it
  std::string secret_file = "";
  std::string job_directory = "";  // as this host sees it; may be empty
  std::string address = "";        // where other hosts reach this one
  int slots = 1;
  PortRange port_range = {};
  Duration grace{};
  Duration connect_timeout = std::chrono::seconds(10);
  Duration join_deadline = std::chrono::seconds(60);  // for a coordinator that is lost meanwhile
  std::optional<HostClaim> claim = {};
  // The program was started by hand, and this process is in its place: it prints what its one task
  // prints as if it were that, its task is this process's own program once more, and the bar of
  // progress only where the task is the first trainer.
  bool in_its_place = false;
  Process* coordinator_process = nullptr;  // where this host runs it
};

// Whether the program can be started at all: kNotFound or kPermissionDenied with exit code 78.
absl::Status CheckProgram(const std::vector<std::string>& program);

// Connects and stays until the job has ended here. An error: it has not begun here. On the thread
// that lives as long as the process.
absl::StatusOr<AgentResult> BeAgent(const HostOptions& options, const GuardedProcess& self,
                                    Console* console);

// Whose log tells why the job ended, as a line, and where it is: the task's that the reason names,
// else the first that failed here. Empty when there is none to tell of. `job_directory` may be
// empty.
std::string LogNote(const AgentResult& result, const std::string& job_directory, FileSystem& fs);

// Where the stacks are that were taken before the newest run ended because of a hang, as a line;
// empty: there are none. `job_directory` may be empty.
std::string StacksNote(const std::string& job_directory, FileSystem& fs);

// How it went, for people, and where to look. `job_directory` may be empty.
void SayOutcome(const AgentResult& result, const std::string& job_directory, Duration took,
                Console* console);

}  // namespace everstep
