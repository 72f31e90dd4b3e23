// supervise: what the parts of Watch share. The threads hold it too: it outlives the Watch when one
// of them hangs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "everstep/env/clock.h"
#include "everstep/env/datagram.h"
#include "everstep/env/fd.h"
#include "everstep/supervise/checkpoint_finder.h"
#include "everstep/supervise/heartbeat_socket.h"
#include "everstep/supervise/progress_limit.h"
#include "everstep/supervise/watch.h"

namespace everstep {

struct Watch::State {
  static constexpr Duration kVerifyPatience = std::chrono::seconds(30);

  // One process; made by Expect.
  struct Process {
    Incarnation incarnation = 0;
    std::unique_ptr<HeartbeatSocket> socket;  // the pulse reads it
    std::atomic<int64_t> output{0};           // bytes

    // Under the mutex:
    pid_t pid = 0;  // 0: not started yet
    ProgressFloors floors;
    std::string checkpoint_path;
    double started = 0;       // seconds since 1970
    std::vector<pid_t> pids;  // as the pulse found them
    bool wrote = false;
    bool files_grew = false;  // since the pulse asked
  };
  using ProcessPtr = std::shared_ptr<Process>;

  State(WatchOptions o, std::function<void()> news)
      : options(std::move(o)), on_news(std::move(news)) {}

  void Say();  // on_news, unless the Watch is gone
  bool Stopped() const;
  // For Take; and ends a verification whose time is over.
  void Publish(std::vector<Vitals> said);
  // Those that were started.
  std::vector<ProcessPtr> Started() const;

  const WatchOptions options;

  std::mutex news_mutex;  // held while on_news runs
  std::function<void()> on_news;

  mutable std::mutex mutex;
  std::condition_variable changed;  // for the files' thread, and the destructor
  UniqueFd wake;                    // an eventfd, for the pulse
  bool stop = false;
  int running = 0;  // threads
  std::map<Incarnation, ProcessPtr> processes;
  std::unique_ptr<RuntimeDirectory> directory;  // for sockets and the module; null: not made
  std::map<Incarnation, Vitals> vitals;         // the latest, not taken yet
  std::vector<AgentMessage> messages;
  std::vector<Note> notes;
  bool verify_wanted = false;            // the files' thread is to begin
  std::optional<Deadline> verify_until;  // verifying
};

// The thread that looks at processes and hears heartbeats.
struct Watch::Pulse {
  static void Run(std::shared_ptr<State> state);
};

// The thread that looks for files, and verifies checkpoints.
struct Watch::Files {
  static void Run(std::shared_ptr<State> state);
};

}  // namespace everstep
