// cli: the command: its arguments to a verb.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/cli/command.h"
#include "everstep/env/pipe.h"

namespace everstep {
namespace {

constexpr char kExamples[] = R"(Examples:
  everstep run -n 4 -- ./train --epochs 10
  everstep run -n 2 -- python3 train.py
  everstep run --resume latest
  everstep checkpoint digest runs/train-20260101-120000
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

// What is wrong with the first argument that CLI11 did not understand.
std::string Unexpected(const CLI::App& verb, const std::string& argument,
                       const std::vector<std::string>& arguments, const Invocation& invocation) {
  if (argument.front() == '-') {
    return absl::StrCat("there is no option ", argument, OptionNear(verb, argument));
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

  const absl::Status verbs = CheckVerbs(root, arguments);
  if (!verbs.ok()) return Fail(verbs);
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
