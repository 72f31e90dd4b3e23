// env: processes that somebody else has started: what one may do to them, and ask of them. What
// cannot be seen, because the process has ended or is another user's, is as if it were not there.
// Any thread. VariableOf waits for the process's memory lock, as process_tree.h says.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace everstep {

void SignalPidFd(int pid_fd, int signal);  // no effect once it has exited

bool CatchesSignal(pid_t pid, int signal);  // it has a handler for it

// From now on its death leaves no file of its memory.
void ForbidCoreDump(pid_t pid);

// In the environment that it was started with.
std::optional<std::string> VariableOf(pid_t pid, const std::string& name);

// What its descriptor is of: a path, or "pipe:[123]". Empty: it has no such one.
std::string DescriptorOf(pid_t pid, int descriptor);

}  // namespace everstep
