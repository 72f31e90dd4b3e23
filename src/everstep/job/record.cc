// job: JobRecord as a line of incidents.jsonl.
#include "everstep/job/record.h"

#include "everstep/base/status.h"
#include "everstep/job/json_fields.h"

namespace everstep {
namespace {
constexpr char kFormat[] = "everstep.incident.v1";
}  // namespace

std::string ToJsonLine(const JobRecord& r) {
  FieldWriter w(kFormat);
  w.Put("time", r.time);
  w.Put("kind", r.kind);
  w.PutUnlessZero("incident", r.incident);
  w.PutUnlessZero("term", r.term);
  w.Put("cause", r.cause);
  w.Put("task", r.task);
  w.Put("host", r.host);
  w.Put("view", r.view);
  w.PutUnlessZero("history", r.history);
  w.PutOptional("step", r.step);
  w.PutOptional("restored_step", r.restored_step);
  w.PutOptional("exit_code", r.exit_code);
  w.PutOptional("signal", r.signal);
  w.PutIfTrue("oom", r.oom);
  w.Put("tail", r.tail);
  w.Put("log", r.log);
  w.Put("evidence", r.evidence);
  w.Put("stacks", r.stacks);
  w.Put("action", r.action);
  w.PutOptional("restarts_left", r.restarts_left);
  w.PutOptional("back_off_seconds", r.back_off_seconds);
  w.PutOptional("lost_seconds", r.lost_seconds);
  w.PutOptional("repeated_steps", r.repeated_steps);
  return Dump(w.json());
}

absl::StatusOr<JobRecord> FromJsonLine(std::string_view line) {
  constexpr char kWhat[] = "the record of an incident";
  EV_ASSIGN_OR_RETURN(const nlohmann::json json, ParseObject(line, kFormat, kWhat));
  JobRecord record;
  FieldReader r(json);
  r.Require("kind");
  r.Get("time", &record.time);
  r.Get("kind", &record.kind);
  r.Get("incident", &record.incident);
  r.Get("term", &record.term);
  r.Get("cause", &record.cause);
  r.Get("task", &record.task);
  r.Get("host", &record.host);
  r.Get("view", &record.view);
  r.Get("history", &record.history);
  r.Get("step", &record.step);
  r.Get("restored_step", &record.restored_step);
  r.Get("exit_code", &record.exit_code);
  r.Get("signal", &record.signal);
  r.Get("oom", &record.oom);
  r.Get("tail", &record.tail);
  r.Get("log", &record.log);
  r.Get("evidence", &record.evidence);
  r.Get("stacks", &record.stacks);
  r.Get("action", &record.action);
  r.Get("restarts_left", &record.restarts_left);
  r.Get("back_off_seconds", &record.back_off_seconds);
  r.Get("lost_seconds", &record.lost_seconds);
  r.Get("repeated_steps", &record.repeated_steps);
  EV_RETURN_IF_ERROR(r.status(kWhat));
  return record;
}

}  // namespace everstep
