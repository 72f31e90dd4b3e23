// supervise: heartbeats, what a program says of its progress by itself: one datagram is one line,
//
//   everstep1 step=120 phase=train expect=600 loss=0.31
//
// of printable ASCII, at most 512 bytes; words of key=value with one space between. All keys are
// optional, unknown ones are passed over, of one said twice the last counts. Anything else is
// garbage: counted, never more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/base/step.h"
#include "everstep/env/fd.h"

namespace everstep {

struct Heartbeat {
  std::optional<Step> step;  // how many are done
  std::string phase;         // at most 64 bytes of it
  // Until the next one, at most so much passes. Zero: it does not say when; until then it is to be
  // judged from outside.
  std::optional<Duration> expect;
};

// Nothing for garbage.
std::optional<Heartbeat> ParseHeartbeat(std::string_view datagram);

// Where one process sends its heartbeats to. One thread.
class HeartbeatSocket {
 public:
  static absl::StatusOr<std::unique_ptr<HeartbeatSocket>> Open(std::string path);
  ~HeartbeatSocket();  // the path goes away with it

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }  // readable when one waits

  // Takes what waits, but no more than 64 of them: a flood of datagrams must not hold its reader
  // up. What does not fit the socket's queue is lost to its sender.
  void Take(absl::FunctionRef<void(const Heartbeat&)> on);

  int64_t garbage() const { return garbage_; }  // datagrams so far

 private:
  HeartbeatSocket(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  const std::string path_;
  UniqueFd fd_;
  int64_t garbage_ = 0;
};

}  // namespace everstep
