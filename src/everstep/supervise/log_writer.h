// supervise: the logs of the job's processes, written in a thread of its own: a disk that does not
// answer holds up nobody's output.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "everstep/base/clock.h"
#include "everstep/env/file.h"

namespace everstep {

class LogWriter;

// One log. A part of it that has grown to the limit becomes PATH.1, in place of the one before, and
// a new one is begun. What the disk does not take is left out, and the log says how much where it
// goes on.
class Log {
 public:
  // Never waits for the disk.
  void Append(std::string_view bytes);
  void Close();
  // Why nothing can be written at present, once for each spell of trouble; else empty.
  std::string TakeError();

 private:
  friend class LogWriter;
  struct State;
  explicit Log(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Thread-safe.
class LogWriter {
 public:
  // Bytes of all logs that may wait for the disk; more is left out.
  static constexpr size_t kMaxWaiting = 16 << 20;

  static constexpr int64_t kMaxPart = 256 << 20;  // bytes of a file

  explicit LogWriter(FileSystem& fs, int64_t max_part = kMaxPart);
  // Waits at most two seconds for what waits; a write that hangs longer is left behind.
  ~LogWriter();

  // The file, with its directory, is made when there is something to write into it.
  std::unique_ptr<Log> Open(std::string path);

  // Until all that was said so far is written; false when it was not by then.
  bool Flush(Duration patience);

 private:
  friend class Log;
  struct Queue;
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace everstep
