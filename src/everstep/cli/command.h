// cli: what all verbs share. A verb lives in one file and has one function
//   void AddVERB(CLI::App& app, SetExit set_exit);
// which adds its subcommand, options and help, and says by set_exit how the program is to end.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace everstep {

// Called at most once, by the verb that ran.
using SetExit = std::function<void(int code)>;

// The end of a verb: prints "everstep: MESSAGE" as one line on standard error unless `status` is
// OK; returns the exit code that it stands for.
int Finish(const absl::Status& status);

// For verbs that look at files: whatever is wrong with them is bad data (65), not a wrong
// configuration (78) or our fault (70). Errors of the disk keep their code.
absl::Status AsBadData(const absl::Status& status);

}  // namespace everstep
