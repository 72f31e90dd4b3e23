// cli: everstep report: how it is shown.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "everstep/cli/command.h"
#include "everstep/cli/report.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

using nlohmann::ordered_json;

std::string Count(int64_t n, const char* what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
}

// `gang`: a step of 0 only means that none was told.
std::string RunLine(const RunReport& run, bool gang) {
  std::string end = "running";
  if (run.vanished) end = "vanished";
  if (run.exit_code.has_value()) {
    end = *run.exit_code == 0 ? "done" : absl::StrCat("exit code ", *run.exit_code);
  }
  if (run.step.value_or(0) > 0 || (run.step.has_value() && !gang))
    absl::StrAppend(&end, ", step ", *run.step);
  if (!run.reason.empty()) absl::StrAppend(&end, ": ", run.reason);
  return absl::StrFormat("  term %-4d %s  %9.1f s  %s\n", run.term, run.began, run.seconds, end);
}

// What was done about it, and what it cost; `open`: its run still runs.
std::string Answer(const IncidentReport& incident, bool open) {
  const std::string& action = incident.record.action;
  std::string text = action == "end" ? "the run ended" : action.empty() ? "nothing done" : action;
  if (!incident.recovered) {
    return absl::StrFormat(
        open ? "%s, not yet recovered: %.1f s so far" : "%s, not recovered: %.1f s lost", text,
        incident.lost_seconds);
  }
  if (incident.alone) {
    return absl::StrFormat("%s of it alone, back after %.1f s", text, incident.lost_seconds);
  }
  absl::StrAppend(&text, action == "end" ? "; a later run recovered" : ", recovered",
                  absl::StrFormat(": %.1f s lost", incident.lost_seconds));
  if (incident.idle_seconds > 0) {
    absl::StrAppend(&text, absl::StrFormat(" (idle %.1f s)", incident.idle_seconds));
  }
  // Of a program that tells no steps nobody knows how many it repeats.
  if (!incident.record.step.has_value()) return text;
  return absl::StrCat(text, ", ", Count(incident.repeated_steps, "step"), " repeated");
}

std::string IncidentLines(const IncidentReport& incident, bool open) {
  const JobRecord& r = incident.record;
  std::string line = absl::StrFormat("  %-4d %s  %s", r.incident, r.time, r.cause);
  if (r.oom) absl::StrAppend(&line, ", out of memory");
  if (!r.evidence.empty()) absl::StrAppend(&line, ", on ", r.evidence, " evidence");
  if (!r.host.empty()) absl::StrAppend(&line, ", host ", NameOfHost(r.host));
  if (r.step.has_value()) absl::StrAppend(&line, ", step ", *r.step);
  absl::StrAppend(&line, "\n       ", Answer(incident, open));
  if (!r.log.empty()) absl::StrAppend(&line, "\n       log ", r.log);
  if (!r.stacks.empty()) absl::StrAppend(&line, "\n       stacks ", r.stacks);
  for (const std::string& tail : r.tail) absl::StrAppend(&line, "\n       | ", tail);
  return absl::StrCat(line, "\n");
}

ordered_json ToJson(const RunReport& run) {
  ordered_json json = {{"term", run.term}, {"began", run.began}, {"seconds", run.seconds}};
  json["state"] = run.vanished ? "vanished" : run.exit_code.has_value() ? "ended" : "open";
  if (run.exit_code.has_value()) json["exit_code"] = *run.exit_code;
  if (!run.reason.empty()) json["reason"] = run.reason;
  if (run.step.has_value()) json["step"] = *run.step;
  return json;
}

ordered_json RecordJson(const JobRecord& record) {
  return ordered_json::parse(ToJsonLine(record), nullptr, false);
}

}  // namespace

std::string ReportText(const JobReport& report) {
  std::string text = "runs\n";
  for (const RunReport& run : report.runs) absl::StrAppend(&text, RunLine(run, report.gang));
  if (!report.incidents.empty()) absl::StrAppend(&text, "incidents\n");
  for (const IncidentReport& incident : report.incidents) {
    const bool open = !report.runs.empty() && report.runs.back().term == incident.record.term &&
                      !report.runs.back().vanished && !report.runs.back().exit_code.has_value();
    absl::StrAppend(&text, IncidentLines(incident, open));
  }
  if (!report.notes.empty()) absl::StrAppend(&text, "also\n");
  for (const JobRecord& note : report.notes) {
    absl::StrAppend(&text, "       ", note.time, "  ", note.kind,
                    note.evidence.empty() ? "" : absl::StrCat(" (", note.evidence, " evidence)"),
                    ": ", note.cause, "\n");
  }
  absl::StrAppend(&text, "total\n  ", Count(report.runs.size(), "run"),
                  absl::StrFormat(", %.1f s; %s, %.1f s lost", report.wall_seconds,
                                  Count(report.incidents.size(), "incident"), report.lost_seconds),
                  report.incidents.size() > 1 ? " (overlaps counted once)" : "");
  if (report.repeated_steps > 0) {
    absl::StrAppend(&text, ", ", Count(report.repeated_steps, "step"), " repeated");
  }
  absl::StrAppend(&text,
                  report.trained ? absl::StrFormat("; goodput %.1f %%", 100 * report.goodput)
                                 : std::string("; no step was done"),
                  "\n");
  if (report.gang && report.repeated_steps == 0 && report.lost_seconds >= 0.05) {
    absl::StrAppend(&text, "  by time only: what was done again after a restart is not seen\n");
  }
  if (report.unreadable > 0) {
    absl::StrAppend(&text, "  ", Count(report.unreadable, "line"),
                    " of incidents.jsonl could not be read and count for nothing\n");
  }
  return text;
}

std::string ReportJson(const JobReport& report) {
  ordered_json json;
  json["format"] = "everstep.report.v1";
  json["runs"] = ordered_json::array();
  for (const RunReport& run : report.runs) json["runs"].push_back(ToJson(run));
  json["incidents"] = ordered_json::array();
  for (const IncidentReport& incident : report.incidents) {
    json["incidents"].push_back({{"record", RecordJson(incident.record)},
                                 {"recovered", incident.recovered},
                                 {"lost_seconds", incident.lost_seconds},
                                 {"idle_seconds", incident.idle_seconds},
                                 {"repeated_steps", incident.repeated_steps}});
    if (incident.alone) json["incidents"].back()["alone"] = true;
  }
  json["notes"] = ordered_json::array();
  for (const JobRecord& note : report.notes) json["notes"].push_back(RecordJson(note));
  json["unreadable_lines"] = report.unreadable;
  json["wall_seconds"] = report.wall_seconds;
  json["lost_seconds"] = report.lost_seconds;
  json["repeated_steps"] = report.repeated_steps;
  if (report.gang) json["gang"] = true;
  if (report.trained) json["goodput"] = report.goodput;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace everstep
