// env: what every thread of another process is doing, seen from outside by ptrace.
#pragma once

#include <sys/types.h>

#include <string>

#include "everstep/base/clock.h"

namespace everstep {

// A text for people: of each thread its name and its stack, innermost frame first, with functions,
// and lines where there is debug information; threads that do the same stand together. The process
// waits while it is looked at, mostly a few milliseconds, and then goes on as before: one that a
// signal has stopped stays stopped. Where this is not allowed, the text says so, and what else is
// known of its threads. Returns within `patience` and a second. Not for a thread that must not
// wait.
std::string NativeStacks(pid_t pid, Duration patience = std::chrono::seconds(3));

}  // namespace everstep
