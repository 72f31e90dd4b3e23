// env: file descriptors that close themselves, and waiting for several of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"

namespace everstep {

// Owns one descriptor; -1 is none. Not for two threads at once.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();  // closes

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
};
// Close-on-exec at both ends, blocking.
absl::StatusOr<Pipe> MakePipe();

void SetNonBlocking(int fd);

// Bytes read into [buffer, buffer + size): > 0; 0 at the end of the file (and at an error: nothing
// more will come); -1 when a non-blocking descriptor has none now. Goes on after EINTR.
ptrdiff_t ReadSome(int fd, char* buffer, size_t size);

// Writes all of `text` to a blocking descriptor. False when the reader is gone.
bool WriteAll(int fd, std::string_view text);

// Wakes a thread that waits in WaitReadable. Signal from any thread and any number of times.
class WakeEvent {
 public:
  WakeEvent();
  int fd() const { return fd_.get(); }
  void Signal();
  void Clear();  // what was signalled before is forgotten

 private:
  Descriptor fd_;
};

// Waits until one of `fds` is readable or hung up, or `deadline`. Returns for each whether it is;
// negative descriptors never are.
std::vector<bool> WaitReadable(const std::vector<int>& fds, Deadline deadline);

}  // namespace everstep
