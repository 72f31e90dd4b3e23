// job: how a run of a job ended, as outcome.json in its directory says: a job that is done need not
// run again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/step.h"
#include "everstep/env/file.h"

namespace everstep {

struct JobOutcome {
  int code = 0;                      // exit code of the job; 0: done
  std::string reason;                // empty when it is done
  Step step = 0;                     // reached
  std::vector<std::string> program;  // that ran, and its arguments
  std::string time;                  // UTC; filled in by whoever writes the file
};

std::string ToOutcomeJson(const JobOutcome& outcome);
// kDataLoss, naming `path`: not such a file.
absl::StatusOr<JobOutcome> FromOutcomeJson(std::string_view text, const std::string& path);

// Of the job directory's last run; nothing when that has not ended, or never ran.
absl::StatusOr<std::optional<JobOutcome>> ReadOutcome(FileSystem& fs, const std::string& job);

}  // namespace everstep
