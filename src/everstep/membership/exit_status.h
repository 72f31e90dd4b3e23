// membership: what the status of a process that has ended means.
#pragma once

#include <string>

namespace everstep {

struct ExitMeaning {
  int code = 0;      // its own, or 128 + the signal's number
  int signal = 0;    // that ended it; 0: none
  std::string text;  // "exited with code 3", "was killed by signal 9 (SIGKILL)"
};

// `wait_status` as wait(2) gives it; `oom`: the kernel killed it for lack of memory.
ExitMeaning MeaningOf(int wait_status, bool oom = false);

}  // namespace everstep
