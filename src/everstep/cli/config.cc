// cli: config.
#include "everstep/cli/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/cli/command.h"
#include "everstep/cli/config_make.h"
#include "everstep/cluster/explain.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

constexpr char kSecretCode[] = "EV402";  // docs/config-codes.md

std::string Dump(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int Errors(const std::vector<Finding>& findings) {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(),
                                        [](const Finding& finding) { return finding.error; }));
}

std::string Counted(int count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

std::string Summary(const std::vector<Finding>& findings) {
  const int errors = Errors(findings), warnings = static_cast<int>(findings.size()) - errors;
  if (findings.empty()) return "nothing is wrong";
  if (errors == 0) return Counted(warnings, "warning");
  return absl::StrCat(Counted(errors, "error"),
                      warnings > 0 ? ", " + Counted(warnings, "warning") : "");
}

namespace {

absl::Status WrongConfiguration(const std::string& text) {
  return WithExitCode(absl::FailedPreconditionError(text), kExitConfiguration);
}

// `source`: where the text was read.
void PrintFindings(const std::vector<Finding>& findings, const ConfigText* text,
                   const std::string& source, std::ostream& out) {
  std::set<int> secret;  // lines
  for (const Finding& finding : findings) {
    if (finding.code == kSecretCode) secret.insert(finding.line);
  }
  for (const Finding& finding : findings) {
    out << (finding.error ? "error " : "warning ") << finding.ToString(source) << "\n";
    if (text != nullptr && secret.count(finding.line) == 0) out << Excerpt(*text, finding);
  }
}

ordered_json ToJson(const std::vector<Finding>& findings) {
  ordered_json list = ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"code", finding.code},
                    {"error", finding.error},
                    {"where", finding.where},
                    {"line", finding.line},
                    {"column", finding.column},
                    {"what", finding.what},
                    {"cure", finding.cure}});
  }
  return list;
}

// The keys of the place; all null where there is none.
void AddPlace(const TfConfig* config, ordered_json* json) {
  for (const char* key : {"cluster", "task", "chief", "is_chief", "rank", "num_trainers"}) {
    (*json)[key] = nullptr;
  }
  if (config == nullptr) return;
  const PlaceFacts facts = FactsOf(*config);
  (*json)["cluster"] = config->cluster.jobs;
  if (config->task.has_value()) {
    (*json)["task"] = {{"type", config->task->type}, {"index", config->task->index}};
  }
  if (!facts.chief.empty()) (*json)["chief"] = facts.chief;
  (*json)["is_chief"] = facts.is_chief;
  if (facts.rank >= 0) (*json)["rank"] = facts.rank;
  (*json)["num_trainers"] = facts.num_trainers;
}

TfConfigReport Examine(const std::optional<std::string>& value, const ShowOptions& options,
                       const Surroundings& surroundings) {
  ExamineOptions examine;
  examine.strategy = options.strategy;
  examine.environment = surroundings.environment;
  return ExamineTfConfig(value, examine);
}

// Nothing for a place without a cluster.
std::string TfConfigOf(const Place& place) {
  if (place.cluster.jobs.empty() || !place.task.has_value()) return "";
  ClusterSpec cluster = place.cluster;
  if (place.task->type != "evaluator") cluster.jobs.erase("evaluator");
  return WriteTfConfig(cluster, *place.task);
}

// Where a program made with Everstep would meet the others.
std::string CoordinatorText(const Place& place, const Surroundings& surroundings) {
  const bool trains =
      !place.task.has_value() || place.task->type == "chief" || place.task->type == "worker";
  if (place.coordinator.empty() || !trains || place.cluster.NumTasks("ps") > 0) return "";
  std::string text = absl::StrCat("A program made with Everstep would meet the others at the ",
                                  "coordinator ", place.coordinator);
  if (place.source == PlaceSource::kDiscovery) return text + ", which tells it its place.\n";
  if (surroundings.environment("EVERSTEP_COORDINATOR").has_value()) {
    return text + ", as EVERSTEP_COORDINATOR says.\n";
  }
  const std::string chief = FactsOf({place.cluster, place.task}).chief;
  return absl::StrCat(text, ", which ",
                      place.starts_coordinator ? "this process" : chief + "'s process",
                      " starts (EVERSTEP_COORDINATOR=HOST:PORT names another).\n");
}

struct Shown {
  absl::StatusOr<Place> place;
  std::optional<TfConfig> config;
  std::string tf_config;  // what the place amounts to
  ConfigText text;        // of the variable, where it is the source
  std::vector<Finding> findings;
};

Shown Look(const ShowOptions& options, const Surroundings& surroundings) {
  Shown shown{ResolvePlace(surroundings), std::nullopt, "", {}, {}};
  const std::optional<std::string> value = surroundings.environment("TF_CONFIG");
  // Alone, with a TF_CONFIG that nobody said to leave alone: it has no cluster, which may be wrong.
  const bool alone = shown.place.ok() && shown.place->source == PlaceSource::kAlone;
  const bool by_variable =
      !shown.place.ok() || alone
          ? value.has_value() &&
                !(alone && surroundings.environment("EVERSTEP_RESOLVER").value_or("") == "alone")
          : shown.place->source == PlaceSource::kTfConfig;
  TfConfigReport report;
  if (by_variable) {
    shown.text = PlainConfig(value.value_or(""));
    report = Examine(value, options, surroundings);
  } else if (shown.place.ok()) {
    shown.tf_config = TfConfigOf(*shown.place);
    if (!shown.tf_config.empty()) report = Examine(shown.tf_config, options, surroundings);
    for (Finding& finding : report.findings) finding.line = finding.column = 0;
  }
  if (!alone) shown.config = std::move(report.config);
  shown.findings = std::move(report.findings);
  return shown;
}

void PrintPlace(const Shown& shown, const ShowOptions& options, const Surroundings& surroundings,
                std::ostream& out) {
  const Place& place = *shown.place;
  switch (place.source) {
    case PlaceSource::kAlone:
      out << "Nobody says that there are others: this process trains alone.\n";
      break;
    case PlaceSource::kDiscovery:
      out << "EVERSTEP_COORDINATOR alone is set: the coordinator says which task this process "
             "is.\n";
      break;
    default:
      out << "Source: " << NameOf(place.source) << "\n";
  }
  if (shown.config.has_value()) {
    const std::string text = ExplainPlace(*shown.config, options.strategy);
    out << text << (text.empty() || text.back() == '\n' ? "" : "\n");
  }
  out << CoordinatorText(place, surroundings);
  for (const std::string& note : place.notes) out << "Note: " << note << "\n";
  if (!shown.tf_config.empty()) out << "It amounts to " << AsVariable(shown.tf_config) << "\n";
}

ordered_json ToJson(const Shown& shown, bool ok) {
  ordered_json json = {{"ok", ok}};
  json["source"] = shown.place.ok() ? ordered_json(NameOf(shown.place->source)) : ordered_json();
  if (!shown.place.ok()) json["why"] = std::string(shown.place.status().message());
  json["findings"] = ToJson(shown.findings);
  AddPlace(shown.config ? &*shown.config : nullptr, &json);
  if (!shown.place.ok()) return json;
  if (!shown.place->coordinator.empty()) {
    json["coordinator"] = shown.place->coordinator;
    json["starts_coordinator"] = shown.place->starts_coordinator;
  }
  json["notes"] = shown.place->notes;
  if (!shown.tf_config.empty()) json["tf_config"] = shown.tf_config;
  return json;
}

}  // namespace

absl::StatusOr<StrategyKind> ReadStrategy(const std::string& written) {
  if (written.empty()) return StrategyKind::kUnknown;
  if (written == "mwms") return StrategyKind::kMultiWorkerMirrored;
  if (written == "ps") return StrategyKind::kParameterServer;
  return UsageError(absl::StrCat(
      "--strategy must be mwms (MultiWorkerMirroredStrategy) or ps (ParameterServerStrategy), ",
      "not '", written, "'"));
}

PlaceFacts FactsOf(const TfConfig& config) {
  PlaceFacts facts;
  facts.num_trainers = config.NumTrainers();
  const int chiefs = config.cluster.NumTasks("chief");
  if (!config.task.has_value()) {
    facts.is_chief = config.cluster.jobs.empty();  // a process alone is its own
    if (facts.is_chief) facts.rank = 0;
    return facts;
  }
  const Task& task = *config.task;
  if (task.type == "evaluator") {
    return {task.ToString(), true, task.index, facts.num_trainers};
  }
  if (chiefs > 0 || config.cluster.NumTasks("worker") > 0) {
    facts.chief = chiefs > 0 ? "chief:0" : "worker:0";
  }
  facts.is_chief = task.ToString() == facts.chief;
  if (task.type == "chief") facts.rank = 0;
  if (task.type == "worker") facts.rank = task.index + chiefs;
  return facts;
}

absl::Status CheckConfig(const ConfigText* text, const std::string& name,
                         const ShowOptions& options, const Surroundings& surroundings,
                         std::ostream& out) {
  TfConfigReport report =
      Examine(text == nullptr ? std::nullopt : std::optional<std::string>(text->value), options,
              surroundings);
  if (text != nullptr) MovePlaces(*text, &report.findings);
  const bool ok = report.ok() && !(options.strict && !report.findings.empty());
  if (options.json) {
    ordered_json json = {{"ok", ok}, {"source", name}};
    json["findings"] = ToJson(report.findings);
    AddPlace(report.config ? &*report.config : nullptr, &json);
    json["notes"] = ordered_json::array();
    if (text == nullptr) json["notes"].push_back("TF_CONFIG is not set");
    if (text != nullptr && !text->note.empty()) json["notes"].push_back(text->note);
    out << Dump(json);
  } else {
    if (text != nullptr && !text->note.empty()) out << name << ": " << text->note << "\n";
    PrintFindings(report.findings, text, name, out);
    if (text == nullptr) {
      out << "TF_CONFIG is not set: for TensorFlow this is a process alone\n";
    } else if (ok) {
      out << name << ": " << Summary(report.findings) << "\n";
    }
  }
  if (ok) return absl::OkStatus();
  return WrongConfiguration(absl::StrCat(name, ": ", Summary(report.findings),
                                         report.ok() ? ", and --strict takes none" : ""));
}

absl::Status ShowConfig(const ShowOptions& options, const Surroundings& surroundings,
                        std::ostream& out) {
  const Shown shown = Look(options, surroundings);
  const bool ok = shown.place.ok() && Errors(shown.findings) == 0;
  if (options.json) {
    out << Dump(ToJson(shown, ok));
  } else {
    if (ok) PrintPlace(shown, options, surroundings, out);
    PrintFindings(shown.findings, shown.text.value.empty() ? nullptr : &shown.text, "TF_CONFIG",
                  out);
  }
  if (ok) return absl::OkStatus();
  if (Errors(shown.findings) > 0) {
    return WrongConfiguration(
        absl::StrCat("this process's place cannot be told: ", Summary(shown.findings)));
  }
  return WithExitCode(shown.place.status(), kExitConfiguration);
}

}  // namespace everstep
