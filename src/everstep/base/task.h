// base: Task, a named place in a cluster as in TF_CONFIG, and ClusterSpec, all of them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace everstep {

struct Task {
  std::string type = "worker";  // chief, worker, ps or evaluator
  int index = 0;

  std::string ToString() const;  // "worker:0"
  // Parses "worker:0". kInvalidArgument for anything else.
  static absl::StatusOr<Task> Parse(std::string_view text);

  friend bool operator==(const Task& a, const Task& b) {
    return a.type == b.type && a.index == b.index;
  }
  friend bool operator<(const Task& a, const Task& b) {
    return a.type != b.type ? a.type < b.type : a.index < b.index;
  }
};

// Task type to the addresses ("host:port") of its tasks, dense from index 0.
struct ClusterSpec {
  std::map<std::string, std::vector<std::string>> jobs;

  int NumTasks(std::string_view type) const;  // 0 for an unknown type
  // The address of `task`. kNotFound, naming what exists, when there is no such task.
  absl::StatusOr<std::string> Address(const Task& task) const;
};

}  // namespace everstep
