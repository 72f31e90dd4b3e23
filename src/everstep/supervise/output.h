// supervise: the output of the job's processes: to whoever shows it, line by line, and to each
// one's log, byte by byte.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/base/task.h"
#include "everstep/base/view.h"
#include "everstep/env/fd.h"
#include "everstep/env/file.h"
#include "everstep/supervise/log_writer.h"

namespace everstep {

// Cuts a stream of any bytes into lines. A line longer than 64 KiB comes in pieces.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 64 * 1024;

  // Calls `line` for each that ends in `bytes`, without its end.
  void Feed(std::string_view bytes, const std::function<void(std::string_view)>& line);
  // Calls it for a last one without an end.
  void Finish(const std::function<void(std::string_view)>& line);

 private:
  std::string rest_;
};

enum class OutputStream { kOut, kErr };

// One line of a process. Called in the pump's thread; may take its time within bounds (the
// processes wait meanwhile, once their pipes are full).
using LineSink = std::function<void(const Task&, OutputStream, std::string_view line)>;

// What a process writes on its standard error from a moment on, at most 4 MiB of it. Thread-safe.
class Capture {
 public:
  void Begin();
  size_t size() const;  // so far
  std::string Take();   // and no more

 private:
  friend class OutputPump;
  void Add(std::string_view bytes);

  mutable std::mutex mutex_;
  bool open_ = false;
  std::string text_;
};

// Where the output of a process is kept. Empty: nowhere.
struct LogPaths {
  std::string log;
  // What libraries say only for --debug-libs: then it comes here instead of to the log and to
  // people.
  std::string libraries;
};

// Reads the pipes of all processes of a host in a thread of its own. Memory is bounded: a line, and
// the last 20 lines, for each process. Add, CaptureOf and
// Finish: one thread.
class OutputPump {
 public:
  // `raw`: whether `sink` wants the lines of that stream as they were, as a file might; else it
  // gets what a terminal may get.
  OutputPump(FileSystem& fs, LineSink sink, std::function<bool(OutputStream)> raw = nullptr);
  ~OutputPump();  // what is still in the pipes is not read

  // The logs are made, with their directory; when one cannot be written, that is said as a line. A
  // disk that hangs holds up nothing but the log. They get the bytes as they are; the last
  // lines are only what a terminal may get. `saw` is told in the pump's thread how many came.
  void Add(const Task& task, Incarnation incarnation, UniqueFd out, UniqueFd err, LogPaths logs,
           std::function<void(size_t)> saw = nullptr);

  // For catching what it says of its stacks. Null when there is no such process.
  std::shared_ptr<Capture> CaptureOf(Incarnation incarnation) const;

  // The process has ended: reads what is left in its pipes (others may hold their other ends, so
  // their end is not waited for) and closes its log. Its last lines. Waits at most `patience`; the
  // rest is then done behind.
  std::string Finish(Incarnation incarnation, Duration patience);

  // Until all that was ordered is done, at most `patience`.
  bool Flush(Duration patience);

 private:
  struct Child;

  void Run();
  void TakeOrders();
  bool ReadFrom(Child& child, int which, size_t most);  // false: nothing more now
  void Take(Child& child, int which, std::string_view bytes);
  void Line(Child& child, int which, std::string_view line);
  void Remember(Child& child, std::string_view line);  // for its last lines
  void TellOfLog(Child& child);
  void Close(Child& child);

  const LineSink sink_;
  const bool raw_[2];
  LogWriter logs_;
  UniqueFd wake_;
  std::map<Incarnation, std::shared_ptr<Child>> known_;  // the caller's thread

  std::mutex mutex_;
  std::condition_variable done_;
  std::deque<std::shared_ptr<Child>> added_;  // under mutex_
  int open_ = 0;                              // children not closed yet; under mutex_
  bool stop_ = false;                         // under mutex_

  std::vector<std::shared_ptr<Child>> children_;  // the pump's thread
  std::vector<char> buffer_;
  std::thread thread_;
};

}  // namespace everstep
