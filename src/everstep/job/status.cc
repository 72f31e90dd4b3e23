// job: JobStatus as status.json.
#include "everstep/job/status.h"

#include "everstep/base/status.h"
#include "everstep/job/json_fields.h"

namespace everstep {
namespace {

constexpr char kFormat[] = "everstep.status.v1";

nlohmann::ordered_json ToJson(const Scalars& s) {
  nlohmann::ordered_json json;
  json["total_steps"] = s.total_steps;
  json["epoch"] = s.epoch;
  json["epochs"] = s.epochs;
  json["step_in_epoch"] = s.step_in_epoch;
  json["steps_per_epoch"] = s.steps_per_epoch;
  json["examples_per_second"] = s.examples_per_second;
  auto& values = json["values"] = nlohmann::ordered_json::array();
  for (const auto& [name, value] : s.values) {
    nlohmann::ordered_json entry;
    entry["name"] = name;
    entry["value"] = value;
    values.push_back(std::move(entry));
  }
  return json;
}

// The scalars' own fields, and whether each had its type.
bool FromJson(const nlohmann::json& json, Scalars* s) {
  if (!json.is_object()) return false;
  FieldReader r(json);
  r.Get("total_steps", &s->total_steps);
  r.Get("epoch", &s->epoch);
  r.Get("epochs", &s->epochs);
  r.Get("step_in_epoch", &s->step_in_epoch);
  r.Get("steps_per_epoch", &s->steps_per_epoch);
  r.Get("examples_per_second", &s->examples_per_second);
  const nlohmann::json* values = r.Find("values");
  if (values != nullptr) {
    if (!values->is_array()) return false;
    for (const nlohmann::json& entry : *values) {
      if (!entry.is_object()) return false;
      FieldReader e(entry);
      auto& [name, value] = s->values.emplace_back();
      e.Get("name", &name);
      e.Get("value", &value);
      if (!e.status("").ok()) return false;
    }
  }
  return r.status("").ok();
}

nlohmann::ordered_json ToJson(const TaskStatus& t) {
  nlohmann::ordered_json json;
  json["task"] = t.task;
  json["host"] = t.host;
  json["state"] = t.state;
  json["phase"] = t.phase;
  json["step"] = t.step;
  json["silent_seconds"] = t.silent_seconds;
  if (t.seen.empty()) return json;
  json["cores"] = t.cores;
  json["memory_bytes"] = t.memory_bytes;
  json["seen"] = t.seen;
  return json;
}

bool FromJson(const nlohmann::json& json, TaskStatus* t) {
  if (!json.is_object()) return false;
  FieldReader r(json);
  r.Get("task", &t->task);
  r.Get("host", &t->host);
  r.Get("state", &t->state);
  r.Get("phase", &t->phase);
  r.Get("step", &t->step);
  r.Get("silent_seconds", &t->silent_seconds);
  r.Get("cores", &t->cores);
  r.Get("memory_bytes", &t->memory_bytes);
  r.Get("seen", &t->seen);
  return r.status("").ok();
}

}  // namespace

std::string ToStatusJson(const JobStatus& s) {
  FieldWriter w(kFormat);
  w.Put("time", s.time);
  w.PutIfTrue("gang", s.gang);
  w.Put("phase", s.phase);
  w.Put("line", s.line);
  w.Put("term", s.term);
  w.Put("view", s.view);
  w.Put("history", s.history);
  w.Put("step", s.step);
  w.Put("workers_wanted", s.workers_wanted);
  w.Put("restarts", s.restarts);
  w.Put("restarts_left", s.restarts_left);
  w.Put("incidents", s.incidents);
  if (s.checkpoint_step >= 0) w.Put("checkpoint_step", s.checkpoint_step);
  w.Put("checkpoint_path", s.checkpoint_path);
  if (s.checkpoint_step >= 0 || !s.checkpoint_path.empty()) {
    w.PutNumber("checkpoint_age_seconds", s.checkpoint_age_seconds);
  }
  if (s.gang) w.PutNumber("unsaved_seconds", s.unsaved_seconds);
  if (s.exit_code >= 0) w.Put("exit_code", s.exit_code);
  w.Put("reason", s.reason);
  w.json()["scalars"] = ToJson(s.scalars);
  auto& tasks = w.json()["tasks"] = nlohmann::ordered_json::array();
  for (const TaskStatus& task : s.tasks) tasks.push_back(ToJson(task));
  return Dump(w.json(), 2) + "\n";
}

absl::StatusOr<JobStatus> FromStatusJson(std::string_view text, const std::string& path) {
  EV_ASSIGN_OR_RETURN(const nlohmann::json json, ParseObject(text, kFormat, path));
  JobStatus s;
  FieldReader r(json);
  r.Require("phase");
  r.Get("time", &s.time);
  r.Get("gang", &s.gang);
  r.Get("phase", &s.phase);
  r.Get("line", &s.line);
  r.Get("term", &s.term);
  r.Get("view", &s.view);
  r.Get("history", &s.history);
  r.Get("step", &s.step);
  r.Get("workers_wanted", &s.workers_wanted);
  r.Get("restarts", &s.restarts);
  r.Get("restarts_left", &s.restarts_left);
  r.Get("incidents", &s.incidents);
  r.Get("checkpoint_step", &s.checkpoint_step);
  r.Get("checkpoint_path", &s.checkpoint_path);
  r.Get("checkpoint_age_seconds", &s.checkpoint_age_seconds);
  r.Get("unsaved_seconds", &s.unsaved_seconds);
  r.Get("exit_code", &s.exit_code);
  r.Get("reason", &s.reason);
  if (const nlohmann::json* scalars = r.Find("scalars")) {
    r.Check("scalars", FromJson(*scalars, &s.scalars));
  }
  if (const nlohmann::json* tasks = r.Find("tasks")) {
    r.Check("tasks", tasks->is_array());
    for (const nlohmann::json& task : *tasks) {
      r.Check("tasks", FromJson(task, &s.tasks.emplace_back()));
    }
  }
  EV_RETURN_IF_ERROR(r.status(path));
  return s;
}

}  // namespace everstep
