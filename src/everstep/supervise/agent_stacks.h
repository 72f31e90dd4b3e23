// supervise: what the processes of a task are doing, found out beside the agent's loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/env/fd.h"
#include "everstep/env/file.h"
#include "everstep/membership/messages.h"
#include "everstep/supervise/output.h"

namespace everstep {

struct StacksWanted {
  Incarnation incarnation = 0;
  pid_t leader = 0;  // must stay unreaped while they are taken
  std::shared_ptr<Capture> capture;
  std::string path;  // of the file for all of it; empty: none
};

// Of a Python process with a fault handler it is the stacks of Python's threads, for which the
// process pays with its life (SIGABRT); of others the native ones, for which it only waits. From
// Begin on all of them stand still, and they are looked at a moment later: so those of several
// tasks whose stacks are wanted together do not die of each other's end first.
//
// One thread, except for `on_news`.
class StackTaker {
 public:
  // `on_news`, from any thread: Take has something.
  StackTaker(FileSystem& fs, std::function<void()> on_news);
  // Waits at most two seconds for each that is at it; one that hangs longer is left behind.
  ~StackTaker();

  void Begin(StacksWanted wanted);
  bool IsTaking(Incarnation incarnation) const;
  // What has been taken since. The text of one that takes longer than all its limits is an excuse.
  std::vector<Stacks> Take();

 private:
  struct Work;

  FileSystem& fs_;
  const std::function<void()> on_news_;
  struct Running {
    std::shared_ptr<Work> work;
    std::thread thread;
    Deadline given_up_at;
  };
  std::map<Incarnation, Running> running_;
};

}  // namespace everstep
