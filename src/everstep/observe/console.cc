// observe: the console.
#include "everstep/observe/console.h"

#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "everstep/env/terminal.h"

namespace everstep {

Console::Console(int out, int err, const Clock& clock, Duration patience)
    : clock_(clock),
      patience_(patience),
      out_{out, IsTerminal(out)},
      err_{err, IsTerminal(err)},
      renderer_(err_.terminal, TerminalWidth(err)) {}

Console::~Console() { ClearProgress(); }

void Console::ProcessLine(std::string_view process, bool error, std::string_view text) {
  std::lock_guard<std::mutex> lock(mutex_);
  Line(error ? err_ : out_,
       absl::StrCat(ToAbsl(process), process.empty() ? "" : " | ", ToAbsl(text), "\n"));
}

void Console::Say(std::string_view text) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool ended = !text.empty() && text.back() == '\n';
  Line(err_, absl::StrCat(ToAbsl(text), ended ? "" : "\n"));
}

void Console::ShowProgress(const Scalars& scalars, int workers) {
  std::lock_guard<std::mutex> lock(mutex_);
  bar_wanted_ = true;
  Write(err_, renderer_.Update(clock_.Now(), scalars, workers));
}

void Console::ClearProgress() {
  std::lock_guard<std::mutex> lock(mutex_);
  bar_wanted_ = false;
  Write(err_, renderer_.Clear());
}

void Console::Line(Stream& stream, std::string text) {
  // The bar is on the screen that a terminal's lines go to, whichever stream they come by.
  const bool over_bar = stream.terminal && err_.terminal;
  if (over_bar) Write(err_, renderer_.Clear());
  if (stream.dropped > 0) {
    text =
        absl::StrCat("[", stream.dropped,
                     " lines were not shown, as nobody read them; they are in the logs]\n", text);
  }
  if (Write(stream, text)) {
    stream.dropped = 0;
  } else {
    ++stream.dropped;
  }
  if (over_bar && bar_wanted_) Write(err_, renderer_.Redraw());
}

bool Console::Write(Stream& stream, std::string_view text) {
  if (text.empty()) return true;
  const bool written = WriteWithin(stream.fd, text, stream.stuck ? Duration::zero() : patience_);
  stream.stuck = !written;
  return written;
}

}  // namespace everstep
