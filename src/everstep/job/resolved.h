// job: resolved.json, what a job was made with; and run.json of the same form, what its newest run
// was started with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/job/spec.h"

namespace everstep {

struct ResolvedJob {
  JobSpec spec;
  std::vector<std::string> program;  // and its arguments
  std::string version;               // of Everstep
  std::string time;                  // UTC, when it was written; older files do not have it
  std::string working_directory;     // of the program, absolute; older files do not have it
};

std::string ToResolvedJson(const ResolvedJob& job);
// An option that is not there has its default: the file is of an older version. kDataLoss, naming
// `path`: it is damaged, or of a format that this version does not know.
absl::StatusOr<ResolvedJob> FromResolvedJson(std::string_view text, const std::string& path);

}  // namespace everstep
