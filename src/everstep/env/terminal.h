// env: the terminal.
#pragma once

#include <string_view>

#include "everstep/base/clock.h"

namespace everstep {

bool IsTerminal(int fd);
int TerminalWidth(int fd);  // in columns; 80 when it is not known

// Writes all of `text`, waiting at most `patience` for a reader that does not read (a stopped
// terminal, a full pipe). False when some of it was not written. `fd` may be blocking.
bool WriteWithin(int fd, std::string_view text, Duration patience);

}  // namespace everstep
