// cli: everstep report: the reckoning.
#include "everstep/cli/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/base/task.h"
#include "everstep/cli/status.h"
#include "everstep/env/clock.h"
#include "everstep/job/directory.h"

namespace everstep {
namespace {

namespace kind = record_kind;

constexpr Duration kWatch = std::chrono::milliseconds(2500);

double TimeOf(const JobRecord& record) { return SecondsOfTimestamp(record.time).value_or(0); }

struct Span {
  double begin = 0, end = 0;
};

// Each second once.
double Covered(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](Span a, Span b) { return a.begin < b.begin; });
  double sum = 0, until = 0;
  for (const Span& span : spans) {
    const double begin = std::max(span.begin, until);
    sum += std::max(0.0, span.end - begin);
    until = std::max(until, span.end);
  }
  return sum;
}

class Reckoner {
 public:
  Reckoner(const IncidentLog& log, const std::optional<JobStatus>& status, bool vanished)
      : records_(log.records), status_(status), vanished_(vanished) {
    report_.unreadable = log.unreadable;
    report_.gang = status.has_value() && status->gang;
  }

  JobReport Run() {
    for (size_t i = 0; i < records_.size(); ++i) {
      const JobRecord& r = records_[i];
      if (r.kind == kind::kRunStarted) {
        AddRun(i);
      } else if (CostsNothing(r)) {
        report_.notes.push_back(r);
      } else if (r.incident != 0 && r.kind != kind::kRecovered) {
        AddIncident(i);
      }
    }
    for (const IncidentReport& incident : report_.incidents) {
      report_.repeated_steps += incident.repeated_steps;
    }
    report_.lost_seconds = std::min(Covered(lost_), report_.wall_seconds);
    if (report_.wall_seconds > 0) {
      report_.goodput = 1 - report_.lost_seconds / report_.wall_seconds;
    }
    return std::move(report_);
  }

 private:
  // Of a gang also what was only told of: silence, no checkpoint, an evaluator that is left out.
  bool CostsNothing(const JobRecord& r) const {
    return r.kind == kind::kCheckpointFailed || r.kind == kind::kCheckpointRejected ||
           r.kind == kind::kStorageSlow || r.kind == kind::kStopped ||
           r.kind == kind::kNoCheckpoint || (r.kind == kind::kWorkerHung && r.action.empty()) ||
           (report_.gang && r.kind == kind::kWorkerFailed && r.action.empty());
  }

  // Until the record at `begin` says no more: when was the run of `term` heard last?
  double HeardLast(size_t begin, int64_t term) const {
    double heard = 0;
    for (size_t i = begin; i < records_.size(); ++i) {
      const JobRecord& r = records_[i];
      if (r.term == term && r.kind != kind::kRunVanished) heard = std::max(heard, TimeOf(r));
    }
    if (status_.has_value() && status_->term == term) {
      heard = std::max(heard, SecondsOfTimestamp(status_->time).value_or(0));
    }
    return heard;
  }

  // When the run that vanished was heard last, as the next one found it.
  static double HeardBefore(const JobRecord& vanished) {
    return TimeOf(vanished) - vanished.lost_seconds.value_or(0);
  }

  void AddRun(size_t at) {
    const JobRecord& start = records_[at];
    RunReport run;
    run.term = start.term;
    run.began = start.time;
    double end = HeardLast(at, run.term);
    double gap = 0;
    bool newest = true;
    std::optional<Step> began_at;
    for (size_t i = at; i < records_.size(); ++i) {
      const JobRecord& r = records_[i];
      newest = newest && r.term <= run.term;
      if (r.term != run.term) continue;
      // The last one: a run that restarted may have been further before.
      if (r.step.has_value() && r.kind != kind::kRecovered) run.step = r.step;
      if (r.kind == kind::kTraining && r.step.has_value()) began_at = began_at.value_or(*r.step);
      if (r.kind == kind::kTraining && report_.gang) report_.trained = true;
      if (began_at.has_value() && r.step.value_or(0) > *began_at) report_.trained = true;
      if (r.kind == kind::kRunEnded) {
        run.exit_code = r.exit_code.value_or(0);
        run.reason = r.cause;
        end = TimeOf(r);
      } else if (r.kind == kind::kRunVanished) {
        run.vanished = true;
        end = std::max(HeardBefore(r), TimeOf(start));
        gap = std::max(0.0, TimeOf(r) - end);
      }
    }
    const bool open = !run.vanished && !run.exit_code.has_value();
    if (status_.has_value() && status_->term == run.term && (open || !run.step.has_value())) {
      run.step = status_->step;
    }
    if (began_at.has_value() && run.step.value_or(0) > *began_at) report_.trained = true;
    if (open && newest) run.vanished = vanished_;
    run.seconds = std::max(0.0, end - TimeOf(start));
    report_.wall_seconds += run.seconds + gap;
    report_.runs.push_back(std::move(run));
  }

  // Seconds a step took in the run of `term`, up to the record at `at`; 0: not known.
  double SecondsPerStep(size_t at) const {
    const JobRecord& last = records_[at];
    if (!last.step.has_value()) return 0;
    const double end = last.kind == kind::kRunVanished ? HeardBefore(last) : TimeOf(last);
    for (size_t i = at; i-- > 0;) {
      const JobRecord& r = records_[i];
      if (r.term != last.term || r.kind != kind::kTraining || !r.step.has_value()) continue;
      if (*last.step <= *r.step) return 0;
      return std::max(0.0, end - TimeOf(r)) / static_cast<double>(*last.step - *r.step);
    }
    return 0;
  }

  void AddIncident(size_t at) {
    const JobRecord& first = records_[at];
    IncidentReport incident{first};
    std::vector<Span> spans;
    size_t i = at + 1;
    const JobRecord* recovered = nullptr;
    bool all_again = false;
    for (; i < records_.size(); ++i) {
      const JobRecord& r = records_[i];
      if (r.kind == kind::kRecovered && r.incident == first.incident) recovered = &r;
      all_again = all_again || (recovered == nullptr && r.kind == kind::kTraining);
      // The next training of another run is where the job went on, if it did not before.
      if (recovered != nullptr || (r.kind == kind::kTraining && r.term > first.term)) break;
    }
    if (recovered != nullptr) {
      incident.recovered = true;
      incident.alone = report_.gang && !all_again && first.action == "restart";
      incident.repeated_steps = recovered->repeated_steps.value_or(0);
      spans.push_back(
          {TimeOf(*recovered) - recovered->lost_seconds.value_or(0), TimeOf(*recovered)});
    } else {
      Unrecovered(at, i, &incident, &spans);
    }
    for (const Span& span : spans) incident.lost_seconds += std::max(0.0, span.end - span.begin);
    const Task task = Task::Parse(first.task).value_or(Task{});
    const bool others_wait = task.type == "chief" || task.type == "ps";
    if (task.type != "evaluator" && (others_wait || !incident.alone)) {
      lost_.insert(lost_.end(), spans.begin(), spans.end());
    }
    report_.incidents.push_back(std::move(incident));
  }

  // `next`: the record of the next run's training; the number of records when there is none.
  void Unrecovered(size_t at, size_t next, IncidentReport* incident, std::vector<Span>* spans) {
    const JobRecord& first = records_[at];
    const JobRecord* training = next < records_.size() ? &records_[next] : nullptr;
    if (first.kind == kind::kRunVanished) {
      incident->idle_seconds = std::max(0.0, first.lost_seconds.value_or(0));
      spans->push_back({HeardBefore(first), training ? TimeOf(*training) : TimeOf(first)});
    } else {
      spans->push_back({TimeOf(first), HeardLast(at, first.term)});
    }
    if (training == nullptr) return;
    incident->recovered = true;
    if (!first.step.has_value() || !training->step.has_value()) return;
    // Its own run may have begun to repeat them.
    const JobRecord* restart = training;
    for (size_t i = next; i-- > at + 1;) {
      if (records_[i].kind == kind::kTraining && records_[i].step) restart = &records_[i];
    }
    incident->repeated_steps = std::max<int64_t>(0, *first.step - *restart->step);
    const auto left = std::max<int64_t>(0, *first.step - *training->step);
    const double again = static_cast<double>(left) * SecondsPerStep(at);
    spans->push_back({TimeOf(*training), TimeOf(*training) + again});
  }

  const std::vector<JobRecord>& records_;
  const std::optional<JobStatus>& status_;
  const bool vanished_;
  JobReport report_;
  std::vector<Span> lost_;
};

}  // namespace

JobReport MakeReport(const IncidentLog& log, const std::optional<JobStatus>& status,
                     bool vanished) {
  return Reckoner(log, status, vanished).Run();
}

absl::Status PrintReport(FileSystem& fs, const std::string& job, bool json, std::ostream& out) {
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, IncidentsPath(job));
  if (absl::IsNotFound(text.status())) {
    return absl::DataLossError(
        absl::StrCat("the job ", job, " has no incidents.jsonl: it never ran"));
  }
  if (!text.ok()) return text.status();
  // One that cannot be read leaves the report what the records say.
  const absl::StatusOr<JobGlance> glance = GlanceAt(fs, job, kWatch);
  const JobGlance known = glance.ok() ? *glance : JobGlance{};
  const JobReport report =
      MakeReport(ParseIncidents(*text), known.status, known.life == JobLife::kVanished);
  out << (json ? ReportJson(report) : ReportText(report));
  return absl::OkStatus();
}

}  // namespace everstep
