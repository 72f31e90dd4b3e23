// env: poll, eventfd and pidfd, Linux form.
#include "everstep/env/poll.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

int MillisecondsRoundedUp(Duration timeout) {
  if (timeout <= Duration::zero()) return 0;
  const int64_t ms = (timeout.count() + 999'999) / 1'000'000;
  return static_cast<int>(std::min<int64_t>(ms, INT_MAX));
}

}  // namespace

absl::Status Poll(absl::Span<PollItem> items, Duration timeout) {
  constexpr size_t kFew = 16;
  pollfd few[kFew];
  std::vector<pollfd> many;
  pollfd* fds = few;
  if (items.size() > kFew) {
    many.resize(items.size());
    fds = many.data();
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const int events = (items[i].read ? POLLIN | POLLRDHUP : 0) | (items[i].write ? POLLOUT : 0);
    fds[i] = {items[i].fd, static_cast<short>(events), 0};
    items[i].readable = items[i].writable = items[i].hung_up = false;
  }
  if (::poll(fds, items.size(), MillisecondsRoundedUp(timeout)) < 0) {
    if (errno == EINTR) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("poll of ", items.size(), ": ", strerror(errno)));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const int got = fds[i].revents;
    items[i].readable = (got & (POLLIN | POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
    items[i].writable = (got & (POLLOUT | POLLERR)) != 0;
    items[i].hung_up = (got & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> MakeEventFd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", strerror(errno)));
  }
  return fd;
}

void SignalEventFd(int fd) noexcept {
  const uint64_t one = 1;
  // EAGAIN means the counter is full, so it is readable already.
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void DrainEventFd(int fd) noexcept {
  uint64_t count;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<UniqueFd> OpenPidFd(int pid) {
  // The kernel makes every pidfd close-on-exec.
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd.valid()) return fd;
  const std::string message = absl::StrCat("pidfd of process ", pid, ": ", strerror(errno));
  if (errno == ESRCH || errno == EINVAL) return absl::NotFoundError(message);
  return absl::UnavailableError(message);
}

bool HasExited(int pid_fd) {
  pollfd item = {pid_fd, POLLIN, 0};
  return ::poll(&item, 1, 0) == 1 && (item.revents & POLLIN) != 0;
}

absl::StatusOr<UniqueFd> Duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("duplicating a descriptor: ", strerror(errno)));
  }
  return copy;
}

int OwnPid() { return ::getpid(); }

}  // namespace everstep
