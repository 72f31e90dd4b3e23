// learner: optimizers under Keras's names, and the contract of optimizers of your own. No torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/base/step.h"

namespace everstep {

// Immutable, elementwise and pure: element i of everything it writes depends on element i of the
// arrays and on the step alone, so the learner may cut the arrays anywhere. Only exactly rounded
// operations (+ - * / sqrt) may be used: the bits are then equal on every machine.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One line, for people and for the job's fingerprint: "Adam(lr=0.001, beta_1=0.9, ...)".
  virtual std::string Describe() const = 0;
  // kInvalidArgument, naming the option, when one is out of range.
  virtual absl::Status Check() const = 0;
  // Names of the arrays kept for each parameter, e.g. {"m", "v"}. They begin as zeros.
  virtual std::vector<std::string> Slots() const = 0;
  // Update number `step` (from 0), in place; all arrays have equal size, slots in the order of
  // Slots(). A NaN is stored as 0x7fc00000 whatever its payload was. Cannot fail.
  virtual void Update(Step step, absl::Span<const float> gradients, absl::Span<float> parameters,
                      absl::Span<float* const> slots) const = 0;
};
using OptimizerPtr = std::shared_ptr<const Optimizer>;

struct AdamOptions {
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;  // Keras's default; PyTorch's is 1e-8
};
// Keras 3's Adam (keras/src/optimizers/adam.py), with t = step + 1:
//   alpha = learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
//   m += (g - m) * (1 - beta_1);  v += (g*g - v) * (1 - beta_2)
//   w -= m * alpha / (sqrt(v) + epsilon)
OptimizerPtr Adam(double learning_rate = 0.001, AdamOptions options = {});

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
};
// Keras 3's SGD (keras/src/optimizers/sgd.py): w -= learning_rate * g; with momentum
//   u = momentum * u - learning_rate * g;  w += nesterov ? momentum * u - learning_rate * g : u
OptimizerPtr SGD(double learning_rate = 0.01, SgdOptions options = {});

}  // namespace everstep
