// cli: the command: its arguments to a verb.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/cli/command.h"
#include "everstep/cli/config_make.h"
#include "everstep/cli/foreign_options.h"
#include "everstep/env/pipe.h"

namespace everstep {
namespace {

constexpr char kExamples[] = R"(Examples:
  everstep run -n 4 -- ./train --epochs 10
  everstep run -n 2 -- python3 train.py
  everstep run --resume latest
  everstep checkpoint digest runs/train-20260101-120000
  everstep config check --strategy mwms
)";

// "; did you mean --replicas?", or nothing when no option is near.
std::string OptionNear(const CLI::App& verb, const std::string& written) {
  const std::string word = written.substr(0, written.find('='));
  std::string best;
  int least = 3;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::string flag = absl::StrCat("--", name);
      const int distance = EditDistance(word, flag);
      if (option->get_group().empty() || distance >= least) continue;
      best = flag;
      least = distance;
    }
  }
  return best.empty() ? "" : absl::StrCat("; did you mean ", best, "?");
}

// "run", "records import idx": the verbs that were chosen, and the last of them.
std::string ChosenVerbs(const CLI::App** verb) {
  std::string names;
  while (!(*verb)->get_subcommands().empty()) {
    *verb = (*verb)->get_subcommands().front();
    absl::StrAppend(&names, names.empty() ? "" : " ", (*verb)->get_name());
  }
  return names;
}

// Where in the arguments the program begins that stands there without a "--".
size_t ProgramAt(const std::vector<std::string>& arguments, const std::string& program) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    // Behind an option it would be the option's value.
    if (arguments[i] == program &&
        (i == 1 || arguments[i - 1].front() != '-' || arguments[i - 1] == "--insecure" ||
         absl::StrContains(arguments[i - 1], "="))) {
      return i;
    }
  }
  return arguments.size();
}

// For an option that another launcher has: what to do here.
std::string HintFor(const CLI::App& verb, const std::string& option,
                    const std::vector<std::string>& arguments) {
  const std::string name = verb.get_name();
  if (name == "make") return ConfigMakeHint(option);
  if (name != "run" && name != "agent" && name != "coordinator") return "";
  const auto at = std::find(arguments.begin(), arguments.end(), option);
  const bool value = at != arguments.end() && at + 1 != arguments.end();
  return ForeignHint(name, option, value ? *(at + 1) : "");
}

// "--max_restarts" as "--max-restarts", where the verb has that. What stands behind a '=' stays.
void AcceptUnderscores(const CLI::App& root, std::vector<std::string>* arguments) {
  const CLI::App* verb = &root;
  for (std::string& argument : *arguments) {
    const auto named = [&](const CLI::App* app) { return app->get_name() == argument; };
    const auto next = verb->get_subcommands(named);
    if (!next.empty()) {
      verb = next.front();
      continue;
    }
    const size_t end = argument.find('=');
    const std::string name = argument.substr(0, end);
    if (!absl::StartsWith(name, "--") || !absl::StrContains(name, "_")) continue;
    const std::string ours = absl::StrReplaceAll(name, {{"_", "-"}});
    if (verb->get_option_no_throw(ours) == nullptr) continue;
    argument = end == std::string::npos ? ours : absl::StrCat(ours, argument.substr(end));
  }
}

// "-np 4" would be read as -n with the value "p".
absl::Status CheckForNp(const std::vector<std::string>& arguments) {
  const auto np = std::find_if(arguments.begin(), arguments.end(), [](const std::string& a) {
    return a == "-np" || absl::StartsWith(a, "-np=");
  });
  if (np == arguments.end() || arguments.front() == "records" ||
      arguments.front() == "checkpoint" || arguments.front() == "config") {
    return absl::OkStatus();
  }
  const std::string value = np + 1 == arguments.end() ? "" : *(np + 1);
  return UsageError(absl::StrCat("there is no option ", *np, "; ",
                                 ForeignHint(arguments.front(), *np, value), " (see everstep ",
                                 arguments.front(), " --help)"));
}

// What is wrong with the first argument that CLI11 did not understand.
std::string Unexpected(const CLI::App& verb, const std::string& argument,
                       const std::vector<std::string>& arguments, const Invocation& invocation) {
  if (argument.front() == '-') {
    const std::string near = OptionNear(verb, argument);
    const std::string hint = HintFor(verb, argument, arguments);
    // A word that another launcher has is not misspelt.
    return absl::StrCat("there is no option ", argument,
                        hint.empty() ? near : absl::StrCat("; ", hint));
  }
  const bool takes_program = verb.get_name() == "run" || verb.get_name() == "agent";
  const size_t at = ProgramAt(arguments, argument);
  if (!takes_program || invocation.has_program || at == arguments.size()) {
    return absl::StrCat("unexpected '", argument, "'");
  }
  const std::vector<std::string> ours(arguments.begin(), arguments.begin() + at);
  const std::vector<std::string> theirs(arguments.begin() + at, arguments.end());
  return absl::StrCat("unexpected '", argument, "'; put the program behind --: everstep ",
                      ShellQuoted(ours), " -- ", ShellQuoted(theirs));
}

// The verbs of the command line, down to the last one: each must be there and known.
absl::Status CheckVerbs(const CLI::App& root, const std::vector<std::string>& arguments) {
  const CLI::App* app = &root;
  std::string path;
  for (size_t i = 0;; ++i) {
    const auto verbs = app->get_subcommands([](const CLI::App*) { return true; });
    if (verbs.empty() || (i == 0 && arguments.empty())) return absl::OkStatus();
    if (i < arguments.size() && !arguments[i].empty() && arguments[i].front() == '-') {
      return absl::OkStatus();  // --help, or CLI11 refuses it
    }
    std::string names;
    const CLI::App* chosen = nullptr;
    for (const CLI::App* verb : verbs) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", verb->get_name());
      if (i < arguments.size() && verb->get_name() == arguments[i]) chosen = verb;
    }
    if (chosen == nullptr && app == &root) {
      return UsageError(
          absl::StrCat("there is no verb '", arguments[i], "'; everstep --help lists them"));
    }
    if (chosen == nullptr) {
      const std::string what =
          i < arguments.size() ? absl::StrCat("has no '", arguments[i], "'") : "lacks its verb";
      return UsageError(absl::StrCat(path, " ", what, "; it has: ", names));
    }
    absl::StrAppend(&path, path.empty() ? "" : " ", arguments[i]);
    app = chosen;
  }
}

}  // namespace

int EverstepMain(int argc, char** argv) {
  Invocation invocation;
  // What follows "--" is the program's: none of it is ours to understand.
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end()) {
    invocation.has_program = true;
    invocation.program.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }

  CLI::App root(
      "Everstep trains neural networks on many machines, with the same bits on any number.",
      "everstep");
  root.set_version_flag("--version", absl::StrCat("everstep ", kVersion));
  root.footer(absl::StrCat("`everstep VERB --help` says more.\n\n", kExitCodes, kExamples));
  root.require_subcommand(1);
  AddRun(root, &invocation);
  AddAgent(root, &invocation);
  AddCoordinator(root, &invocation);
  AddStatus(root, &invocation);
  AddReport(root, &invocation);
  AddRecords(root, &invocation);
  AddCheckpoint(root, &invocation);
  AddConfig(root, &invocation);
  AddPythonPath(root, &invocation);

  const absl::Status verbs = CheckVerbs(root, arguments);
  if (!verbs.ok()) return Fail(verbs);
  const absl::Status np = CheckForNp(arguments);
  if (!np.ok()) return Fail(np);
  AcceptUnderscores(root, &arguments);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    root.parse(reversed);
  } catch (const CLI::Success& success) {  // --help, --version
    return root.exit(success);
  } catch (const CLI::ParseError& error) {
    if (arguments.empty()) {
      WriteAll(2, root.help());
      return kExitUsage;
    }
    const CLI::App* verb = &root;
    const std::string names = ChosenVerbs(&verb);
    std::string text = error.what();
    const std::vector<std::string> left = root.remaining(/*recurse=*/true);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
      text = Unexpected(*verb, left.front(), arguments, invocation);
    }
    return Fail(UsageError(
        absl::StrCat(text, " (see everstep ", names, names.empty() ? "" : " ", "--help)")));
  }
  return invocation.exit_code;
}

}  // namespace everstep
