// env: descriptors, POSIX form.
#include "everstep/env/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"

namespace everstep {

void Descriptor::Reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a pipe: ", strerror(errno)));
  }
  return Pipe{Descriptor(fds[0]), Descriptor(fds[1])};
}

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

ptrdiff_t ReadSome(int fd, char* buffer, size_t size) {
  while (true) {
    const ssize_t n = read(fd, buffer, size);
    if (n >= 0) return n;
    if (errno == EAGAIN) return -1;
    if (errno != EINTR) return 0;
  }
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) text.remove_prefix(n);
  }
  return true;
}

WakeEvent::WakeEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void WakeEvent::Signal() {
  const uint64_t one = 1;
  // A full counter is a pending wake-up already.
  [[maybe_unused]] const ssize_t n = write(fd_.get(), &one, sizeof one);
}

void WakeEvent::Clear() {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(fd_.get(), &count, sizeof count);
}

std::vector<bool> WaitReadable(const std::vector<int>& fds, Deadline deadline) {
  std::vector<pollfd> polls;
  polls.reserve(fds.size());
  for (int fd : fds) polls.push_back({fd, POLLIN, 0});
  std::vector<bool> readable(fds.size());
  while (true) {
    const Duration left = std::max(deadline - RealClock().Now(), Duration::zero());
    // A day at most, so that "never" does not overflow; the caller's loop comes round again.
    const Duration slice = std::min<Duration>(left, std::chrono::hours(24));
    const timespec timeout{static_cast<time_t>(slice.count() / 1000000000),
                           static_cast<long>(slice.count() % 1000000000)};
    const int n = ppoll(polls.data(), polls.size(), &timeout, nullptr);
    if (n < 0 && errno == EINTR) continue;
    for (size_t i = 0; n > 0 && i < polls.size(); ++i) readable[i] = polls[i].revents != 0;
    return readable;
  }
}

}  // namespace everstep
