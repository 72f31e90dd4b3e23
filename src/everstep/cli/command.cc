// cli: what the verbs share.
#include "everstep/cli/command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/env/process.h"
#include "everstep/job/spec.h"

namespace everstep {

const char kExitCodes[] =
    R"(Exit codes: 0 the job is done, 2 usage, 65 bad data, 70 our fault, 75 could not start now,
78 configuration, 143 told to leave (run it again); a program's own failure gives its code,
a signal 128 + its number.

)";
const char kResumeHelp[] =
    "go on with the job in DIR (latest: the newest one under runs/) from its newest good "
    "checkpoint, or from exactly the one that is named";

namespace {

std::string Variable(const std::string& option) {
  return absl::StrCat("EVERSTEP_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(option, {{"-", "_"}})));
}

std::string Help(const std::string& help, const std::string& variable) {
  return absl::StrCat(help, " [", variable, "]");
}

// What follows "--" never reaches CLI11, so its usage line lacks it.
class ProgramFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, name);
    usage.insert(usage.find_last_not_of("\n") + 1, " -- PROGRAM [ARGUMENTS]");
    return usage;
  }
};

// The heading of a job's option in `everstep run --help`.
const char* GroupOf(std::string_view option) {
  for (const char* name : {"gang", "chief", "ps", "evaluator", "gpus-per-task", "checkpoint-path",
                           "warn-no-checkpoint", "hang-action", "hang-floor", "debug-libs"}) {
    if (option == name) return "Any program (gangs)";
  }
  const bool native =
      IsNativeOnly(option) || option == "threads-per-replica" || option == "cpu-baseline";
  return native ? "Training (programs made with Everstep)" : "The job";
}

constexpr char kVariables[] =
    "Each option can be set by the variable in brackets, too; where both are, the option wins.\n\n";

bool HasVariables(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    if (absl::StrContains(option->get_description(), " [EVERSTEP_")) return true;
  }
  return false;
}

}  // namespace

void WarnOfUnknownVariables(const CLI::App& root) {
  std::set<std::string> known = {
      "EVERSTEP_COORDINATOR", "EVERSTEP_INCARNATION", "EVERSTEP_SECRET_FILE", "EVERSTEP_JOB_TOKEN",
      "EVERSTEP_RESTORE_FROM", "EVERSTEP_BEGIN_FROM", "EVERSTEP_HEARTBEAT",
      // Who says where a process stands (cluster/resolver.h), and where programs meet.
      "EVERSTEP_RESOLVER", "EVERSTEP_CLUSTER_WORKERS", "EVERSTEP_CLUSTER_CHIEF",
      "EVERSTEP_CLUSTER_SIZE", "EVERSTEP_CLUSTER_PORT", "EVERSTEP_TASK", "EVERSTEP_SERVICE",
      "EVERSTEP_SLURM_PORT_BASE", "EVERSTEP_PORT", "EVERSTEP_SOCKET_IFNAME",
      "EVERSTEP_SOCKET_FAMILY", "EVERSTEP_JOIN_SECRET_FILE", "EVERSTEP_JOIN_DEADLINE",
      "EVERSTEP_INSECURE"};
  for (const JobOption& option : JobOptionTable()) known.insert(option.Variable());
  for (const CLI::App* verb : root.get_subcommands([](const CLI::App*) { return true; })) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (absl::StrContains(option->get_description(), Variable(name))) {
          known.insert(Variable(name));
        }
      }
    }
  }
  for (const auto& [name, value] : CurrentEnvironment()) {
    // The tests' own are no mistake.
    if (!absl::StartsWith(name, "EVERSTEP_") || known.count(name) != 0 ||
        absl::StartsWith(name, "EVERSTEP_TEST_") || name == "EVERSTEP_BIN") {
      continue;
    }
    std::string near;
    for (const std::string& other : known) {
      if (near.empty() && EditDistance(name, other) <= 2) near = other;
    }
    WriteAll(2, absl::StrCat("everstep: warning: ", name, " is not a variable of Everstep and is ",
                             "ignored", near.empty() ? "" : "; did you mean ", near,
                             near.empty() ? "" : "?", "\n"));
  }
}

CLI::App& AddVerb(CLI::App& root, Invocation* invocation, const VerbText& text,
                  std::function<int()> run) {
  CLI::App* verb = root.add_subcommand(text.name, text.summary);
  verb->group(text.group);
  verb->footer(std::string());  // not the root's, which a verb inherits
  verb->footer([verb, notes = text.notes, examples = text.examples] {
    return absl::StrCat(notes, HasVariables(*verb) ? kVariables : "", "Examples:\n", examples);
  });
  if (text.takes_program) verb->formatter(std::make_shared<ProgramFormatter>());
  const bool takes_program = text.takes_program;
  const std::string* const program_known = text.program_known;
  const std::string name = text.name;
  verb->callback([=, run = std::move(run)] {
    const bool needs_program =
        takes_program && (program_known == nullptr || program_known->empty());
    if (needs_program && invocation->program.empty()) {
      invocation->exit_code = Fail(UsageError(
          absl::StrCat("nothing to run: end the command with -- PROGRAM [ARGUMENTS] (see everstep ",
                       name, " --help)")));
    } else if (!takes_program && invocation->has_program) {
      invocation->exit_code =
          Fail(UsageError(absl::StrCat("everstep ", name, " takes no program behind --")));
    } else {
      // A coordinator that `everstep run` started has heard of it already.
      const CLI::Option* inner = verb->get_option_no_throw("--resolved");
      if (inner == nullptr || inner->count() == 0) WarnOfUnknownVariables(*verb->get_parent());
      invocation->exit_code = run();
    }
  });
  return *verb;
}

void AddText(CLI::App& verb, const std::string& name, const char* value_name, const char* help,
             std::string* value) {
  if (auto set = GetEnvironment(Variable(name)); set.has_value()) *value = *set;
  verb.add_option_function<std::string>(
          absl::StrCat("--", name), [value](const std::string& text) { *value = text; },
          Help(help, Variable(name)))
      ->type_name(value_name);
}

void AddSwitch(CLI::App& verb, const std::string& name, const char* help, bool* value) {
  const auto set = GetEnvironment(Variable(name));
  if (set.has_value()) *value = *set == "1" || *set == "true";
  verb.add_flag_callback(
          absl::StrCat("--", name), [value] { *value = true; }, Help(help, Variable(name)))
      ->disable_flag_override();
}

bool IsNativeOnly(std::string_view option) {
  for (const char* name : {"replicas", "seed", "checkpoint-every-steps", "checkpoint-every-seconds",
                           "keep-checkpoints", "keep-every-steps"}) {
    if (option == name) return true;
  }
  return false;
}

void AddJobOptions(CLI::App& verb, const std::vector<std::string>& names,
                   std::map<std::string, std::string>* flags) {
  for (const JobOption& option : JobOptionTable()) {
    const std::string name = option.name;
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    const std::string written = *option.short_flag == '\0'
                                    ? option.Flag()
                                    : absl::StrCat(option.short_flag, ",", option.Flag());
    const std::string help = Help(option.help, option.Variable());
    CLI::Option* added;
    if (*option.value == '\0') {
      added = verb.add_flag_callback(
                      written, [flags, name] { (*flags)[name] = "1"; }, help)
                  ->disable_flag_override();
    } else {
      added =
          verb.add_option_function<std::string>(
                  written, [flags, name](const std::string& text) { (*flags)[name] = text; }, help)
              ->type_name(option.value);
    }
    added->group(GroupOf(name));
  }
}

absl::StatusOr<int> ReadNumber(const std::string& option, const std::string& text, int low,
                               int high) {
  int value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return UsageError(absl::StrCat(option, " must be a whole number from ", low, " to ", high,
                                   ", not '", text, "'"));
  }
  return value;
}

std::string ShellQuoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return absl::ascii_isalnum(c) ||
             absl::StrContains("_@%+=:,./-",
                               absl::string_view(reinterpret_cast<const char*>(&c), 1));
    });
    absl::StrAppend(&line, line.empty() ? "" : " ");
    absl::StrAppend(
        &line, plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
  }
  return line;
}

std::string NameOfHost(const std::string& identity) {
  return identity.substr(0, identity.find('/'));
}

std::string AgeText(double seconds) {
  if (seconds < 60) return absl::StrCat(static_cast<int64_t>(seconds), " s");
  if (seconds < 3600) return absl::StrCat(static_cast<int64_t>(seconds / 60), " min");
  if (seconds < 48 * 3600) return absl::StrCat(static_cast<int64_t>(seconds / 3600), " h");
  return absl::StrCat(static_cast<int64_t>(seconds / 86400), " days");
}

int EditDistance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i));
    for (size_t j = 1; j <= b.size(); ++j) {
      const int changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row[b.size()];
}

absl::Status UsageError(const std::string& text) {
  return WithExitCode(absl::InvalidArgumentError(text), kExitUsage);
}

int Fail(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  const std::string line = absl::StrReplaceAll(status.message(), {{"\n", " "}, {"\r", " "}});
  WriteAll(2, absl::StrCat("everstep: ", line, "\n"));
  return ExitCodeFor(status);
}

absl::Status WithOutput(absl::Status status) {
  std::cout.flush();
  if (!status.ok() || std::cout.good()) return status;
  return absl::UnavailableError(
      "standard output cannot be written: the disk is full or it is closed");
}

absl::Status AsBadData(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
      // 78 that was set on purpose stays: PermissionDenied alone is 70.
      if (status.code() == absl::StatusCode::kPermissionDenied &&
          ExitCodeFor(status) == kExitConfiguration) {
        return status;
      }
      return WithExitCode(status, kExitBadData);
    default:
      return status;
  }
}

}  // namespace everstep
