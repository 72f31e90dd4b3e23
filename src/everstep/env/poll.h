// env: waiting for descriptors: poll, eventfd, pidfd.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/env/fd.h"

namespace everstep {

struct PollItem {
  int fd = -1;            // negative: ignored
  bool read = false;      // wake when readable, and at end of file
  bool write = false;     // wake when writable
  bool readable = false;  // out; also at end of file and on an error, which a read then shows
  bool writable = false;  // out
  bool hung_up = false;   // out: the other end is gone for writing; bytes may still be unread
};

// Fills the out fields of `items`. Returns once one is set or `timeout` has passed (not positive:
// at once; rounded up to whole milliseconds), or early on a signal. Any thread.
absl::Status Poll(absl::Span<PollItem> items, Duration timeout);

// A counter to wake a poller with: non-blocking, close-on-exec.
absl::StatusOr<UniqueFd> MakeEventFd();
void SignalEventFd(int fd) noexcept;  // makes it readable; any thread
void DrainEventFd(int fd) noexcept;   // makes it unreadable

// A descriptor that becomes readable when the process ends and never means another process that
// gets the same number later. kNotFound when there is no such process.
absl::StatusOr<UniqueFd> OpenPidFd(int pid);
bool HasExited(int pid_fd);  // whether a pidfd's process has ended (a zombie has)

// A second descriptor of the same thing, close-on-exec.
absl::StatusOr<UniqueFd> Duplicate(int fd);

int OwnPid();

}  // namespace everstep
