// job: JobSpec: its options, each with one way to read and one way to write it.
#include "everstep/job/spec.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

constexpr char kFormat[] = "everstep.job.v1";

absl::Status Wanted(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status ReadInt(const std::string& text, int64_t low, int64_t high, int64_t* out) {
  int64_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return Wanted(absl::StrCat("a whole number from ", low, " to ", high));
  }
  *out = value;
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadInto(const std::string& text, int64_t low, int64_t high, T* out) {
  int64_t value = 0;
  EV_RETURN_IF_ERROR(ReadInt(text, low, high, &value));
  *out = static_cast<T>(value);
  return absl::OkStatus();
}

absl::Status ReadSeconds(const std::string& text, double low, double high, Duration* out) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds >= low && seconds <= high)) {
    return Wanted(absl::StrCat("seconds from ", low, " to ", high));
  }
  *out = Duration(std::llround(seconds * 1e9));
  return absl::OkStatus();
}

std::string WriteSeconds(Duration d) { return absl::StrCat(ToSeconds(d)); }

absl::Status ReadChoice(const std::string& text, std::initializer_list<const char*> choices,
                        std::string* out) {
  std::string list;
  for (const char* choice : choices) {
    if (text == choice) {
      *out = text;
      return absl::OkStatus();
    }
    absl::StrAppend(&list, list.empty() ? "" : ", ", choice);
  }
  return Wanted(absl::StrCat("one of ", list));
}

absl::Status ReadPortRange(const std::string& text, PortRange* out) {
  const size_t dash = text.find('-');
  PortRange range;
  if (dash == std::string::npos || !ReadInto(text.substr(0, dash), 1, 65535, &range.first).ok() ||
      !ReadInto(text.substr(dash + 1), 1, 65535, &range.last).ok() || range.first > range.last) {
    return Wanted("two ports FIRST-LAST, e.g. 29710-29799");
  }
  *out = range;
  return absl::OkStatus();
}

absl::Status ReadBool(const std::string& text, bool* out) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower != "1" && lower != "0" && lower != "true" && lower != "false") return Wanted("1 or 0");
  *out = lower == "1" || lower == "true";
  return absl::OkStatus();
}

struct Field {
  JobOption option;
  bool number;  // in JSON
  absl::Status (*read)(const std::string& text, JobSpec* spec);
  std::string (*write)(const JobSpec& spec);  // empty: not said
};

#define EV_READ [](const std::string& text, JobSpec* spec) -> absl::Status
#define EV_WRITE [](const JobSpec& spec) -> std::string

const Field kFields[] = {{{"workers", "-n", "N", "worker processes (default 1)", false}, true,
                          EV_READ{return ReadInto(text, 1, 100000, &spec->workers);
}  // namespace
, EV_WRITE { return absl::StrCat(spec.workers); }
}  // namespace everstep
, {{"replicas", "", "R", "logical shares of the global batch, fixed for the job (default N)", true},
   true, EV_READ{return ReadInto(text, 1, 1000000, &spec->replicas);
}
, EV_WRITE { return absl::StrCat(spec.replicas); }
}
, {{"seed", "", "S", "of everything random in training (default: a random one)", true}, true,
   EV_READ{return ReadInto(text, 0, INT64_MAX, &spec->seed);
}
, EV_WRITE { return absl::StrCat(spec.seed); }
}
, {{"job-dir", "", "DIR", "the job's directory (default runs/PROGRAM-TIME)", true}, false,
   EV_READ{if (text.empty()) return Wanted("a directory");
spec->directory = AbsolutePath(text);
return absl::OkStatus();
}
, EV_WRITE { return spec.directory; }
}
, {{"threads-per-replica", "", "T", "threads that compute one replica (default 1)", true}, true,
   EV_READ{return ReadInto(text, 1, 4096, &spec->threads_per_replica);
}
, EV_WRITE { return absl::StrCat(spec.threads_per_replica); }
}
, {{"cpu-baseline", "", "B", "native, avx512 or avx2: what all machines lower themselves to", true},
   false, EV_READ{return ReadChoice(text, {"native", "avx512", "avx2"}, &spec->cpu_baseline);
}
, EV_WRITE { return spec.cpu_baseline; }
}
, {{"port", "", "P", "the coordinator's (default 29700, or any when that is taken)", false}, true,
   EV_READ{int port = 0;
EV_RETURN_IF_ERROR(ReadInto(text, 1, 65535, &port));
spec->port = port;
return absl::OkStatus();
}
, EV_WRITE { return spec.port.has_value() ? absl::StrCat(*spec.port) : std::string(); }
}
, {{"port-range", "", "A-B", "of the workers' ports (default 29710-29799)", true}, false,
   EV_READ{return ReadPortRange(text, &spec->port_range);
}
, EV_WRITE { return absl::StrCat(spec.port_range.first, "-", spec.port_range.last); }
}
, {{"lost-after", "", "SECONDS", "a peer that is silent so long is given up (default 2)", true},
   true, EV_READ{return ReadSeconds(text, 0.1, 86400, &spec->lost_after);
}
, EV_WRITE { return WriteSeconds(spec.lost_after); }
}
, {{"grace-seconds", "", "G", "between asking a process to leave and killing it (default 25)",
    true},
   true, EV_READ{return ReadSeconds(text, 0, 86400, &spec->grace);
}
, EV_WRITE { return WriteSeconds(spec.grace); }
}
, {{"log-level", "", "L", "debug, info, warning, error or off (default warning)", true}, false,
   EV_READ{return ReadChoice(text, {"debug", "info", "warning", "error", "off"}, &spec->log_level);
}
, EV_WRITE { return spec.log_level; }
}
, {{"insecure", "", "", "talk beyond this machine although it is not encrypted", true}, false,
   EV_READ{return ReadBool(text, &spec->insecure);
}
, EV_WRITE { return std::string(spec.insecure ? "1" : "0"); }
}
,
}
;
#undef EV_READ
#undef EV_WRITE

// `as_written` names the flag or variable the value came from.
absl::Status ReadField(const Field& field, const std::string& text, const std::string& as_written,
                       JobSpec* spec) {
  const absl::Status status = field.read(text, spec);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(as_written, " must be ", status.message(), ", not '", text, "'"));
}

// What depends on other values.
absl::Status Complete(JobSpec* spec, int exit_code) {
  if (spec->origins["replicas"] == "default") spec->replicas = spec->workers;
  if (spec->origins["seed"] == "default") spec->seed = RandomBits64() >> 32;
  if (spec->replicas < spec->workers) {
    return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                            "--replicas ", spec->replicas, " with -n ", spec->workers, ": ",
                            spec->workers - spec->replicas,
                            " of the workers would be spares, with no replica to run; give -n ",
                            spec->replicas, " or --replicas ", spec->workers, " or more")),
                        exit_code);
  }
  return absl::OkStatus();
}

}  // namespace

std::string JobOption::Flag() const { return absl::StrCat("--", name); }

std::string JobOption::Variable() const {
  return absl::StrCat("EVERSTEP_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

absl::Span<const JobOption> JobOptionTable() {
  static const auto* const table = [] {
    auto* options = new std::vector<JobOption>;
    for (const Field& field : kFields) options->push_back(field.option);
    return options;
  }();
  return *table;
}

absl::StatusOr<JobSpec> ResolveJob(const std::map<std::string, std::string>& flags,
                                   const Environment& environment) {
  JobSpec spec;
  for (const Field& field : kFields) {
    const JobOption& option = field.option;
    spec.origins[option.name] = "default";
    if (auto flag = flags.find(option.name); flag != flags.end()) {
      const std::string written =
          *option.short_flag != '\0' ? std::string(option.short_flag) : option.Flag();
      const absl::Status status = ReadField(field, flag->second, written, &spec);
      if (!status.ok()) return WithExitCode(status, kExitUsage);
      spec.origins[option.name] = "flag";
    } else if (auto value = environment(option.Variable()); value.has_value()) {
      EV_RETURN_IF_ERROR(ReadField(field, *value, option.Variable(), &spec));
      spec.origins[option.name] = "environment";
    }
  }
  EV_RETURN_IF_ERROR(Complete(&spec, kExitUsage));
  return spec;
}

absl::StatusOr<JobSpec> JobFromEnvironment(int workers, const Environment& environment) {
  JobSpec spec;
  spec.workers = workers;
  for (const Field& field : kFields) {
    const JobOption& option = field.option;
    spec.origins[option.name] = "default";
    if (!option.for_workers) continue;
    if (auto value = environment(option.Variable()); value.has_value()) {
      EV_RETURN_IF_ERROR(ReadField(field, *value, option.Variable(), &spec));
      spec.origins[option.name] = "environment";
    }
  }
  EV_RETURN_IF_ERROR(Complete(&spec, kExitConfiguration));
  return spec;
}

std::map<std::string, std::string> ToSettings(const JobSpec& spec) {
  std::map<std::string, std::string> settings;
  for (const Field& field : kFields) {
    const std::string value = field.write(spec);
    if (field.option.for_workers && !value.empty()) settings[field.option.Variable()] = value;
  }
  return settings;
}

std::string ToResolvedJson(const JobSpec& spec, std::string_view version,
                           const std::vector<std::string>& program) {
  nlohmann::ordered_json options;
  for (const Field& field : kFields) {
    const std::string value = field.write(spec);
    auto& entry = options[field.option.name];
    entry["value"] = nullptr;
    if (!value.empty()) {
      entry["value"] = field.number ? nlohmann::ordered_json::parse(value, nullptr, false)
                                    : nlohmann::ordered_json(value);
    }
    auto origin = spec.origins.find(field.option.name);
    entry["from"] = origin == spec.origins.end() ? "default" : origin->second;
  }
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["version"] = std::string(version);
  json["program"] = program;
  json["options"] = options;
  // Arguments may be any bytes; what is not UTF-8 is shown by replacement characters.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<JobSpec> FromResolvedJson(std::string_view text, const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const absl::Status bad =
      absl::DataLossError(absl::StrCat(path, " is not a job's resolved.json of this version"));
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat ||
      !json.contains("options") || !json["options"].is_object()) {
    return bad;
  }
  JobSpec spec;
  for (const Field& field : kFields) {
    const auto entry = json["options"].find(field.option.name);
    if (entry == json["options"].end() || !entry->is_object() || !entry->contains("value") ||
        !entry->contains("from") || !(*entry)["from"].is_string()) {
      return bad;
    }
    const nlohmann::json& value = (*entry)["value"];
    spec.origins[field.option.name] = (*entry)["from"].get<std::string>();
    if (value.is_null()) continue;
    const std::string as_text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!field.read(as_text, &spec).ok()) return bad;
  }
  return spec;
}

}  // namespace everstep
