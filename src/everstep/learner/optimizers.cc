// learner: the optimizers we ship.
#include "everstep/learner/optimizers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "everstep/learner/flat_kernels.h"
#include "everstep/learner/number_text.h"

namespace everstep {
namespace {

// x^n by squaring: multiplications of doubles only, so equal on every machine (libm's pow is not).
double Power(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) result *= x;
    x *= x;
  }
  return result;
}

absl::Status CheckRange(const char* optimizer, const char* option, double value, bool ok,
                        const char* range) {
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(optimizer, ": ", option, " is ", value, "; it must be ", range));
}

bool FinitePositive(double x) { return std::isfinite(x) && x > 0; }

class AdamOptimizer : public Optimizer {
 public:
  AdamOptimizer(double learning_rate, AdamOptions options)
      : learning_rate_(learning_rate), options_(options) {}

  std::string Describe() const override {
    return absl::StrCat(
        "Adam(learning_rate=", ExactText(learning_rate_), ", beta_1=", ExactText(options_.beta_1),
        ", beta_2=", ExactText(options_.beta_2), ", epsilon=", ExactText(options_.epsilon), ")");
  }

  absl::Status Check() const override {
    const auto beta_ok = [](double beta) { return beta >= 0 && beta < 1; };
    absl::Status status = CheckRange("Adam", "learning_rate", learning_rate_,
                                     FinitePositive(learning_rate_), "positive and finite");
    status.Update(
        CheckRange("Adam", "beta_1", options_.beta_1, beta_ok(options_.beta_1), "in [0, 1)"));
    status.Update(
        CheckRange("Adam", "beta_2", options_.beta_2, beta_ok(options_.beta_2), "in [0, 1)"));
    status.Update(CheckRange("Adam", "epsilon", options_.epsilon, FinitePositive(options_.epsilon),
                             "positive and finite"));
    return status;
  }

  std::vector<std::string> Slots() const override { return {"m", "v"}; }

  void Update(Step step, absl::Span<const float> gradients, absl::Span<float> parameters,
              absl::Span<float* const> slots) const override {
    const double correction_1 = 1 - Power(options_.beta_1, step + 1);
    const double correction_2 = 1 - Power(options_.beta_2, step + 1);
    AdamScalars s;
    s.alpha = static_cast<float>(learning_rate_ * std::sqrt(correction_2) / correction_1);
    s.one_minus_beta_1 = static_cast<float>(1 - options_.beta_1);
    s.one_minus_beta_2 = static_cast<float>(1 - options_.beta_2);
    s.epsilon = static_cast<float>(options_.epsilon);
    AdamUpdate(s, gradients.data(), parameters.data(), slots[0], slots[1],
               static_cast<int64_t>(gradients.size()));
  }

 private:
  const double learning_rate_;
  const AdamOptions options_;
};

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(double learning_rate, SgdOptions options)
      : learning_rate_(learning_rate), options_(options) {}

  std::string Describe() const override {
    return absl::StrCat("SGD(learning_rate=", ExactText(learning_rate_),
                        ", momentum=", ExactText(options_.momentum),
                        ", nesterov=", options_.nesterov ? "true" : "false", ")");
  }

  absl::Status Check() const override {
    absl::Status status = CheckRange("SGD", "learning_rate", learning_rate_,
                                     FinitePositive(learning_rate_), "positive and finite");
    status.Update(CheckRange("SGD", "momentum", options_.momentum,
                             options_.momentum >= 0 && options_.momentum <= 1, "in [0, 1]"));
    if (options_.nesterov && options_.momentum == 0) {
      status.Update(absl::InvalidArgumentError("SGD: nesterov needs a momentum above 0"));
    }
    return status;
  }

  std::vector<std::string> Slots() const override {
    if (options_.momentum == 0) return {};
    return {"momentum"};
  }

  void Update(Step step, absl::Span<const float> gradients, absl::Span<float> parameters,
              absl::Span<float* const> slots) const override {
    const int64_t n = static_cast<int64_t>(gradients.size());
    const float learning_rate = static_cast<float>(learning_rate_);
    if (options_.momentum == 0) {
      SgdUpdate(learning_rate, gradients.data(), parameters.data(), n);
    } else {
      MomentumUpdate(learning_rate, static_cast<float>(options_.momentum), options_.nesterov,
                     gradients.data(), parameters.data(), slots[0], n);
    }
  }

 private:
  const double learning_rate_;
  const SgdOptions options_;
};

}  // namespace

OptimizerPtr Adam(double learning_rate, AdamOptions options) {
  return std::make_shared<AdamOptimizer>(learning_rate, options);
}

OptimizerPtr SGD(double learning_rate, SgdOptions options) {
  return std::make_shared<SgdOptimizer>(learning_rate, options);
}

}  // namespace everstep
