// runtime: LoneJob, the job directory of a native program that nobody started as one of several: it
// is its own coordinator, and leaves what a coordinator leaves.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/scalars.h"
#include "everstep/job/directory.h"
#include "everstep/job/directory_journal.h"
#include "everstep/membership/messages.h"

namespace everstep {

class LoneJob {
 public:
  // A new job as `spec` says; or, with EVERSTEP_RESUME as `everstep run --resume` takes it, one
  // that goes on. Errors as those of `everstep run`, with its exit codes.
  static absl::StatusOr<std::unique_ptr<LoneJob>> Begin(const JobSpec& spec,
                                                        const std::string& version);

  const JobSpec& spec() const { return job_.spec(); }
  // It was done before; there is nothing to train.
  bool is_finished() const { return job_.finished().has_value(); }
  int64_t term() const { return journal_ != nullptr ? journal_->term() : 1; }
  // Another run has taken the directory over: this one must leave.
  bool superseded() const { return journal_ != nullptr && journal_->superseded(); }

  // What the engine says to a coordinator, and how far it is. Any thread.
  void Hear(const WorkerMessage& message);
  void ShowProgress(const Scalars& scalars, Step step);

  // The end of the run; once.
  void Finish(int code, const std::string& reason);

 private:
  explicit LoneJob(JobDirectory job) : job_(std::move(job)) {}
  absl::Status TakeDirectory(const std::string& version);
  void Record(JobRecord record);
  void Publish();

  JobDirectory job_;
  std::unique_ptr<DirectoryJournal> journal_;
  std::mutex mutex_;
  JobStatus status_;
  int64_t next_incident_ = 1;
};

}  // namespace everstep
