// observe: the console of a launcher: the lines of many processes, its own lines, and a progress
// bar below them, on two streams that may be one terminal.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "everstep/base/clock.h"
#include "everstep/observe/progress.h"

namespace everstep {

// Any thread. A reader that does not read (a stopped terminal, a full pipe) holds a caller up once,
// for `patience`; from then on lines for it are dropped, until it reads again and is told how many.
class Console {
 public:
  // `out` and `err` are descriptors, usually 1 and 2; they stay open.
  Console(int out, int err, const Clock& clock, Duration patience = std::chrono::seconds(1));
  ~Console();  // takes the bar off the screen

  // "worker:0 | text", to `out` or `err` as the process wrote it; the text alone when `process` is
  // empty.
  void ProcessLine(std::string_view process, bool error, std::string_view text);
  // A text of the launcher itself, to `err`; its end is added unless it is there.
  void Say(std::string_view text);
  void ShowProgress(const Scalars& scalars, int workers);
  void ClearProgress();  // until the next ShowProgress

 private:
  struct Stream {
    int fd;
    bool terminal;
    bool stuck = false;
    long dropped = 0;
  };

  void Line(Stream& stream, std::string text);
  bool Write(Stream& stream, std::string_view text);

  const Clock& clock_;
  const Duration patience_;
  std::mutex mutex_;
  Stream out_, err_;
  ProgressRenderer renderer_;
  bool bar_wanted_ = false;
};

}  // namespace everstep
