// cluster: TF_CONFIG, the variable that tells a TensorFlow process its cluster and its place in it.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/task.h"

namespace everstep {

struct TfConfig {
  ClusterSpec cluster;       // empty: a process alone
  std::optional<Task> task;  // always there when the cluster is not empty

  // Of workers and chief, who train together: chief first, then the workers.
  int NumTrainers() const;
};

// The JSON as TensorFlow reads it, always the same text for the same values: no spaces, job names
// sorted, lists dense, the index a number. Addresses must have their IPv6 brackets already.
std::string WriteTfConfig(const ClusterSpec& cluster, const Task& task);

// What TensorFlow would understand of `value` (nullopt: the variable is not set, and so is the
// result). Where TensorFlow would fail later and elsewhere this fails now: kInvalidArgument, naming
// TF_CONFIG, the place in it, and what would do. An empty value is an error, as in TensorFlow.
absl::StatusOr<std::optional<TfConfig>> ReadTfConfig(const std::optional<std::string>& value);

}  // namespace everstep
