// cli: what `everstep config make` makes: each task's TF_CONFIG of a cluster that is given as lists
// of addresses.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/task.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/file.h"

namespace everstep {

struct ConfigRequest {
  // As written: "h1:2222,h2:2222".
  std::string workers, ps, chief, evaluator;
  int port = 2222;  // of addresses that have none
  // kUnknown: with a ps that of parameter servers, else several workers'.
  StrategyKind strategy = StrategyKind::kUnknown;
  std::function<std::optional<std::string>(const std::string&)> environment;  // see ExamineOptions
};

struct MadeConfig {
  Task task;
  std::string text;  // its TF_CONFIG
};

struct MadeConfigs {
  std::vector<MadeConfig> tasks;  // chief, workers, ps, evaluator
  std::vector<Finding> findings;  // each once, though it holds for every task; without lines

  bool ok() const;  // no errors
};

// The evaluator is in no cluster but its own. Lists that are none are a usage error; all else that
// is wrong with the cluster is among the findings.
absl::StatusOr<MadeConfigs> MakeConfigs(const ConfigRequest& request);

// "TF_CONFIG='...'", as a shell reads it.
std::string AsVariable(const std::string& text);

// One file per task in `directory`, "worker-0.json" or, as variables, "worker-0.env", each there
// whole or not at all; their paths. A file that is there with other contents is refused (78) before
// any is written, unless `force`. `strays`: files of this kind that are of none of the tasks.
absl::StatusOr<std::vector<std::string>> WriteConfigs(FileSystem& fs,
                                                      const std::vector<MadeConfig>& tasks,
                                                      const std::string& directory,
                                                      bool as_variables, bool force,
                                                      std::vector<std::string>* strays);

// What users of other launchers mean by an option that `config make` has not; empty: unknown.
std::string ConfigMakeHint(const std::string& option);

}  // namespace everstep
