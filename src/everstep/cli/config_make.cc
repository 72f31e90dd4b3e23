// cli: config make.
#include "everstep/cli/config_make.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

constexpr const char* kTypes[] = {"chief", "worker", "ps", "evaluator"};

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// "host" and "[::1]" get the port; what has colons is left for the checks of addresses.
std::string WithPort(const std::string& address, int port) {
  const bool none = !absl::StrContains(address, ":") ||
                    (absl::StartsWith(address, "[") && absl::EndsWith(address, "]"));
  return none ? absl::StrCat(address, ":", port) : address;
}

absl::StatusOr<std::vector<std::string>> ReadList(const char* option, const std::string& written,
                                                  int port) {
  std::vector<std::string> addresses;
  if (written.empty()) return addresses;
  for (absl::string_view part : absl::StrSplit(written, ',')) {
    const std::string address(absl::StripAsciiWhitespace(part));
    if (address.empty()) {
      return UsageError(absl::StrCat(option, ": there is an empty address in the list; write ",
                                     "HOST:PORT,HOST:PORT"));
    }
    if (IsNumber(address)) {
      return UsageError(absl::StrCat(option, " takes addresses, not ", address,
                                     "; there are as many tasks as addresses: ", option,
                                     " host1:", port, ",host2:", port));
    }
    addresses.push_back(WithPort(address, port));
  }
  return addresses;
}

// What Examine says of `text`, as far as it is not there yet. The text is ours: its lines help
// nobody.
void AddFindings(const std::string& text, const ConfigRequest& request, StrategyKind strategy,
                 bool errors_only, std::vector<Finding>* findings) {
  ExamineOptions options;
  options.strategy = strategy;
  options.environment = request.environment;
  for (Finding& finding : ExamineTfConfig(text, options).findings) {
    if (errors_only && !finding.error) continue;
    finding.line = finding.column = 0;
    const bool known = std::any_of(findings->begin(), findings->end(), [&](const Finding& other) {
      return other.code == finding.code && other.where == finding.where;
    });
    if (!known) findings->push_back(std::move(finding));
  }
}

// A made file: "worker-3.json" for extension ".json".
bool IsConfigName(absl::string_view name, const std::string& extension) {
  if (!absl::ConsumeSuffix(&name, extension)) return false;
  for (const char* type : kTypes) {
    absl::string_view index = name;
    if (absl::ConsumePrefix(&index, absl::StrCat(type, "-")) && IsNumber(std::string(index))) {
      return true;
    }
  }
  return false;
}

// The absolute truth about one path: nothing there, the same, or something else (refused).
absl::StatusOr<bool> IsThere(FileSystem& fs, const std::string& path, const std::string& contents,
                             bool force) {
  if (!fs.Exists(path)) return false;
  const absl::StatusOr<std::string> found = ReadWholeFile(fs, path);
  if (found.ok() && *found == contents) return true;
  if (force && !fs.IsDirectory(path)) return false;
  return WithExitCode(
      absl::FailedPreconditionError(
          absl::StrCat(path, ": it is there already and says something else; --force replaces it")),
      kExitConfiguration);
}

struct Meant {
  const char* names;  // with dashes for underscores, separated by spaces
  const char* text;
};
constexpr Meant kMeant[] = {
    {"worker-hosts worker hosts", "it is --workers here: --workers h1:2222,h2:2222"},
    {"ps-hosts ps-servers", "it is --ps here: --ps h3:2222"},
    {"chief-hosts chief-host master master-host coordinator",
     "it is --chief here (TensorFlow 2 knows no master): --chief h0:2222"},
    {"evaluator-hosts evaluator-host eval", "it is --evaluator here: --evaluator h4:2222"},
    {"num-workers num-ps num-chief nworkers worker-replicas ps-replicas replicas n",
     "there are as many tasks as addresses: --workers h1:2222,h2:2222"},
    {"job-name task-type task-index task-id type index",
     "the TF_CONFIGs of all tasks are made at once; --task worker:0 prints that of one"},
    {"hostfile machinefile nodelist",
     "hosts are named on the command line: --workers \"$(paste -sd, FILE)\""},
    {"output output-dir o", "it is --out here: --out DIR"},
    {"ports base-port worker-port", "it is --port here, for the addresses that have none"},
};

}  // namespace

bool MadeConfigs::ok() const {
  return std::none_of(findings.begin(), findings.end(), [](const Finding& f) { return f.error; });
}

absl::StatusOr<MadeConfigs> MakeConfigs(const ConfigRequest& request) {
  const std::pair<const char*, const std::string*> lists[] = {{"--chief", &request.chief},
                                                              {"--workers", &request.workers},
                                                              {"--ps", &request.ps},
                                                              {"--evaluator", &request.evaluator}};
  ClusterSpec all, trainers, evaluators;
  for (size_t i = 0; i < std::size(lists); ++i) {
    EV_ASSIGN_OR_RETURN(std::vector<std::string> addresses,
                        ReadList(lists[i].first, *lists[i].second, request.port));
    if (addresses.empty()) continue;
    const std::string type = kTypes[i];
    (type == "evaluator" ? evaluators : trainers).jobs[type] = addresses;
    all.jobs[type] = std::move(addresses);
  }
  if (trainers.NumTasks("worker") + trainers.NumTasks("chief") == 0) {
    return UsageError("nobody trains: --workers HOST:PORT,HOST:PORT says who");
  }
  StrategyKind strategy = request.strategy;
  if (strategy == StrategyKind::kUnknown) {
    strategy = trainers.NumTasks("ps") > 0 ? StrategyKind::kParameterServer
                                           : StrategyKind::kMultiWorkerMirrored;
  }

  MadeConfigs made;
  for (const char* type : kTypes) {
    const bool apart = std::string_view(type) == "evaluator";
    const ClusterSpec& cluster = apart ? evaluators : trainers;
    for (int index = 0; index < cluster.NumTasks(type); ++index) {
      const Task task{type, index};
      made.tasks.push_back({task, WriteTfConfig(cluster, task)});
      // The evaluator's cluster is its own, and knows nothing of a strategy.
      if (index == 0) {
        AddFindings(made.tasks.back().text, request, apart ? StrategyKind::kUnknown : strategy,
                    /*errors_only=*/false, &made.findings);
      }
    }
  }
  // An address that both the evaluator and a trainer have is in neither's cluster twice.
  if (made.ok() && !evaluators.jobs.empty()) {
    AddFindings(WriteTfConfig(all, made.tasks.front().task), request, StrategyKind::kUnknown,
                /*errors_only=*/true, &made.findings);
  }
  return made;
}

std::string AsVariable(const std::string& text) {
  return absl::StrCat("TF_CONFIG='", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::StatusOr<std::vector<std::string>> WriteConfigs(FileSystem& fs,
                                                      const std::vector<MadeConfig>& tasks,
                                                      const std::string& directory,
                                                      bool as_variables, bool force,
                                                      std::vector<std::string>* strays) {
  const std::string extension = as_variables ? ".env" : ".json";
  struct File {
    std::string path, contents;
    bool there;
  };
  std::vector<File> files;
  for (const MadeConfig& made : tasks) {
    File file;
    file.path = JoinPath(directory, absl::StrCat(made.task.type, "-", made.task.index, extension));
    file.contents = (as_variables ? AsVariable(made.text) : made.text) + "\n";
    EV_ASSIGN_OR_RETURN(file.there, IsThere(fs, file.path, file.contents, force));
    files.push_back(std::move(file));
  }
  EV_RETURN_IF_ERROR(fs.CreateDirectories(directory));
  std::vector<std::string> paths;
  for (const File& file : files) {
    if (!file.there) EV_RETURN_IF_ERROR(PublishFile(fs, file.path, file.contents));
    paths.push_back(file.path);
  }
  EV_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(directory));
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory, name);
    const bool ours = std::find(paths.begin(), paths.end(), path) != paths.end();
    if (!ours && IsConfigName(name, extension)) strays->push_back(path);
  }
  return paths;
}

std::string ConfigMakeHint(const std::string& option) {
  std::string name = option.substr(0, option.find('='));
  name = absl::StrReplaceAll(name.substr(std::min(name.size(), name.find_first_not_of('-'))),
                             {{"_", "-"}});
  for (const Meant& meant : kMeant) {
    for (absl::string_view word : absl::StrSplit(meant.names, ' ')) {
      if (word == name) return meant.text;
    }
  }
  return "";
}

}  // namespace everstep
