// env: the terminal, POSIX form.
#include "everstep/env/terminal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "everstep/env/clock.h"

namespace everstep {

bool IsTerminal(int fd) { return isatty(fd) == 1; }

int TerminalWidth(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool WriteWithin(int fd, std::string_view text, Duration patience) {
  const Deadline deadline = After(RealClock(), patience);
  while (!text.empty()) {
    const Duration left = std::max(deadline - RealClock().Now(), Duration::zero());
    pollfd poll_fd{fd, POLLOUT, 0};
    const int ready =
        poll(&poll_fd, 1,
             static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || (poll_fd.revents & POLLOUT) == 0) return false;
    // No more than a poll promises room for.
    const ssize_t n = write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (n > 0) text.remove_prefix(n);
  }
  return true;
}

}  // namespace everstep
