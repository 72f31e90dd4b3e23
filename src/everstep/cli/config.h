// cli: `everstep config show` and `check`: what the surroundings say of this process's place, and
// what is wrong with it. Made by config_make.h.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/cli/config_text.h"
#include "everstep/cluster/resolver.h"
#include "everstep/cluster/tf_config.h"

namespace everstep {

absl::StatusOr<StrategyKind> ReadStrategy(const std::string& written);  // "", "mwms", "ps"

struct ShowOptions {
  StrategyKind strategy = StrategyKind::kUnknown;
  bool json = false;
  bool strict = false;  // check: a warning is an error
};

// What TensorFlow's multi_worker_util says of a place.
struct PlaceFacts {
  std::string chief;  // "chief:0" or "worker:0"; of an evaluator, itself; empty: nobody
  bool is_chief = false;
  int rank = -1;  // among the trainers, chief first; an evaluator's own index; -1: has none
  int num_trainers = 0;
};
PlaceFacts FactsOf(const TfConfig& config);

// "2 errors, 1 warning", or that nothing is wrong.
std::string Summary(const std::vector<Finding>& findings);

// `text`: null where the variable is not set. `name`: of the file, or "TF_CONFIG". The status is
// that of the command: 78 when there are errors.
absl::Status CheckConfig(const ConfigText* text, const std::string& name,
                         const ShowOptions& options, const Surroundings& surroundings,
                         std::ostream& out);

absl::Status ShowConfig(const ShowOptions& options, const Surroundings& surroundings,
                        std::ostream& out);

}  // namespace everstep
