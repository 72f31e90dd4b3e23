// base: Scalars, how far a training is and what its figures are, for people.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "everstep/base/step.h"

namespace everstep {

// Of the present Fit. Nothing that decides may read it.
struct Scalars {
  Step total_steps = 0;  // where Fit ends; 0: unknown yet
  int64_t epoch = 0;     // from 0
  int64_t epochs = 0;
  Step step_in_epoch = 0;  // finished ones, 1 to steps_per_epoch
  Step steps_per_epoch = 0;
  double examples_per_second = 0;
  std::vector<std::pair<std::string, double>> values;  // "loss", ...: means over the epoch so far

  Step step() const { return epoch * steps_per_epoch + step_in_epoch; }
};

}  // namespace everstep
