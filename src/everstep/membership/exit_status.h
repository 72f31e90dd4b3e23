// membership: what the status of a process that has ended means.
#pragma once

#include <string>

namespace everstep {

struct ExitMeaning {
  int code = 0;           // its own, or 128 + the signal's number
  bool signaled = false;  // a signal ended it
  std::string text;       // "exited with code 3", "was killed by signal 9 (SIGKILL)"
};

// `wait_status` as wait(2) gives it.
ExitMeaning MeaningOf(int wait_status);

}  // namespace everstep
