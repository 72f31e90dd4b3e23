// train: ProgressMeter, from the reduced statistics of steps to the means people read.
#pragma once

#include <cstdint>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/engine/engine.h"
#include "everstep/learner/learner.h"

namespace everstep {

// Sums of one epoch so far; deterministic but for the speed. One thread.
class ProgressMeter {
 public:
  ProgressMeter(const Learner& learner, const Clock& clock, Step steps_per_epoch, int64_t epochs,
                Step total_steps);

  void Add(const StepReport& report);
  // Whether people have waited long enough for a new figure.
  bool Due() const;
  // How far it is; resets Due.
  Scalars Read(Step step);

  // The means of the epoch so far, in Learner::SummaryNames order.
  std::vector<double> Means() const;
  double SecondsInEpoch() const;
  Step StepsInEpoch() const { return steps_; }  // fewer than an epoch has where it was resumed
  void StartEpoch();

 private:
  const Learner& learner_;
  const Clock& clock_;
  const Step steps_per_epoch_;
  const int64_t epochs_;
  const Step total_steps_;
  std::vector<double> sums_;
  int64_t examples_ = 0;
  Step steps_ = 0;
  TimePoint epoch_began_;
  TimePoint last_read_;
};

}  // namespace everstep
