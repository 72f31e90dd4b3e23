// train: Sequential, Keras's model class: layers in a row, Compile, Fit, Evaluate.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/data/dataset.h"
#include "everstep/learner/model_spec.h"
#include "everstep/train/strategy.h"

namespace everstep {

struct CompileOptions {
  OptimizerPtr optimizer;
  LossPtr loss;
  std::vector<MetricPtr> metrics;
};

struct FitOptions {
  int64_t epochs = 1;
  int64_t batch_size = 32;          // global: examples of one step over all replicas
  Step checkpoint_every_steps = 0;  // 0: as the job says
  bool verbose = true;              // the chief prints a line an epoch
};

struct EvaluateOptions {
  int64_t batch_size = 32;  // global
};

// "loss" and each metric by name.
using Logs = std::map<std::string, double>;

struct FitHistory {
  std::vector<Logs> epochs;  // means over the examples of each epoch
};

// Movable. One thread. Every worker of the job makes the same calls with the same arguments.
class Sequential {
 public:
  explicit Sequential(std::vector<LayerPtr> layers);
  ~Sequential();
  Sequential(Sequential&&) noexcept;
  Sequential& operator=(Sequential&&) noexcept;

  // Inside a strategy's scope. kFailedPrecondition outside: the model would train alone.
  absl::Status Compile(CompileOptions options);

  // Trains for `epochs` passes over `data`, whose first feature is the input and the second the
  // label, then commits a checkpoint of the last step. May be called again: training goes on from
  // the present step.
  // kInvalidArgument: what must be changed. kDataLoss: which file, where. kCancelled: told to
  // leave.
  absl::StatusOr<FitHistory> Fit(const Dataset& data, FitOptions options);

  // Loss and metrics over one pass of `data`, in evaluation mode.
  absl::StatusOr<Logs> Evaluate(const Dataset& data, EvaluateOptions options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace everstep
