// runtime: LoneJob.
#include "everstep/runtime/lone_job.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/find.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/job/resume.h"
#include "everstep/job/term.h"

namespace everstep {
namespace {

// Nobody proves anything to a job of one process.
constexpr char kNoSecret[] = "";

absl::StatusOr<JobDirectory> Choose(const JobSpec& spec, const std::string& version) {
  FileSystem& fs = RealFileSystem();
  const std::string resume = GetEnvironment("EVERSTEP_RESUME").value_or("");
  if (resume.empty()) {
    absl::StatusOr<JobDirectory> made =
        JobDirectory::Create(fs, {spec, CommandLine(), version, kNoSecret});
    if (!absl::IsAlreadyExists(made.status())) return made;
    return WithExitCode(
        absl::AlreadyExistsError(
            absl::StrCat(spec.directory, " holds a job already; go on with it by EVERSTEP_RESUME=",
                         spec.directory, ", or choose another EVERSTEP_JOB_DIR")),
        kExitNotNow);
  }
  EV_ASSIGN_OR_RETURN(const ResumePoint point, FindResumePoint(fs, resume));
  const bool elsewhere = !spec.directory.empty() && spec.directory != point.job;
  if (!point.restore_from.empty() && (point.job.empty() || elsewhere)) {
    JobSpec begun = spec;
    if (!point.job.empty()) {
      // What belongs for life to the job of the checkpoint belongs to this one, too.
      EV_ASSIGN_OR_RETURN(
          const JobDirectory of,
          JobDirectory::Resume(fs,
                               {point.job, point.restore_from, {}, GetEnvironment, CommandLine()}));
      begun = of.spec();
      begun.directory = spec.directory;
      begun.restore_from.clear();
    }
    begun.begin_from = point.restore_from;
    return JobDirectory::Create(fs, {begun, CommandLine(), version, kNoSecret});
  }
  return JobDirectory::Resume(fs,
                              {point.job, point.restore_from, {}, GetEnvironment, CommandLine()});
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoneJob>> LoneJob::Begin(const JobSpec& spec,
                                                        const std::string& version) {
  EV_ASSIGN_OR_RETURN(JobDirectory job, Choose(spec, version));
  for (const std::string& note : job.notes()) std::fprintf(stderr, "everstep: %s\n", note.c_str());
  const Step end = job.finished().has_value() ? job.finished()->step : 0;
  if (end > 0 && !HoldsStep(RealFileSystem(), CheckpointsPath(job.path()), end)) job.ForgetEnd();
  std::unique_ptr<LoneJob> lone(new LoneJob(std::move(job)));
  if (lone->is_finished()) return lone;
  absl::Status status = lone->TakeDirectory(version);
  if (!status.ok()) {
    lone->job_.Abandon();
    return status;
  }
  return lone;
}

absl::Status LoneJob::TakeDirectory(const std::string& version) {
  TakeTermOptions options;
  options.grace = spec().grace;
  options.on_wait = [](const std::string& line, Duration) {
    std::fprintf(stderr, "everstep: %s\n", line.c_str());
  };
  EV_ASSIGN_OR_RETURN(Term term, TakeTerm(RealFileSystem(), job_.path(), options));
  DirectoryStoreOptions checkpoints;
  checkpoints.directory = CheckpointsPath(job_.path());
  (void)DirectoryStore(RealFileSystem(), checkpoints).RemoveLeftovers();
  EV_RETURN_IF_ERROR(job_.BeginRun(version, kNoSecret));
  job_.RemoveSecret();
  EV_ASSIGN_OR_RETURN(journal_,
                      DirectoryJournal::Open(RealFileSystem(), job_.path(), std::move(term), {}));
  next_incident_ = journal_->first_incident();
  status_.phase = "starting";
  status_.term = journal_->term();
  status_.workers_wanted = 1;
  JobRecord record;
  record.kind = record_kind::kRunStarted;
  Record(std::move(record));
  return absl::OkStatus();
}

void LoneJob::Record(JobRecord record) {
  record.task = "worker:0";
  record.host = HostName();
  journal_->Record(std::move(record));
}

void LoneJob::Publish() { journal_->Publish(status_); }

void LoneJob::Hear(const WorkerMessage& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const auto* note = std::get_if<Note>(&message)) {
    JobRecord record;
    record.kind = note->kind;
    record.incident = next_incident_++;
    record.cause = note->text;
    record.step = note->step;
    status_.incidents = record.incident;
    Record(std::move(record));
  } else if (const auto* synced = std::get_if<Synced>(&message)) {
    JobRecord record;
    record.kind = record_kind::kTraining;
    record.view = synced->view;
    record.step = synced->step;
    status_.phase = "training";
    status_.view = synced->view;
    status_.step = synced->step;
    Record(std::move(record));
  } else if (const auto* done = std::get_if<CheckpointCommitted>(&message)) {
    status_.checkpoint_step = done->step;
    status_.history = done->history;
  } else {
    return;
  }
  Publish();
}

void LoneJob::ShowProgress(const Scalars& scalars, Step step) {
  std::lock_guard<std::mutex> lock(mutex_);
  status_.scalars = scalars;
  status_.step = step;
  Publish();
}

void LoneJob::Finish(int code, const std::string& reason) {
  if (journal_ == nullptr) return;
  std::lock_guard<std::mutex> lock(mutex_);
  JobRecord record;
  record.kind = record_kind::kRunEnded;
  record.exit_code = code;
  record.cause = reason;
  record.step = status_.step;
  Record(std::move(record));
  status_.phase = "ended";
  status_.exit_code = code;
  status_.reason = reason;
  Publish();
  (void)journal_->Close(JobOutcome{code, reason, status_.step, job_.program(), ""},
                        After(RealClock(), std::chrono::seconds(5)));
}

}  // namespace everstep
