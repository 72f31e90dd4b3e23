// collective: who may still write into our memory.
#include "everstep/collective/exposures.h"

#include <algorithm>
#include <utility>

#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"

namespace everstep {

void Exposures::Remember(Incarnation incarnation, int pid_fd) {
  absl::StatusOr<UniqueFd> copy = Duplicate(pid_fd);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Exposure& e : exposures_) {
    if (e.incarnation == incarnation) return;
  }
  // Without a descriptor to see it end by, the next view without it gets fresh memory.
  exposures_.push_back({incarnation, copy.ok() ? *std::move(copy) : UniqueFd()});
}

void Exposures::Forget(Incarnation incarnation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  exposures_.erase(std::remove_if(exposures_.begin(), exposures_.end(),
                                  [&](const Exposure& e) { return e.incarnation == incarnation; }),
                   exposures_.end());
}

absl::StatusOr<bool> Exposures::CleanFor(const View& view, Duration limit) {
  const Deadline deadline = After(RealClock(), limit);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto e = exposures_.begin(); e != exposures_.end();) {
    if (view.RankOf(e->incarnation) >= 0) {
      ++e;  // it is past the old view, or it could not be in the new one
      continue;
    }
    PollItem item;
    item.fd = e->pid_fd.get();
    item.read = true;
    do {
      EV_RETURN_IF_ERROR(Poll(absl::MakeSpan(&item, 1), deadline - RealClock().Now()));
    } while (!item.readable && RealClock().Now() < deadline);
    if (!item.readable) {
      exposures_.clear();
      return false;
    }
    e = exposures_.erase(e);
  }
  return true;
}

}  // namespace everstep
