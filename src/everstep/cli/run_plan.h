// cli: what `everstep run` is about to do: its options read and checked. Nothing is made or
// started.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/job/directory.h"
#include "everstep/job/spec.h"
#include "everstep/launch/coordinator_child.h"
#include "everstep/observe/start_block.h"

namespace everstep {

struct RunArguments {
  std::map<std::string, std::string> flags;  // of the job, by option name
  std::string slots, listen, address, resume;
  bool dry_run = false;
};

struct RunPlan : CoordinatorPlan {
  JobSpec spec;
  std::vector<std::string> program;
  std::optional<JobDirectory> resumed;  // when it has finished, the rest below is not filled in
  int slots = 1;
  std::string moved_to;  // this process, to where the program was named; empty: it was there
  std::vector<std::string> notes;  // for the start block
};

// May change the working directory of this process: see `moved_to`.
absl::StatusOr<RunPlan> MakePlan(const RunArguments& arguments,
                                 const std::vector<std::string>& program);

// What the start block says; `coordinator`: "host:port".
StartFacts FactsOf(const RunPlan& plan, const JobDirectory& job, const std::string& coordinator);

}  // namespace everstep
