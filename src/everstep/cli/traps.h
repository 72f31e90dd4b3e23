// cli: what is known to go wrong with programs that Everstep did not make, told before they start.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "everstep/cli/python_script.h"
#include "everstep/env/file.h"
#include "everstep/job/spec.h"

namespace everstep {

struct TrapContext {
  const JobSpec& spec;
  const std::vector<std::string>& program;
  Environment environment;
  FileSystem& fs;
  // LookAtPackages; asked only when the answer matters.
  std::function<std::optional<PythonPackages>(const std::string& interpreter)> look;
};

// A line each, of what to set or change: Keras 3 under MultiWorkerMirroredStrategy, a TF_CONFIG
// that disagrees, proxies, a script that saves nothing. Only what is likely: a text that says
// nothing is no trap.
std::vector<std::string> FindTraps(const TrapContext& context);

// Whether --gpus-per-task can be had by `tasks` tasks of this host: of CUDA_VISIBLE_DEVICES where
// it is set, else of the `present` ones. kFailedPrecondition, saying how many there are (exit code
// 78).
absl::Status CheckGpus(const JobSpec& spec, int tasks, const Environment& environment, int present);

}  // namespace everstep
