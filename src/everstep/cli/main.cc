// cli: the command: its arguments to a verb.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/cli/command.h"
#include "everstep/env/pipe.h"

namespace everstep {
namespace {

constexpr char kFooter[] = R"(`everstep VERB --help` says more.

Exit codes: 0 the job is done, 2 usage, 65 bad data, 70 our fault, 75 could not start now,
78 configuration, 143 told to leave (run it again); a program's own failure gives its code,
a signal 128 + its number.

Examples:
  everstep run -n 4 -- ./train --epochs 10
  everstep run -n 2 -- python3 train.py
  everstep checkpoint digest runs/train-20260101-120000
)";

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

  CLI::App root("Everstep trains neural networks on many machines and does not stop.", "everstep");
  root.set_version_flag("--version", absl::StrCat("everstep ", kVersion));
  root.footer(kFooter);
  root.require_subcommand(1);
  AddRun(root, &invocation);
  AddAgent(root, &invocation);
  AddCoordinator(root, &invocation);
  AddRecords(root, &invocation);
  AddCheckpoint(root, &invocation);

  if (!arguments.empty() && arguments[0].front() != '-') {
    const auto verbs = root.get_subcommands([](CLI::App*) { return true; });
    const bool known = std::any_of(verbs.begin(), verbs.end(), [&](const CLI::App* verb) {
      return verb->get_name() == arguments[0];
    });
    if (!known) {
      return Fail(UsageError(
          absl::StrCat("there is no verb '", arguments[0], "'; everstep --help lists them")));
    }
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    root.parse(arguments);
  } catch (const CLI::Success& success) {  // --help, --version
    return root.exit(success);
  } catch (const CLI::ParseError& error) {
    if (arguments.empty()) {
      WriteAll(2, root.help());
      return kExitUsage;
    }
    std::string text = absl::StrReplaceAll(error.what(), {{"\n", " "}});
    const CLI::App* verb = &root;
    for (const CLI::App* chosen : root.get_subcommands()) verb = chosen;
    return Fail(UsageError(absl::StrCat(text, " (see everstep ",
                                        verb == &root ? "" : verb->get_name() + " ", "--help)")));
  }
  return invocation.exit_code;
}

}  // namespace everstep
