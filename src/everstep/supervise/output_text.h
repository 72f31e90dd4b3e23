// supervise: what is made of a line of a process before people see it.
#pragma once

#include <string>
#include <string_view>

namespace everstep {

// Of a line that was drawn over and over by carriage returns, as progress bars are, the last form.
std::string_view LastForm(std::string_view line);

// A line as it may be shown on any terminal: UTF-8 without control characters other than the tab.
// Of what was drawn over by carriage returns and backspaces the last form is left, escape sequences
// (colours, cursor movements) are left out, and other bytes are "?".
struct PrintableLine {
  std::string text;
  bool binary = false;  // most of it was no text
};
PrintableLine MakePrintable(std::string_view line);

// Whether a line of standard error is one that a library says only to whoever looks for a fault in
// it: of level INFO or DEBUG, from NCCL, gRPC and others that log by absl or glog, or TensorFlow.
bool IsLibraryChatter(std::string_view line);

}  // namespace everstep
