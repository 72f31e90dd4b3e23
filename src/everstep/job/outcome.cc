// job: outcome.json.
#include "everstep/job/outcome.h"

#include "everstep/base/status.h"
#include "everstep/job/directory.h"
#include "everstep/job/json_fields.h"

namespace everstep {
namespace {
constexpr char kFormat[] = "everstep.outcome.v1";
}  // namespace

std::string ToOutcomeJson(const JobOutcome& outcome) {
  FieldWriter w(kFormat);
  w.Put("time", outcome.time);
  w.Put("code", outcome.code);
  w.Put("reason", outcome.reason);
  w.Put("step", outcome.step);
  w.PutWords("program", outcome.program);
  return Dump(w.json(), 2) + "\n";
}

absl::StatusOr<JobOutcome> FromOutcomeJson(std::string_view text, const std::string& path) {
  EV_ASSIGN_OR_RETURN(const nlohmann::json json, ParseObject(text, kFormat, path));
  JobOutcome outcome;
  FieldReader r(json);
  r.Require("code");
  r.Get("time", &outcome.time);
  r.Get("code", &outcome.code);
  r.Get("reason", &outcome.reason);
  r.Get("step", &outcome.step);
  r.GetWords("program", &outcome.program);
  EV_RETURN_IF_ERROR(r.status(path));
  return outcome;
}

absl::StatusOr<std::optional<JobOutcome>> ReadOutcome(FileSystem& fs, const std::string& job) {
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, OutcomePath(job));
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  EV_ASSIGN_OR_RETURN(JobOutcome outcome, FromOutcomeJson(*text, OutcomePath(job)));
  return outcome;
}

}  // namespace everstep
