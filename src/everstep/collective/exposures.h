// collective: which processes may still write into this one's gradient memory.
#pragma once

#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/base/view.h"
#include "everstep/env/fd.h"

namespace everstep {

// Any thread. Shared by an endpoint and its communicators.
class Exposures {
 public:
  // The process of `incarnation` is about to get the memory. `pid_fd` stays the caller's.
  void Remember(Incarnation incarnation, int pid_fd);
  // The process said that it stores nothing any more.
  void Forget(Incarnation incarnation);
  // Whether every process that had the memory is in `view` or has ended, waiting up to `limit` for
  // those that are about to. If not, forgets all: the caller takes fresh memory.
  absl::StatusOr<bool> CleanFor(const View& view, Duration limit);

 private:
  struct Exposure {
    Incarnation incarnation;
    UniqueFd pid_fd;
  };
  std::mutex mutex_;
  std::vector<Exposure> exposures_;
};

}  // namespace everstep
