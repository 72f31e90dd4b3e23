// cli: everstep status, and the verbs status and report.
#include "everstep/cli/status.h"

#include <signal.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/cli/report.h"
#include "everstep/env/clock.h"
#include "everstep/job/directory.h"
#include "everstep/job/resume.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

constexpr Duration kWatch = std::chrono::milliseconds(2500);
constexpr Duration kLook = std::chrono::milliseconds(100);

bool IsOfThisHost(const ProcessIdentity& process) {
  const ProcessIdentity self = OwnIdentity();
  return process.host == self.host && process.boot_id == self.boot_id &&
         process.pid_namespace == self.pid_namespace;
}

// A holder renews its counter each second.
bool Lives(FileSystem& fs, const std::string& job, const TermHolder& holder, Duration watch) {
  if (IsKnownGone(holder.process)) return false;
  if (IsOfThisHost(holder.process)) return true;
  for (const Deadline end = After(RealClock(), watch); RealClock().Now() < end;) {
    SleepFor(kLook);
    const auto now = NewestTerm(fs, job);
    if (now.ok() && now->has_value() &&
        ((*now)->term != holder.term || (*now)->counter != holder.counter)) {
      return true;
    }
  }
  return false;
}

const char* NameOf(JobLife life) {
  switch (life) {
    case JobLife::kNeverRan:
      return "never ran";
    case JobLife::kRunning:
      return "running";
    case JobLife::kEnded:
      return "ended";
    case JobLife::kVanished:
      return "vanished";
  }
  return "";
}

std::string Row(const char* name, const std::string& value) {
  return absl::StrFormat("  %-12s %s\n", name, value);
}

std::string StateOf(const JobGlance& g) {
  const std::string resume =
      absl::StrCat("; go on with it by everstep run --resume ", ShellQuoted({g.job}));
  switch (g.life) {
    case JobLife::kNeverRan:
      return absl::StrCat("never ran", resume);
    case JobLife::kRunning:
      return absl::StrCat("running, ", g.term->Describe());
    case JobLife::kEnded:
      if (!g.outcome.has_value()) return absl::StrCat("ended", resume);
      if (g.outcome->code == kExitDone) return "done";
      return absl::StrCat("ended with exit code ", g.outcome->code,
                          g.outcome->reason.empty() ? "" : ": ", g.outcome->reason, "; ", g.next);
    case JobLife::kVanished:
      break;
  }
  std::string heard;
  if (g.heard_seconds_ago.has_value()) {
    heard = absl::StrFormat(": last heard %.0f s ago", *g.heard_seconds_ago);
  }
  return absl::StrCat("vanished", heard, resume);
}

// Of a gang only its heartbeats tell.
Step StepOf(const JobStatus& s) {
  Step step = s.step;
  for (const TaskStatus& task : s.tasks) step = std::max(step, s.gang ? task.step : 0);
  return step;
}

std::string ProgressOf(const JobStatus& s) {
  std::string text = absl::StrCat(StepOf(s));
  if (s.scalars.total_steps > 0) absl::StrAppend(&text, " of ", s.scalars.total_steps);
  if (s.scalars.epochs > 0) {
    absl::StrAppend(&text, ", epoch ", s.scalars.epoch + 1, " of ", s.scalars.epochs);
  }
  for (const auto& [name, value] : s.scalars.values) {
    absl::StrAppend(&text, absl::StrFormat(", %s %.4g", name, value));
  }
  return text;
}

// "training: restarting in 2 s"; most lines begin with the phase themselves.
std::string PhaseOf(const JobStatus& s) {
  if (s.line.empty() || absl::StartsWith(s.line, s.phase)) return s.line.empty() ? s.phase : s.line;
  return absl::StrCat(s.phase, ": ", s.line);
}

std::string CheckpointOf(const JobGlance& g) {
  const JobStatus& s = *g.status;
  if (g.life == JobLife::kRunning && s.checkpoint_step >= 0) {
    return absl::StrCat("step ", s.checkpoint_step, ", ",
                        AgeText(s.checkpoint_age_seconds + g.heard_seconds_ago.value_or(0)),
                        " old");
  }
  if (!g.checkpoint.has_value()) return "none";
  return g.checkpoint->Describe();
}

// Of a gang: the newest that was seen, and what a restart would cost.
std::string GangCheckpointOf(const JobGlance& g) {
  const JobStatus& s = *g.status;
  const double since = g.heard_seconds_ago.value_or(0);
  const bool runs = g.life == JobLife::kRunning && s.phase == "running";
  const std::string loss =
      runs ? absl::StrCat(": a restart would lose ", AgeText(s.unsaved_seconds + since)) : "";
  if (s.checkpoint_path.empty()) {
    return absl::StrCat("none seen", loss);
  }
  return absl::StrCat(s.checkpoint_path, ", ", AgeText(s.checkpoint_age_seconds + since), " ago",
                      loss);
}

std::string MemoryText(int64_t bytes) {
  if (bytes >= int64_t{10} << 30) return absl::StrFormat("%d GiB", bytes >> 30);
  return absl::StrFormat("%d MiB", bytes >> 20);
}

// The tasks of a gang, a line each, under headings; columns as wide as what stands in them.
// `said_ago`: how many seconds ago the status was written.
std::string GangTable(const std::vector<TaskStatus>& tasks, double said_ago) {
  std::vector<std::vector<std::string>> rows = {
      {"task", "state", "step", "silent", "cores", "memory", "host", "seen"}};
  for (const TaskStatus& t : tasks) {
    const bool known = !t.seen.empty();
    rows.push_back({t.task, t.phase.empty() ? t.state : absl::StrCat(t.state, ", ", t.phase),
                    t.step > 0 ? absl::StrCat(t.step) : "-",
                    known ? AgeText(t.silent_seconds + said_ago) : "-",
                    known ? absl::StrFormat("%.1f", t.cores) : "-",
                    known ? MemoryText(t.memory_bytes) : "-", NameOfHost(t.host),
                    known ? t.seen : "nothing yet"});
  }
  std::vector<size_t> width(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += "  ";
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      absl::StrAppendFormat(&text, "%-*s  ", static_cast<int>(width[i]), row[i]);
    }
    absl::StrAppend(&text, row.back(), "\n");
  }
  return text;
}

std::string RestartsOf(const JobGlance& g) {
  const JobStatus& s = *g.status;
  if (g.life != JobLife::kRunning) return absl::StrCat(s.restarts, " in its last run");
  std::string text = absl::StrCat(s.restarts, " in this run");
  // A program that runs alone is never restarted.
  if (s.restarts + s.restarts_left > 0) {
    absl::StrAppend(&text, " (", s.restarts_left, " left until the next checkpoint)");
  }
  return text;
}

// `said_ago`: how many seconds ago the status was written.
std::string TaskLine(const TaskStatus& t, double said_ago) {
  return absl::StrFormat("  %-12s %s, %s%s, step %d, heard %.1f s ago, on %s\n", t.task, t.state,
                         t.phase.empty() ? "" : "in ", t.phase.empty() ? "no phase known" : t.phase,
                         t.step, t.silent_seconds + said_ago, NameOfHost(t.host));
}

template <typename T>
absl::Status ReadInto(FileSystem& fs, const std::string& path,
                      absl::StatusOr<T> (*parse)(std::string_view, const std::string&),
                      std::optional<T>* out) {
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  EV_ASSIGN_OR_RETURN(*out, parse(*text, path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobGlance> GlanceAt(FileSystem& fs, const std::string& job, Duration watch) {
  JobGlance glance;
  glance.job = job;
  EV_ASSIGN_OR_RETURN(glance.term, NewestTerm(fs, job));
  if (glance.term.has_value()) {
    glance.life = glance.term->ended                    ? JobLife::kEnded
                  : Lives(fs, job, *glance.term, watch) ? JobLife::kRunning
                                                        : JobLife::kVanished;
  }
  glance.checkpoint = GlanceAtCheckpoints(fs, job);
  EV_RETURN_IF_ERROR(ReadInto(fs, StatusPath(job), FromStatusJson, &glance.status));
  EV_RETURN_IF_ERROR(ReadInto(fs, OutcomePath(job), FromOutcomeJson, &glance.outcome));
  if (glance.outcome.has_value()) {
    glance.next = WhatNext(fs, job, glance.outcome->code, glance.outcome->program);
  }
  if (glance.status.has_value()) {
    if (const auto said = SecondsOfTimestamp(glance.status->time)) {
      glance.heard_seconds_ago = std::max(0.0, WallSeconds() - *said);
    }
  }
  return glance;
}

std::string WhatNext(FileSystem& fs, const std::string& job, int code,
                     const std::vector<std::string>& program) {
  const std::string resume = absl::StrCat("everstep run --resume ", ShellQuoted({job}));
  // Told to leave, could not now, killed from outside: nothing is wrong with it.
  const bool outside = code == kExitToldToLeave || code == kExitNotNow || code == 128 + SIGKILL;
  const bool wrong = code == kExitUsage || code == kExitBadData || code == kExitConfiguration;
  if (!wrong && (outside || HasTrained(fs, job))) return absl::StrCat("go on with it by ", resume);
  return absl::StrCat("it would fail again: correct it, then ", resume, " [-- ",
                      program.empty() ? std::string("PROGRAM ARGUMENTS") : ShellQuoted(program),
                      "]");
}

std::string GlanceText(const JobGlance& g) {
  std::string text = absl::StrCat(Row("job", g.job), Row("state", StateOf(g)));
  if (!g.status.has_value()) return text;
  const JobStatus& s = *g.status;
  if (g.life == JobLife::kRunning) absl::StrAppend(&text, Row("phase", PhaseOf(s)));
  if (!s.gang || StepOf(s) > 0) absl::StrAppend(&text, Row("step", ProgressOf(s)));
  absl::StrAppend(&text, Row("checkpoint", s.gang ? GangCheckpointOf(g) : CheckpointOf(g)));
  const bool done = g.life == JobLife::kEnded && g.outcome && g.outcome->code == kExitDone;
  if (!done) absl::StrAppend(&text, Row("restarts", RestartsOf(g)));
  if (s.incidents > 0) {
    absl::StrAppend(&text, Row("incidents", absl::StrCat(s.incidents, "; everstep report ",
                                                         ShellQuoted({g.job}), " tells more")));
  }
  if (g.life != JobLife::kRunning) return text;
  if (s.gang) return text + GangTable(s.tasks, g.heard_seconds_ago.value_or(0));
  for (const TaskStatus& task : s.tasks) {
    absl::StrAppend(&text, TaskLine(task, g.heard_seconds_ago.value_or(0)));
  }
  return text;
}

std::string GlanceJson(const JobGlance& g) {
  nlohmann::ordered_json json;
  json["job"] = g.job;
  json["life"] = NameOf(g.life);
  if (g.heard_seconds_ago.has_value()) json["heard_seconds_ago"] = *g.heard_seconds_ago;
  if (g.checkpoint.has_value()) {
    json["checkpoint"] = {{"name", g.checkpoint->name}, {"step", g.checkpoint->step}};
    if (g.checkpoint->age_seconds) json["checkpoint"]["age_seconds"] = *g.checkpoint->age_seconds;
  }
  const auto part = [](const std::string& text) {
    return nlohmann::ordered_json::parse(text, nullptr, false);
  };
  if (g.term.has_value()) json["term"] = part(ToTermJson(*g.term));
  if (g.status.has_value()) json["status"] = part(ToStatusJson(*g.status));
  if (g.outcome.has_value()) json["outcome"] = part(ToOutcomeJson(*g.outcome));
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

namespace {

struct LookArguments {
  std::string job;
  bool json = false;
};

void AddLook(CLI::App& root, Invocation* invocation, const VerbText& text,
             absl::Status (*look)(const std::string& job, bool json)) {
  auto arguments = std::make_shared<LookArguments>();
  CLI::App& verb = AddVerb(root, invocation, text, [arguments, look] {
    const absl::StatusOr<std::string> job = FindJob(RealFileSystem(), arguments->job);
    absl::Status status = job.status();
    if (job.ok()) status = look(*job, arguments->json);
    return Fail(WithOutput(AsBadData(status)));
  });
  verb.add_option("JOB", arguments->job, "a job's directory, or latest: the newest under runs/")
      ->required();
  verb.add_flag("--json", arguments->json, "for scripts");
}

}  // namespace

void AddStatus(CLI::App& root, Invocation* invocation) {
  AddLook(root, invocation,
          {"status", "Show how a job is doing", "Jobs",
           "  everstep status latest\n  everstep status runs/a --json\n"},
          [](const std::string& job, bool json) {
            const absl::StatusOr<JobGlance> glance = GlanceAt(RealFileSystem(), job, kWatch);
            if (!glance.ok()) return glance.status();
            std::cout << (json ? GlanceJson(*glance) : GlanceText(*glance));
            return absl::OkStatus();
          });
}

constexpr char kReportNotes[] =
    "Time is lost while no new step is done: from a failure until the step that it cut short is "
    "done again.\nWhere incidents overlap, each second counts once in the total. Wall time is that "
    "of the runs, and\nafter a run that vanished until the next one began, which is called idle. "
    "Goodput is the part of the\nwall time that was not lost.\n\n";

void AddReport(CLI::App& root, Invocation* invocation) {
  AddLook(
      root, invocation,
      {"report", "Show what happened to a job, and what it cost", "Jobs",
       "  everstep report latest\n  everstep report runs/a --json\n", false, nullptr, kReportNotes},
      [](const std::string& job, bool json) {
        return PrintReport(RealFileSystem(), job, json, std::cout);
      });
}

}  // namespace everstep
