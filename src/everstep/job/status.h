// job: JobStatus, what status.json holds: how a job is doing, as its coordinator last said.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/scalars.h"
#include "everstep/base/step.h"
#include "everstep/base/view.h"

namespace everstep {

struct TaskStatus {
  std::string task;  // "worker:1"
  std::string host;
  std::string state;  // "training", as NameOf(WorkerState)
  std::string phase;  // of its last heartbeat
  Step step = 0;
  double silent_seconds = 0;  // since its last heartbeat; of a gang's: since any sign of progress
  double cores = 0;           // that it used over the last seconds; of a gang's process
  int64_t memory_bytes = 0;   // resident; of a gang's process
  std::string seen;           // of a gang's process, for people: its last signs of progress
};

struct JobStatus {
  std::string
      phase;  // "gathering", "starting", "preparing", "training", "restarting", "ending", "ended"
  std::string line;  // what the job waits for or does, for people
  int64_t term = 0;
  ViewId view;
  History history = 0;
  Step step = 0;  // reached
  int workers_wanted = 0;
  int restarts = 0;                   // in this run
  int restarts_left = 0;              // of the budget
  int64_t incidents = 0;              // in the job
  Step checkpoint_step = -1;          // of the newest committed; -1: none yet
  double checkpoint_age_seconds = 0;  // since its commit, when there is one
  std::string checkpoint_path;        // of a gang: the newest that was seen; then its age counts
  double unsaved_seconds = 0;         // of a gang: what a restart would lose now
  Scalars scalars;
  std::vector<TaskStatus> tasks;
  int exit_code = -1;  // when ended
  std::string reason;  // when ended, and not done
  bool gang = false;   // the program is no native one

  // Filled in by whoever writes the file.
  std::string time;  // UTC, as in JobRecord
};

// The whole file, and back. kDataLoss, naming `path`: not such a file.
std::string ToStatusJson(const JobStatus& status);
absl::StatusOr<JobStatus> FromStatusJson(std::string_view text, const std::string& path);

}  // namespace everstep
