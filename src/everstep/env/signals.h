// env: SIGTERM and SIGINT as a wish to leave, for a process that finishes its step first.
#pragma once

#include <atomic>

namespace everstep {

// From now on the first SIGTERM or SIGINT sets `*flag`; another one 2 s or more after it ends the
// process at once with code 143 (one sooner is the same wish heard twice: a terminal's Ctrl-C and
// its launcher). `flag` must live until the process ends or the next call; null restores the
// default. Process-wide.
void LeaveOnSignal(std::atomic<bool>* flag);

}  // namespace everstep
