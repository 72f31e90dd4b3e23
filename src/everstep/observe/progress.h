// observe: how far training is, for a person at a terminal or reading a log.
#pragma once

#include <string>

#include "everstep/base/clock.h"
#include "everstep/base/scalars.h"

namespace everstep {

// "epoch 2/5 [=====>    ] 120/235  41,200 examples/s  loss 0.2912  4 workers", at most `width`
// columns: the bar shrinks first, then words at the end are left out.
std::string ProgressBar(const Scalars& scalars, int workers, int width);

// "step 355/1175, epoch 2/5, 41200 examples/s, loss 0.2912, accuracy 0.9155": for logs.
std::string ProgressLine(const Scalars& scalars);

// Decides what to print when; the caller prints it. Pure: `now` is passed in.
//   On a terminal: a bar on the last line, drawn again at most 10 times a second. Other lines go
//   above it: print Clear(), the lines, then Redraw().
//   Else: a plain line at most every 10 s.
class ProgressRenderer {
 public:
  ProgressRenderer(bool terminal, int width) : terminal_(terminal), width_(width) {}

  // What to write now for the new figures; may be empty.
  std::string Update(TimePoint now, const Scalars& scalars, int workers);
  // Takes the bar off the screen; empty when none is there.
  std::string Clear();
  // Puts it back.
  std::string Redraw();

 private:
  const bool terminal_;
  const int width_;
  bool shown_ = false;
  std::string bar_;
  TimePoint last_;
  bool any_ = false;
};

}  // namespace everstep
