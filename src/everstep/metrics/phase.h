// metrics: PhaseBoard, where the training thread says what it is doing, and the heartbeat reads it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "everstep/base/clock.h"
#include "everstep/base/step.h"

namespace everstep {

enum class Phase : int {
  kStart,
  kInput,
  kForwardBackward,
  kWaitForPeer,
  kReduce,
  kUpdate,
  kCheckpoint,
  kEvaluate,
  kViewChange,
  kRestore,
  kProgram,  // the user's own code, between our calls
  kCount,
};
const char* NameOf(Phase phase);  // "forward_backward"

// One writer (the training thread), any readers. An update costs two clock reads and no lock.
class PhaseBoard {
 public:
  explicit PhaseBoard(const Clock& clock) : clock_(clock), since_(clock.Now()) {}

  void Enter(Phase phase);  // ends the phase before
  void SetStep(Step step) { step_.store(step, std::memory_order_relaxed); }

  struct Reading {
    Phase phase;
    Step step;
    Duration in_phase;
  };
  Reading Read() const;
  Duration Total(Phase phase) const;  // finished stays only

 private:
  const Clock& clock_;
  std::atomic<Phase> phase_{Phase::kStart};
  std::atomic<Step> step_{0};
  std::atomic<TimePoint> since_;
  std::array<std::atomic<int64_t>, static_cast<size_t>(Phase::kCount)> total_ns_{};
};

}  // namespace everstep
