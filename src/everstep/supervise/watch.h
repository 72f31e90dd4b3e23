// supervise: watches the processes of one host, that may know nothing of Everstep: what is seen of
// them from outside, what they say of themselves by heartbeats, and what they save.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/base/view.h"
#include "everstep/env/file.h"
#include "everstep/membership/messages.h"

namespace everstep {

struct WatchOptions {
  std::string job_directory;  // its logs and checkpoints are not the program's files
  Duration interval = std::chrono::seconds(1);  // between looks; files are searched every ten
  FileSystem* fs = nullptr;                     // null: the real one
};

// Any thread may call; nothing here waits for a process, for /proc or for a file system: a thread
// of its own looks at processes and hears heartbeats, another one looks for files.
class Watch {
 public:
  // `on_news`: there is something to take; from any thread, until the destructor returns. It must
  // not call this object.
  Watch(WatchOptions options, std::function<void()> on_news);
  ~Watch();  // leaves a look that hangs behind after 2 s
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Before a process is started: what it needs in its environment. Both are empty when they could
  // not be made: then the process is watched from outside only.
  struct Endpoint {
    std::string heartbeat;    // for EVERSTEP_HEARTBEAT
    std::string python_path;  // a directory with everstep_heartbeat.py, for PYTHONPATH
  };
  Endpoint Expect(Incarnation incarnation);

  // It was started; its settings say EVERSTEP_HANG_FLOOR and EVERSTEP_CHECKPOINT_PATH. `pid` is a
  // child that is not reaped before Remove.
  void Add(const Spawn& spawn, pid_t pid);
  void SawOutput(Incarnation incarnation, size_t bytes);  // cheap
  void Remove(Incarnation incarnation);

  // Vitals of each process about once a second (the latest of each), CheckpointSeen.
  std::vector<AgentMessage> Take();

  // Verifies the newest checkpoints that were seen, as far as they are TensorFlow's: for the time
  // between two lives. In the background, for at most 30 s; on_news when it is done.
  void VerifyNewest();
  bool Verifying() const;
  // What is damaged, and which older one is good; once for each state of its files.
  std::vector<Note> TakeNotes();

  struct State;  // shared by its parts, in watch_state.h
  struct Files;
  struct Pulse;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace everstep
