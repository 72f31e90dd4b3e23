// job: the journal of a job directory.
#include "everstep/job/directory_journal.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "everstep/job/incident_appender.h"
#include "everstep/job/incident_log.h"

namespace everstep {

class DirectoryJournal::Writer {
 public:
  Writer(FileSystem& fs, std::string job, Term term, DirectoryJournalOptions options)
      : fs_(fs),
        job_(std::move(job)),
        term_(std::move(term)),
        options_(std::move(options)),
        number_(term_.number()),
        appender_(fs, IncidentsPath(job_)) {
    renewed_ = Now();
  }

  absl::Status ReadFormerRuns();
  void Run();

  // Any thread:
  void Record(JobRecord record);
  void Publish(JobStatus status);
  int64_t durable() const;
  bool lease_held() const { return Now() - renewed_.load() < options_.lease; }
  bool superseded() const { return superseded_; }
  bool Close(bool give_up, std::optional<JobOutcome> outcome, Deadline deadline);

  int64_t number() const { return number_; }
  int64_t first_incident() const { return first_incident_; }

 private:
  struct Line {
    std::string text;
    int64_t weight = 1;  // records that count as durable with it
  };

  TimePoint Now() const {
    return (options_.clock != nullptr ? *options_.clock : BootClock()).Now();
  }
  // The thread's:
  void AwaitWork();
  void RenewTerm();
  void WriteRecords();
  void WriteStatus();
  void End();
  void Report(const char* what, const absl::Status& status, bool* failing);

  FileSystem& fs_;
  const std::string job_;
  Term term_;
  const DirectoryJournalOptions options_;
  const int64_t number_;
  int64_t first_incident_ = 1;

  std::atomic<TimePoint> renewed_;  // began the last renewal that succeeded
  std::atomic<bool> superseded_{false};

  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  // Under mutex_:
  std::deque<Line> lines_;   // not yet with the appender
  int64_t held_ = 0;         // lines here and with the appender
  int64_t held_weight_ = 0;  // of those with the appender
  int64_t durable_ = 0;
  int64_t lost_ = 0;
  std::optional<JobStatus> status_;
  Step step_ = 0;  // of the newest status
  bool closing_ = false, closed_ = false;
  bool give_up_ = false;
  Deadline close_by_;
  std::optional<JobOutcome> outcome_;

  // The thread's:
  IncidentAppender appender_;
  TimePoint renew_at_, records_at_, status_at_;
  bool term_fails_ = false, records_fail_ = false, status_fails_ = false;
  int64_t lost_told_ = 0;
};

absl::Status DirectoryJournal::Writer::ReadFormerRuns() {
  const absl::StatusOr<std::string> text = ReadWholeFile(fs_, IncidentsPath(job_));
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  const IncidentLog log = ParseIncidents(text.ok() ? *text : std::string());
  appender_.SetEnd(text.ok() ? static_cast<int64_t>(text->size()) : 0, log.torn_end);
  first_incident_ = log.HighestIncident() + 1;
  const std::optional<int64_t> open = log.OpenTerm();
  if (!open.has_value() || *open >= number_) return absl::OkStatus();

  JobRecord vanished;
  vanished.kind = record_kind::kRunVanished;
  vanished.incident = first_incident_++;
  vanished.term = *open;
  vanished.cause = absl::StrCat("the run of term ", *open, " ended without a word");
  vanished.action = "restart";
  std::string heard = log.records.back().time;
  const absl::StatusOr<std::string> said = ReadWholeFile(fs_, StatusPath(job_));
  if (said.ok()) {
    const absl::StatusOr<JobStatus> status = FromStatusJson(*said, StatusPath(job_));
    if (status.ok() && status->term == *open) {
      absl::StrAppend(&vanished.cause, "; last heard at step ", status->step, ", ", status->time,
                      " (status.json)");
      vanished.step = status->step;
      heard = std::max(heard, status->time);
    }
  }
  if (const std::optional<double> seconds = SecondsOfTimestamp(heard)) {
    vanished.lost_seconds = std::max(0.0, WallSeconds() - *seconds);
  }
  Record(std::move(vanished));
  durable_ = -1;  // nobody gave that one to Record
  return absl::OkStatus();
}

void DirectoryJournal::Writer::Record(JobRecord record) {
  record.time = WallTimestamp();
  if (record.term == 0) record.term = number_;
  std::string text = absl::StrCat(ToJsonLine(record), "\n");
  std::lock_guard<std::mutex> lock(mutex_);
  if (held_ >= options_.most_records) {
    ++lost_;
    ++(lines_.empty() ? held_weight_ : lines_.back().weight);
  } else {
    ++held_;
    lines_.push_back({std::move(text)});
  }
  wake_.notify_one();
}

void DirectoryJournal::Writer::Publish(JobStatus status) {
  status.time = WallTimestamp();
  if (status.term == 0) status.term = number_;
  std::lock_guard<std::mutex> lock(mutex_);
  step_ = status.step;
  status_ = std::move(status);
  wake_.notify_one();
}

int64_t DirectoryJournal::Writer::durable() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::max<int64_t>(durable_, 0);
}

bool DirectoryJournal::Writer::Close(bool give_up, std::optional<JobOutcome> outcome,
                                     Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  closing_ = true;
  give_up_ = give_up;
  outcome_ = std::move(outcome);
  if (outcome_.has_value()) outcome_->step = step_;
  close_by_ = deadline;
  wake_.notify_one();
  return done_.wait_until(lock, deadline, [&] { return closed_; });
}

void DirectoryJournal::Writer::AwaitWork() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const TimePoint now = Now();
    TimePoint next = renew_at_;
    if (!lines_.empty() || !appender_.empty()) next = std::min(next, records_at_);
    if (status_.has_value()) next = std::min(next, status_at_);
    if (next <= now || closing_) return;
    wake_.wait_for(lock, next - now);
  }
}

void DirectoryJournal::Writer::Run() {
  while (true) {
    AwaitWork();
    // First of all: whoever was away for long must know whether the directory is still its own.
    if (renew_at_ <= Now()) RenewTerm();
    if (!superseded_) {
      WriteRecords();
      WriteStatus();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (!closing_) continue;
    const bool nothing_left = (lines_.empty() && appender_.empty()) || superseded_;
    if (nothing_left || RealClock().Now() >= close_by_) break;
    wake_.wait_for(lock, options_.interval);
  }
  End();
}

void DirectoryJournal::Writer::End() {
  status_at_ = TimePoint();
  if (!superseded_) {
    WriteStatus();
    if (give_up_ && options_.tidy) options_.tidy();
    absl::Status status;
    if (outcome_.has_value()) {
      outcome_->time = WallTimestamp();
      status = PublishFile(fs_, OutcomePath(job_), ToOutcomeJson(*outcome_));
    }
    if (status.ok() && give_up_) status = term_.End();
    bool failing = false;
    Report("its end cannot be written", status, &failing);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  done_.notify_all();
}

void DirectoryJournal::Writer::Report(const char* what, const absl::Status& status, bool* failing) {
  if (!status.ok() && !*failing && options_.warn) {
    options_.warn(absl::StrCat("job directory ", job_, ": ", what, ": ", status.message()));
  }
  *failing = !status.ok();
}

void DirectoryJournal::Writer::RenewTerm() {
  const TimePoint began = Now();
  renew_at_ = began + options_.interval;
  absl::Status status = term_.Renew();
  // On a disk that is full or read-only nobody can make the file of a next term either.
  const bool nobody_can = absl::IsResourceExhausted(status) || absl::IsPermissionDenied(status);
  // Looked for after the renewal: one that took the next term before has seen this one stand still.
  if (status.ok() || nobody_can || absl::IsFailedPrecondition(status)) {
    const absl::StatusOr<bool> superseded = term_.IsSuperseded();
    if (status.ok()) status = superseded.status();
    if (superseded.ok() && nobody_can) renewed_ = began;
    if (superseded.ok() && *superseded && !superseded_.exchange(true) && options_.warn) {
      options_.warn(absl::StrCat("job directory ", job_, ": term ", number_,
                                 " is not the newest any more, or gone; this run ends"));
    }
  }
  if (status.ok()) renewed_ = began;
  Report("the term cannot be renewed", status, &term_fails_);
}

void DirectoryJournal::Writer::WriteRecords() {
  if (records_at_ > Now()) return;
  int64_t lost = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (; !lines_.empty(); lines_.pop_front()) {
      appender_.Add(lines_.front().text);
      held_weight_ += lines_.front().weight;
    }
    lost = lost_;
  }
  if (lost > lost_told_ && options_.warn) {
    options_.warn(absl::StrCat("job directory ", job_, ": ", lost - lost_told_,
                               " records are lost, as too many wait to be written"));
    lost_told_ = lost;
  }
  if (appender_.empty()) return;
  const absl::Status status = appender_.Flush();
  Report("records cannot be written; they are kept and tried again", status, &records_fail_);
  if (!status.ok()) {
    records_at_ = Now() + options_.interval;
    return;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  durable_ += held_weight_;
  held_weight_ = 0;
  held_ = static_cast<int64_t>(lines_.size());
}

void DirectoryJournal::Writer::WriteStatus() {
  if (status_at_ > Now()) return;
  std::optional<JobStatus> newest;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    newest.swap(status_);
  }
  if (!newest.has_value()) return;
  status_at_ = Now() + options_.interval;
  Report("the status cannot be written", PublishFile(fs_, StatusPath(job_), ToStatusJson(*newest)),
         &status_fails_);
}

DirectoryJournal::DirectoryJournal(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}

absl::StatusOr<std::unique_ptr<DirectoryJournal>> DirectoryJournal::Open(
    FileSystem& fs, const std::string& job, Term term, DirectoryJournalOptions options) {
  auto writer = std::make_shared<Writer>(fs, job, std::move(term), std::move(options));
  EV_RETURN_IF_ERROR(writer->ReadFormerRuns());
  // Not joined: it may sit in a write for ever. What it uses it owns.
  std::thread([writer] { writer->Run(); }).detach();
  return std::unique_ptr<DirectoryJournal>(new DirectoryJournal(std::move(writer)));
}

DirectoryJournal::~DirectoryJournal() {
  if (!closed_) {
    writer_->Close(/*give_up=*/false, std::nullopt, After(RealClock(), std::chrono::seconds(2)));
  }
}

int64_t DirectoryJournal::term() const { return writer_->number(); }
int64_t DirectoryJournal::first_incident() const { return writer_->first_incident(); }
void DirectoryJournal::Record(JobRecord record) { writer_->Record(std::move(record)); }
void DirectoryJournal::Publish(JobStatus status) { writer_->Publish(std::move(status)); }
int64_t DirectoryJournal::durable() const { return writer_->durable(); }
bool DirectoryJournal::lease_held() const { return writer_->lease_held(); }
bool DirectoryJournal::superseded() const { return writer_->superseded(); }

bool DirectoryJournal::Close(std::optional<JobOutcome> outcome, Deadline deadline) {
  closed_ = true;
  return writer_->Close(/*give_up=*/true, std::move(outcome), deadline);
}

}  // namespace everstep
