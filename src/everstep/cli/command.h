// cli: what the verbs share. Each verb is one file with a function
//   void Add<Verb>(CLI::App& root, Invocation* invocation);
// that adds its subcommand by AddVerb. Options are read as text, with their EVERSTEP_... variable
// behind them, so that every mistake becomes one line that names what was written.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/launch/version.h"

namespace everstep {

// Of verbs that run a job: a paragraph of their help, and what --resume does.
extern const char kExitCodes[];
extern const char kResumeHelp[];

// One run of the command.
struct Invocation {
  bool has_program = false;          // there was a "--"
  std::vector<std::string> program;  // what followed it
  int exit_code = 0;                 // set by the verb that ran
};

struct VerbText {
  const char* name;
  const char* summary;   // one line
  const char* group;     // heading in `everstep --help`
  const char* examples;  // lines, at the end of its help
  bool takes_program = false;
  // Where this is not empty when the verb runs, the program may be missing: the job knows it.
  const std::string* program_known = nullptr;
  const char* notes = "";  // paragraphs before the examples
};

// Adds the subcommand; `run` is called when it was chosen and its options were read, and gives the
// exit code. kInvalidArgument from the options' reading never gets there.
CLI::App& AddVerb(CLI::App& root, Invocation* invocation, const VerbText& text,
                  std::function<int()> run);

// A line for each EVERSTEP_ variable that is none: misspelt, it would be ignored in silence.
// job/README.md has the list of a job's; each verb's own options have one as well. AddVerb's verbs
// do it by themselves.
void WarnOfUnknownVariables(const CLI::App& root);

// --NAME VALUE as text; unset in the arguments, EVERSTEP_NAME; else what `value` holds already.
// `value` must live until the verb has run.
void AddText(CLI::App& verb, const std::string& name, const char* value_name, const char* help,
             std::string* value);
void AddSwitch(CLI::App& verb, const std::string& name, const char* help, bool* value);

// The options of JobOptionTable() with these names (all when empty), into `flags`.
void AddJobOptions(CLI::App& verb, const std::vector<std::string>& names,
                   std::map<std::string, std::string>* flags);

// Of an option of JobOptionTable(): it means something only to programs made with Everstep.
bool IsNativeOnly(std::string_view option);

// `text` as a whole number; the error names the option and has exit code 2.
absl::StatusOr<int> ReadNumber(const std::string& option, const std::string& text, int low,
                               int high);

// The words as a shell takes them.
std::string ShellQuoted(const std::vector<std::string>& words);

// The name in what HostIdentity says: "a" of "a/f5aa4fc6/4026531833".
std::string NameOfHost(const std::string& identity);

// "3 min": for people.
std::string AgeText(double seconds);

// Of two words, in letters to insert, delete, or change.
int EditDistance(const std::string& a, const std::string& b);

absl::Status UsageError(const std::string& text);  // exit code 2

// "everstep: <message>" as one line to standard error, unless it is OK; its exit code.
int Fail(const absl::Status& status);

// For verbs that look at files: whatever is wrong with them is bad data (65), not a wrong
// configuration (78) or our fault (70). Errors of the disk keep their code.
absl::Status AsBadData(const absl::Status& status);

// `status`, or that what was printed on standard output could not be written.
absl::Status WithOutput(absl::Status status);

// The verbs.
void AddRun(CLI::App& root, Invocation* invocation);
void AddAgent(CLI::App& root, Invocation* invocation);
void AddCoordinator(CLI::App& root, Invocation* invocation);
void AddStatus(CLI::App& root, Invocation* invocation);
void AddReport(CLI::App& root, Invocation* invocation);
void AddRecords(CLI::App& root, Invocation* invocation);
void AddCheckpoint(CLI::App& root, Invocation* invocation);
void AddConfig(CLI::App& root, Invocation* invocation);
void AddPythonPath(CLI::App& root, Invocation* invocation);

// The whole command.
int EverstepMain(int argc, char** argv);

}  // namespace everstep
