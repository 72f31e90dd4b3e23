// job: resolved.json.
#include "everstep/job/resolved.h"

#include "everstep/base/status.h"
#include "everstep/job/json_fields.h"
#include "everstep/job/spec_fields.h"

namespace everstep {
namespace {

constexpr char kFormat[] = "everstep.job.v1";

nlohmann::ordered_json ValueOf(const Field& field, const JobSpec& spec) {
  const std::string value = field.write(spec);
  if (value.empty()) return nullptr;
  switch (field.kind) {
    case FieldKind::kNumber:
      return nlohmann::ordered_json::parse(value, nullptr, false);
    case FieldKind::kBool:
      return value == "1";
    case FieldKind::kText:
      break;
  }
  return value;
}

// False: it is damaged.
bool ReadOption(const Field& field, const nlohmann::json& entry, JobSpec* spec) {
  if (!entry.is_object() || !entry.contains("value") || !entry.contains("from") ||
      !entry["from"].is_string()) {
    return false;
  }
  const nlohmann::json& value = entry["value"];
  spec->origins[field.option.name] = entry["from"].get<std::string>();
  if (value.is_null()) return true;
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return field.read(text, spec).ok();
}

}  // namespace

std::string ToResolvedJson(const ResolvedJob& job) {
  nlohmann::ordered_json options;
  for (const Field& field : JobFields()) {
    auto& entry = options[field.option.name];
    entry["value"] = ValueOf(field, job.spec);
    auto origin = job.spec.origins.find(field.option.name);
    entry["from"] = origin == job.spec.origins.end() ? "default" : origin->second;
  }
  FieldWriter w(kFormat);
  w.Put("version", job.version);
  w.Put("time", job.time);
  w.PutWords("program", job.program);
  w.Put("directory", job.working_directory);
  w.Put("restore_from", job.spec.restore_from);
  w.Put("begin_from", job.spec.begin_from);
  w.json()["options"] = options;
  return Dump(w.json(), 2) + "\n";
}

absl::StatusOr<ResolvedJob> FromResolvedJson(std::string_view text, const std::string& path) {
  EV_ASSIGN_OR_RETURN(const nlohmann::json json, ParseObject(text, kFormat, path));
  ResolvedJob job;
  FieldReader r(json);
  r.Get("version", &job.version);
  r.Get("time", &job.time);
  r.GetWords("program", &job.program);
  r.Get("directory", &job.working_directory);
  r.Get("restore_from", &job.spec.restore_from);
  r.Get("begin_from", &job.spec.begin_from);
  r.Require("options");
  const nlohmann::json* options = r.Find("options");
  r.Check("options", options != nullptr && options->is_object());
  EV_RETURN_IF_ERROR(r.status(path));
  for (const Field& field : JobFields()) {
    const auto entry = options->find(field.option.name);
    job.spec.origins[field.option.name] = "default";
    if (entry != options->end()) r.Check(field.option.name, ReadOption(field, *entry, &job.spec));
  }
  EV_RETURN_IF_ERROR(r.status(path));
  return job;
}

}  // namespace everstep
