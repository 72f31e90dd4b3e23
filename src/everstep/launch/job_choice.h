// launch: which job it is about: a new one, or one that goes on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/job/directory.h"

namespace everstep {

struct JobChoice {
  JobSpec spec;
  std::vector<std::string> program;
  std::optional<JobDirectory> resumed;  // not there: a new job is to be made
};

// `resume`: what --resume says, empty without it. `program` may be empty with it. Changes nothing.
absl::StatusOr<JobChoice> ChooseJob(const std::string& resume,
                                    const std::map<std::string, std::string>& flags,
                                    const std::vector<std::string>& program);

// "the job DIR is done already: 2350 steps, 2026-11-30T19:50:00.000Z".
std::string FinishedNote(const JobDirectory& job);

}  // namespace everstep
