// train: ProgressMeter.
#include "everstep/train/progress_meter.h"

#include <algorithm>

namespace everstep {
namespace {
constexpr Duration kInterval = std::chrono::milliseconds(100);
}

ProgressMeter::ProgressMeter(const Learner& learner, const Clock& clock, Step steps_per_epoch,
                             int64_t epochs, Step total_steps)
    : learner_(learner),
      clock_(clock),
      steps_per_epoch_(steps_per_epoch),
      epochs_(epochs),
      total_steps_(total_steps),
      last_read_(clock.Now()) {
  StartEpoch();
}

void ProgressMeter::StartEpoch() {
  sums_.assign(learner_.layout().statistics_size, 0.0);
  examples_ = 0;
  steps_ = 0;
  epoch_began_ = clock_.Now();
}

void ProgressMeter::Add(const StepReport& report) {
  sums_[0] += static_cast<double>(report.statistics[0]) * static_cast<double>(report.examples);
  for (size_t i = 1; i < sums_.size(); ++i) sums_[i] += report.statistics[i];
  examples_ += report.examples;
  ++steps_;
}

bool ProgressMeter::Due() const { return clock_.Now() - last_read_ >= kInterval; }

std::vector<double> ProgressMeter::Means() const { return learner_.Summarize(sums_, examples_); }

double ProgressMeter::SecondsInEpoch() const { return ToSeconds(clock_.Now() - epoch_began_); }

Scalars ProgressMeter::Read(Step step) {
  last_read_ = clock_.Now();
  Scalars scalars;
  scalars.total_steps = total_steps_;
  scalars.epochs = epochs_;
  scalars.steps_per_epoch = steps_per_epoch_;
  // Steps of an epoch are counted from 1 to steps_per_epoch: its last step still belongs to it.
  const Step last = std::max<Step>(step, 1) - 1;
  scalars.epoch = last / steps_per_epoch_;
  scalars.step_in_epoch = step == 0 ? 0 : last % steps_per_epoch_ + 1;
  const double seconds = SecondsInEpoch();
  scalars.examples_per_second = seconds > 0 ? static_cast<double>(examples_) / seconds : 0;
  const std::vector<double> means = Means();
  const std::vector<std::string> names = learner_.SummaryNames();
  for (size_t i = 0; i < means.size(); ++i) scalars.values.emplace_back(names[i], means[i]);
  return scalars;
}

}  // namespace everstep
