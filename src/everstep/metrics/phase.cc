// metrics: PhaseBoard.
#include "everstep/metrics/phase.h"

namespace everstep {

const char* NameOf(Phase phase) {
  constexpr const char* kNames[] = {"start",       "input",  "forward_backward", "wait_for_peer",
                                    "reduce",      "update", "checkpoint",       "evaluate",
                                    "view_change", "restore", "program"};
  static_assert(sizeof kNames / sizeof kNames[0] == static_cast<size_t>(Phase::kCount));
  return kNames[static_cast<size_t>(phase)];
}

void PhaseBoard::Enter(Phase phase) {
  const Phase before = phase_.load(std::memory_order_relaxed);
  if (phase == before) return;
  const TimePoint now = clock_.Now();
  const Duration stay = now - since_.load(std::memory_order_relaxed);
  total_ns_[static_cast<size_t>(before)].fetch_add(stay.count(), std::memory_order_relaxed);
  since_.store(now, std::memory_order_relaxed);
  phase_.store(phase, std::memory_order_release);
}

PhaseBoard::Reading PhaseBoard::Read() const {
  const Phase phase = phase_.load(std::memory_order_acquire);
  return {phase, step_.load(std::memory_order_relaxed),
          clock_.Now() - since_.load(std::memory_order_relaxed)};
}

Duration PhaseBoard::Total(Phase phase) const {
  return Duration(total_ns_[static_cast<size_t>(phase)].load(std::memory_order_relaxed));
}

}  // namespace everstep
