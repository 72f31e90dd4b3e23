// cli: `everstep status`: how a job is doing, from its directory.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/env/file.h"
#include "everstep/job/outcome.h"
#include "everstep/job/status.h"
#include "everstep/job/term.h"

namespace everstep {

enum class JobLife {
  kNeverRan,  // there is no term
  kRunning,   // the holder of its newest term lives
  kEnded,     // it has given up the term
  kVanished,  // the holder is gone, or its counter stands still
};

struct JobGlance {
  std::string job;
  JobLife life = JobLife::kNeverRan;
  std::optional<TermHolder> term;
  std::optional<JobStatus> status;
  std::optional<JobOutcome> outcome;
  std::optional<double> heard_seconds_ago;     // by the wall clocks: for people
  std::optional<CheckpointGlance> checkpoint;  // the newest in the directory
};

// Looks at a holder of another host for as long as `watch`, to see its counter rise. kDataLoss,
// naming the file: one is damaged.
absl::StatusOr<JobGlance> GlanceAt(FileSystem& fs, const std::string& job, Duration watch);

std::string GlanceText(const JobGlance& glance);
std::string GlanceJson(const JobGlance& glance);

}  // namespace everstep
