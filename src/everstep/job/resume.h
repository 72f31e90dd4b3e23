// job: what `--resume TEXT` and the other verbs' JOB name.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "everstep/env/file.h"

namespace everstep {

struct ResumePoint {
  std::string job;           // its directory, absolute; empty: a checkpoint that lies in no job's
  std::string restore_from;  // the checkpoint that was named, absolute; empty: a job was
};

// "latest", the newest job under runs/ of the working directory; a job directory; or a checkpoint:
// its directory, its prefix or its .index file. Exit code 78, saying how to start a job: none of
// them.
absl::StatusOr<ResumePoint> FindResumePoint(FileSystem& fs, const std::string& text);

// Whether a step of it was done, or its program has saved something, as far as its directory says.
bool HasTrained(FileSystem& fs, const std::string& job);

// "latest" or a job directory; for verbs that only look. kNotFound with exit code 65.
absl::StatusOr<std::string> FindJob(FileSystem& fs, const std::string& text);

// The job in `runs` that gave the last sign of life; before those that failed without having done
// a step, as a typing error makes them. kNotFound, naming `runs`.
absl::StatusOr<std::string> LatestJob(FileSystem& fs, const std::string& runs);

}  // namespace everstep
