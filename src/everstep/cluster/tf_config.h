// cluster: TF_CONFIG, the variable that tells a TensorFlow process its cluster and its place in it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/task.h"
#include "everstep/cluster/finding.h"

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

// The chief and the workers of `cluster` alone, in the same form, without a task: equal texts are
// equal clusters of trainers.
std::string WriteCluster(const ClusterSpec& cluster);

// What the cluster is for, as far as somebody has said so; each has rules of its own.
enum class StrategyKind { kUnknown, kMultiWorkerMirrored, kParameterServer };

struct ExamineOptions {
  StrategyKind strategy = StrategyKind::kUnknown;
  // For the proxies and their exceptions; null: nothing is said of them.
  std::function<std::optional<std::string>(const std::string&)> environment;
};

struct TfConfigReport {
  std::optional<TfConfig> config;  // not there: the variable is not set, or there are errors
  std::vector<Finding> findings;   // errors and warnings, in the order of their places

  bool ok() const;  // no errors
};

// What TensorFlow would understand of `value` (nullopt: the variable is not set, no finding), and
// all that is wrong or doubtful. Where TensorFlow would fail later and elsewhere, or hang, this is
// an error now. Where TensorFlow takes what nobody can have meant (an index of 1.9) this refuses.
TfConfigReport ExamineTfConfig(const std::optional<std::string>& value,
                               const ExamineOptions& options = {});

// The same for a program: kInvalidArgument with the first error as its message, with exit code 78.
absl::StatusOr<std::optional<TfConfig>> ReadTfConfig(const std::optional<std::string>& value);

}  // namespace everstep
