// cluster: what follows from a task's place, as TensorFlow's multi_worker_util has it.
#pragma once

#include <optional>

#include "everstep/cluster/tf_config.h"

namespace everstep {

struct TfConfigRoles {
  bool is_chief = true;     // saves, and says how it goes; an evaluator is its own
  std::optional<int> rank;  // chief, then workers; of an evaluator its index; a ps has none
  int count = 1;            // of those who have ranks with it
  std::optional<Task> collective_leader;    // none: alone, or an evaluator
  std::optional<Task> coordination_leader;  // where the others report at their start
};

// `config` is one that has no errors.
TfConfigRoles RolesOf(const TfConfig& config);

}  // namespace everstep
