// cli: config's verbs: their options, and the files they read and write.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/cli/config.h"
#include "everstep/cli/config_make.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "everstep/env/pipe.h"

namespace everstep {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostBytes = 1 << 20;  // of a file

// The file, or standard input; a little more than can be right.
absl::StatusOr<std::string> ReadInput(const std::string& file) {
  std::string all;
  if (file == "-") {
    char buffer[4096];
    ptrdiff_t count = 0;
    while (static_cast<int64_t>(all.size()) <= kMostBytes &&
           (count = ReadSome(0, buffer, sizeof buffer)) > 0) {
      all.append(buffer, static_cast<size_t>(count));
    }
  } else {
    if (RealFileSystem().IsDirectory(file)) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": it is a directory, not a file"));
    }
    EV_ASSIGN_OR_RETURN(const auto opened, RealFileSystem().OpenForReading(file));
    if (opened->size() <= kMostBytes) {
      EV_ASSIGN_OR_RETURN(all, ReadWholeFile(RealFileSystem(), file));
    } else {
      all.resize(kMostBytes + 1);
    }
  }
  if (static_cast<int64_t>(all.size()) > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": it is over ", kMostBytes, " bytes; that is no TF_CONFIG"));
  }
  return all;
}

struct ConfigOptions {
  std::string strategy, file, port = "2222", out, format = "json", task;
  bool json = false, strict = false, force = false;
  ConfigRequest request;
};

absl::Status RunShow(const ConfigOptions& o) {
  EV_ASSIGN_OR_RETURN(const StrategyKind strategy, ReadStrategy(o.strategy));
  return ShowConfig({strategy, o.json, o.strict}, RealSurroundings(), std::cout);
}

absl::Status RunCheck(const ConfigOptions& o) {
  EV_ASSIGN_OR_RETURN(const StrategyKind strategy, ReadStrategy(o.strategy));
  const ShowOptions options{strategy, o.json, o.strict};
  if (o.file.empty()) {
    const std::optional<std::string> value = GetEnvironment("TF_CONFIG");
    ConfigText text;
    if (value.has_value()) text = PlainConfig(*value);
    return CheckConfig(value ? &text : nullptr, "TF_CONFIG", options, RealSurroundings(),
                       std::cout);
  }
  absl::StatusOr<std::string> all = ReadInput(o.file);
  if (!all.ok()) return AsBadData(all.status());
  const ConfigText text = UnwrapConfig(*std::move(all));
  return CheckConfig(&text, o.file == "-" ? "standard input" : o.file, options, RealSurroundings(),
                     std::cout);
}

std::string Dump(const ordered_json& json) { return json.dump(2) + "\n"; }

void PrintMade(const ConfigOptions& o, const MadeConfigs& made,
               const std::vector<std::string>& paths) {
  if (o.json) {
    ordered_json json = ordered_json::object();
    for (const MadeConfig& one : made.tasks) {
      json[one.task.ToString()] = ordered_json::parse(one.text);
    }
    std::cout << Dump(json);
    return;
  }
  size_t width = 0;
  for (const MadeConfig& one : made.tasks) width = std::max(width, one.task.ToString().size());
  for (size_t i = 0; i < made.tasks.size(); ++i) {
    const MadeConfig& one = made.tasks[i];
    const std::string text = o.format == "env" ? AsVariable(one.text) : one.text;
    const std::string name = one.task.ToString();
    if (o.task.empty()) std::cout << name << std::string(width - name.size() + 2, ' ');
    std::cout << (paths.empty() ? text : paths[i]) << "\n";
  }
}

absl::Status RunMake(ConfigOptions o) {
  EV_ASSIGN_OR_RETURN(o.request.strategy, ReadStrategy(o.strategy));
  EV_ASSIGN_OR_RETURN(o.request.port, ReadNumber("--port", o.port, 1, 65535));
  if (o.format != "json" && o.format != "env") {
    return UsageError(absl::StrCat("--format must be json or env, not '", o.format, "'"));
  }
  o.request.environment = GetEnvironment;
  EV_ASSIGN_OR_RETURN(MadeConfigs made, MakeConfigs(o.request));
  std::string said;
  for (const Finding& finding : made.findings) {
    absl::StrAppend(&said, "everstep: ", finding.error ? "" : "warning: ", finding.ToString(),
                    "\n");
  }
  WriteAll(2, said);
  if (!made.ok()) {
    return WithExitCode(absl::FailedPreconditionError(absl::StrCat(
                            "nothing was made: ", Summary(made.findings), " in this cluster")),
                        kExitConfiguration);
  }
  if (!o.task.empty()) {
    std::vector<MadeConfig> one;
    for (MadeConfig& each : made.tasks) {
      if (each.task.ToString() == o.task) one.push_back(std::move(each));
    }
    if (one.empty()) {
      return UsageError(absl::StrCat("--task: there is no ", o.task, " in this cluster; tasks are ",
                                     made.tasks.front().task.ToString(), " to ",
                                     made.tasks.back().task.ToString()));
    }
    made.tasks = std::move(one);
  }
  std::vector<std::string> paths, strays;
  if (!o.out.empty()) {
    EV_ASSIGN_OR_RETURN(paths, WriteConfigs(RealFileSystem(), made.tasks, o.out, o.format == "env",
                                            o.force, &strays));
    for (const std::string& stray : o.task.empty() ? strays : std::vector<std::string>()) {
      WriteAll(2, absl::StrCat("everstep: warning: ", stray, " is of no task of this cluster\n"));
    }
  }
  PrintMade(o, made, paths);
  return absl::OkStatus();
}

constexpr char kConfigFooter[] =
    R"(Exit codes: 0 good, 2 usage, 65 a file cannot be read, 78 the configuration is wrong.
docs/config-codes.md has each code (EV101 ...) with its cause and its cure.

Examples:
  everstep config show
  everstep config check --strategy mwms
  everstep config check worker-1.json
  everstep config make --workers h1:2222,h2:2222
  everstep config make --chief h0 --workers h1,h2 --ps h3 --evaluator h4 --out configs
  TF_CONFIG=$(everstep config make --workers h1,h2 --task worker:0) python3 train.py
)";

void AddMake(CLI::App* config, const std::shared_ptr<ConfigOptions>& o,
             std::function<void(CLI::App*, absl::Status (*)(const ConfigOptions&))> finish) {
  CLI::App* make = config->add_subcommand("make", "Make the TF_CONFIG of each task of a cluster");
  const auto list = [&](const char* name, std::string* value, const char* help) {
    make->add_option(name, *value, help)->type_name("HOST[:PORT],...");
  };
  list("--workers", &o->request.workers, "who train");
  list("--chief", &o->request.chief, "one who trains and saves; with --ps: who gives out the work");
  list("--ps", &o->request.ps, "who hold the variables (ParameterServerStrategy)");
  list("--evaluator", &o->request.evaluator,
       "who evaluates beside the training; in no other's cluster");
  make->add_option("--port", o->port, "of addresses that have none (2222)")->type_name("PORT");
  make->add_option("--task", o->task, "only this one, printed without its name")
      ->type_name("TYPE:INDEX");
  make->add_option("--format", o->format, "json, or env: TF_CONFIG='...' for a shell")
      ->type_name("json|env");
  make->add_option("--out", o->out, "write files worker-0.json (worker-0.env), ... into it")
      ->type_name("DIR");
  make->add_flag("--force", o->force, "replace files that say something else");
  make->footer(R"(An IPv6 address has brackets: [fd00::1]:2222.

Examples:
  everstep config make --workers h1:2222,h2:2222
  everstep config make --workers h1,h2 --format env --out configs
  everstep config make --chief h0 --workers h1,h2 --ps h3 --evaluator h4 --json
)");
  finish(make, [](const ConfigOptions& options) { return RunMake(options); });
}

}  // namespace

void AddConfig(CLI::App& app, Invocation* invocation) {
  CLI::App* config = app.add_subcommand("config", "Explain, check and make TF_CONFIG");
  config->group("Clusters");
  config->require_subcommand(1);
  config->footer(kConfigFooter);
  const auto o = std::make_shared<ConfigOptions>();
  const auto finish = [o, invocation, &app](CLI::App* verb,
                                            absl::Status (*run)(const ConfigOptions&)) {
    verb->add_option("--strategy", o->strategy,
                     "mwms: MultiWorkerMirroredStrategy, ps: ParameterServerStrategy; their rules "
                     "are checked, too")
        ->type_name("mwms|ps");
    verb->add_flag("--json", o->json, "for scripts");
    verb->callback([o, invocation, run, &app] {
      if (invocation->has_program) {
        invocation->exit_code = Fail(UsageError("everstep config takes no program behind --"));
        return;
      }
      WarnOfUnknownVariables(app);
      invocation->exit_code = Fail(WithOutput(run(*o)));
    });
  };
  CLI::App* show = config->add_subcommand("show", "Explain this process's place in its cluster");
  show->footer(
      R"(It looks at the environment as a program would that is started here: TF_CONFIG, Slurm, Kubernetes,
EVERSTEP_COORDINATOR.

Examples:
  everstep config show
  srun -n 2 everstep config show
  kubectl exec train-1 -- everstep config show --json
)");
  finish(show, RunShow);
  CLI::App* check = config->add_subcommand("check", "Say what is wrong with a TF_CONFIG");
  check->add_option(
      "FILE", o->file,
      "the JSON, or a line TF_CONFIG='...'; -: standard input; none: the environment");
  check->add_flag("--strict", o->strict, "warnings are errors");
  check->footer(R"(Examples:
  everstep config check --strategy mwms
  everstep config check worker-1.json
  kubectl exec train-1 -- printenv TF_CONFIG | everstep config check -
)");
  finish(check, RunCheck);
  AddMake(config, o, finish);
}

}  // namespace everstep
