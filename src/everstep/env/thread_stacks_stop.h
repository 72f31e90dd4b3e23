// env: stopping all threads of a process to look at them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "everstep/base/clock.h"

namespace everstep {

struct ThreadOfOther {
  pid_t tid = 0;
  std::string name;
  char state = '?';     // before it was stopped, as ps(1) has it
  std::string waiting;  // the function of the kernel that it is in; empty: none, or not told
};
// The main thread first. Empty when the process has ended.
std::vector<ThreadOfOther> ThreadsOf(pid_t pid);

// Stops the threads when made, and lets them go on when destroyed, with the signals that came
// meanwhile. Both, and what uses the threads, in one thread, which has to end soon afterwards: the
// kernel lets go of a thread that it could not stop (asleep on a disk) only then.
class StoppedThreads {
 public:
  StoppedThreads(pid_t pid, Deadline deadline);
  ~StoppedThreads();
  StoppedThreads(const StoppedThreads&) = delete;

  // Why none could be taken hold of; empty: some were.
  const std::string& refused() const { return refused_; }
  bool IsStopped(pid_t tid) const;

 private:
  struct Held {
    pid_t tid;
    bool stopped = false;
    bool gone = false;
    int signal = 0;  // that came while it was held
  };

  bool Seize();  // false: no new ones
  bool AwaitStops(Deadline deadline);

  const pid_t pid_;
  std::string refused_;
  std::vector<Held> held_;
};

}  // namespace everstep
