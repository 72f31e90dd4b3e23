// cluster: TF_CONFIG.
#include "everstep/cluster/tf_config.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/cluster/tf_config_json.h"
#include "everstep/cluster/tf_config_rules.h"
#include "everstep/cluster/tf_config_shape.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered Jobs(const ClusterSpec& cluster, bool trainers_only) {
  Ordered jobs = Ordered::object();
  for (const auto& [type, addresses] : cluster.jobs) {
    if (addresses.empty()) continue;
    if (!trainers_only || type == "chief" || type == "worker") jobs[type] = addresses;
  }
  return jobs;
}

// Whatever bytes somebody has in an address, no exception.
std::string Dump(const Ordered& json) {
  return json.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

std::string_view CodeOf(JsonError::Kind kind) {
  switch (kind) {
    case JsonError::kSyntax:
      return "EV102";
    case JsonError::kNotANumber:
      return "EV103";
    case JsonError::kTooLarge:
      return "EV104";
  }
  return "EV102";
}

TfConfig Assemble(const TfConfigParts& parts) {
  TfConfig config;
  for (const JobAt& job : parts.jobs) {
    for (const AddressAt& address : job.tasks) {
      config.cluster.jobs[job.type].push_back(address.text);
    }
  }
  config.task = parts.task;
  return config;
}

}  // namespace

int TfConfig::NumTrainers() const { return cluster.NumTasks("chief") + cluster.NumTasks("worker"); }

std::string WriteTfConfig(const ClusterSpec& cluster, const Task& task) {
  Ordered json;
  json["cluster"] = Jobs(cluster, false);
  json["task"]["type"] = task.type;
  json["task"]["index"] = task.index;
  return Dump(json);
}

std::string WriteCluster(const ClusterSpec& cluster) {
  Ordered json;
  json["cluster"] = Jobs(cluster, true);
  return Dump(json);
}

bool TfConfigReport::ok() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.error; });
}

TfConfigReport ExamineTfConfig(const std::optional<std::string>& value,
                               const ExamineOptions& options) {
  TfConfigReport report;
  if (!value.has_value()) return report;
  FindingList findings(*value);
  JsonValue top;
  if (absl::StripAsciiWhitespace(*value).empty()) {
    findings.Add("EV101", "TF_CONFIG", 0, "is set but empty, which TensorFlow cannot read",
                 "unset it for a process alone");
  } else if (const std::optional<JsonError> error = ParseJson(*value, &top)) {
    findings.Add(CodeOf(error->kind), "TF_CONFIG", error->offset, error->what, error->cure);
  } else {
    CheckSecrets(top, &findings);
    DropRepeatedKeys(&top, "", &findings);
    const TfConfigParts parts = ReadShape(top, &findings);
    CheckAddresses(parts, &findings);
    CheckRoles(parts, options.strategy, &findings);
    CheckProxies(parts, options, &findings);
    if (!findings.has_errors()) report.config = Assemble(parts);
  }
  report.findings = findings.Take();
  if (!report.ok()) report.config.reset();
  return report;
}

absl::StatusOr<std::optional<TfConfig>> ReadTfConfig(const std::optional<std::string>& value) {
  TfConfigReport report = ExamineTfConfig(value);
  for (const Finding& finding : report.findings) {
    if (!finding.error) continue;
    return WithExitCode(absl::InvalidArgumentError(finding.ToString()), kExitConfiguration);
  }
  return std::move(report.config);
}

}  // namespace everstep
