// job: JobSpec, resolved.
#include "everstep/job/spec.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/environment.h"
#include "everstep/job/spec_fields.h"

namespace everstep {
namespace {

absl::Status CheckSpares(const JobSpec& spec, const char* cure, int exit_code) {
  const int spares = spec.workers - spec.replicas;
  if (spares <= 0) return absl::OkStatus();
  return WithExitCode(absl::InvalidArgumentError(absl::StrCat(
                          "--replicas ", spec.replicas, " with -n ", spec.workers, ": ", spares,
                          " of the workers would be spares, with no replica to run; give -n ",
                          spec.replicas, cure)),
                      exit_code);
}

// A native program has workers only.
absl::Status CheckRoles(JobSpec* spec, int exit_code) {
  if (spec->Tasks() > spec->workers) spec->gang = true;
  // Of a gang's training nothing is known: it has no replicas to share out.
  if (spec->gang) spec->replicas = spec->workers;
  if (spec->parameter_servers == 0 || spec->chiefs == 1) return absl::OkStatus();
  return WithExitCode(
      absl::InvalidArgumentError("--ps needs a chief, who coordinates the workers: add --chief 1"),
      exit_code);
}

// What depends on other values.
absl::Status Complete(JobSpec* spec, int exit_code) {
  if (spec->origins["replicas"] == "default") spec->replicas = spec->workers;
  if (spec->origins["seed"] == "default") {
    spec->seed = RandomBits64() >> 32;
    spec->origins["seed"] = "drawn";
  }
  EV_RETURN_IF_ERROR(CheckRoles(spec, exit_code));
  return CheckSpares(*spec, absl::StrCat(" or --replicas ", spec->workers, " or more").c_str(),
                     exit_code);
}

struct Given {
  std::string text;
  std::string as_written;  // "-n", "EVERSTEP_WORKERS"
  const char* origin;
  int exit_code;  // when it is wrong
};

std::optional<Given> GivenFor(const Field& field, const std::map<std::string, std::string>& flags,
                              const Environment& environment) {
  if (auto flag = flags.find(field.option.name); flag != flags.end()) {
    return Given{flag->second, WrittenFlag(field.option), "flag", kExitUsage};
  }
  if (auto value = environment(field.option.Variable()); value.has_value()) {
    return Given{*value, field.option.Variable(), "environment", kExitConfiguration};
  }
  return std::nullopt;
}

// `spec` holds the job's own value.
absl::Status CheckFixed(const Field& field, const Given& given, const JobSpec& spec) {
  JobSpec other = spec;
  EV_RETURN_IF_ERROR(
      WithExitCode(ReadField(field, given.text, given.as_written, &other), given.exit_code));
  if (field.write(other) == field.write(spec)) return absl::OkStatus();
  return WithExitCode(
      absl::InvalidArgumentError(absl::StrCat(
          given.as_written, " says ", field.write(other), ", but ", field.write(spec),
          " is the job's ", field.option.name, " for its whole life; leave ", given.as_written,
          given.exit_code == kExitUsage ? " out" : " unset", ", or begin another job")),
      given.exit_code);
}

}  // namespace

std::string JobOption::Flag() const { return absl::StrCat("--", name); }

std::string JobOption::Variable() const {
  return absl::StrCat("EVERSTEP_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

absl::Span<const JobOption> JobOptionTable() {
  static const auto* const table = [] {
    auto* options = new std::vector<JobOption>;
    for (const Field& field : JobFields()) options->push_back(field.option);
    return options;
  }();
  return *table;
}

absl::StatusOr<JobSpec> ResolveJob(const std::map<std::string, std::string>& flags,
                                   const Environment& environment) {
  JobSpec spec;
  for (const Field& field : JobFields()) {
    spec.origins[field.option.name] = "default";
    const std::optional<Given> given = GivenFor(field, flags, environment);
    if (!given.has_value()) continue;
    EV_RETURN_IF_ERROR(
        WithExitCode(ReadField(field, given->text, given->as_written, &spec), given->exit_code));
    spec.origins[field.option.name] = given->origin;
  }
  EV_RETURN_IF_ERROR(Complete(&spec, kExitUsage));
  return spec;
}

absl::StatusOr<JobSpec> ResolveAgain(const JobSpec& job, const JobSpec& last,
                                     const std::map<std::string, std::string>& flags,
                                     const Environment& environment) {
  JobSpec spec = last;
  int exit_code = kExitConfiguration;
  for (const Field& field : JobFields()) {
    const std::string name = field.option.name;
    // Both were read before, so they are read again.
    if (field.fixed) {
      EV_RETURN_IF_ERROR(field.read(field.write(job), &spec));
      if (auto origin = job.origins.find(name); origin != job.origins.end()) {
        spec.origins[name] = origin->second;
      }
    }
    const std::optional<Given> given = GivenFor(field, flags, environment);
    // What somebody said then is the job's now.
    std::string& origin = spec.origins[name];
    if (origin == "flag" || origin == "environment") origin = "job";
    if (!given.has_value() || name == "job-dir") continue;
    if (field.fixed) {
      EV_RETURN_IF_ERROR(CheckFixed(field, *given, spec));
      continue;
    }
    EV_RETURN_IF_ERROR(
        WithExitCode(ReadField(field, given->text, given->as_written, &spec), given->exit_code));
    spec.origins[name] = given->origin;
    if (name == "workers") exit_code = given->exit_code;
  }
  EV_RETURN_IF_ERROR(CheckRoles(&spec, exit_code));
  EV_RETURN_IF_ERROR(
      CheckSpares(spec, " or fewer: a job's replicas stay what they are", exit_code));
  return spec;
}

absl::StatusOr<JobSpec> JobFromEnvironment(int workers, const Environment& environment) {
  JobSpec spec;
  spec.workers = workers;
  for (const Field& field : JobFields()) {
    const JobOption& option = field.option;
    spec.origins[option.name] = "default";
    if (!option.for_workers) continue;
    if (auto value = environment(option.Variable()); value.has_value()) {
      EV_RETURN_IF_ERROR(ReadField(field, *value, option.Variable(), &spec));
      spec.origins[option.name] = "environment";
    }
  }
  spec.restore_from = environment(kRestoreFromVariable).value_or("");
  spec.begin_from = environment(kBeginFromVariable).value_or("");
  EV_RETURN_IF_ERROR(Complete(&spec, kExitConfiguration));
  return spec;
}

std::map<std::string, std::string> ToSettings(const JobSpec& spec) {
  std::map<std::string, std::string> settings;
  for (const Field& field : JobFields()) {
    const std::string value = field.write(spec);
    // Where "not said" means something, a variable of the agent's own must not say otherwise.
    const bool always = std::string_view(field.option.name) == "checkpoint-every-seconds";
    if (field.option.for_workers && (always || !value.empty())) {
      settings[field.option.Variable()] = value;
    }
  }
  settings[kRestoreFromVariable] = spec.restore_from;
  settings[kBeginFromVariable] = spec.begin_from;
  return settings;
}

}  // namespace everstep
