// cli: `everstep run --dry-run`: what would be started, as lines that a shell takes.
#pragma once

#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "everstep/cli/run_plan.h"
#include "everstep/membership/messages.h"

namespace everstep {

// The tasks of the job, as its coordinator would order them: chief, workers, ps, evaluator. The
// first `slots` are on `host`, with these ports; those of others are on "OTHER-HOST".
std::vector<Spawn> DrySpawns(const JobSpec& spec, const std::string& host, int slots,
                             const std::vector<int>& ports);

// For each task of this host the variables that it would have besides those of this process, and
// its command. Ports are free ones, as each start chooses them anew. Nothing is made or started.
absl::Status PrintDryRun(const RunPlan& plan, std::ostream& out);

}  // namespace everstep
