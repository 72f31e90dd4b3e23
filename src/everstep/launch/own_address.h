// launch: whether the address that a cluster has for this process is one of this host, and which
// one to listen on.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/base/task.h"
#include "everstep/env/interface.h"

namespace everstep {

// What the cluster's word for this process's host amounts to.
struct OwnHost {
  std::string source;                // who says so: "TF_CONFIG"
  Task task;                         // of this process
  std::string address;               // of the task, "host:port"
  std::vector<std::string> numbers;  // that the host's name was looked up to, best first
  bool shared = false;               // all tasks of the cluster are on this host
};

// The number to listen on. An error with exit code 78, saying what to set: none of them is of this
// host, as with a wrong index; or only this host can reach it, and others will have to.
absl::StatusOr<std::string> ListenAddress(const OwnHost& own,
                                          const std::vector<NetworkInterface>& interfaces);

// The host's numbers, trying again until the deadline, as a name may be younger than its host.
// Exit code 75 when they cannot be had. A readable `cancel_fd` ends it with kAborted.
absl::StatusOr<std::vector<std::string>> LookUp(const std::string& host, Deadline deadline,
                                                int cancel_fd);

}  // namespace everstep
