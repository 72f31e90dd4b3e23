// learner: tests of the optimizers.
#include "everstep/learner/optimizers.h"

#include <cmath>
#include <string>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

float Value(uint64_t key, uint64_t i) {
  return static_cast<float>(RandomAt(key, i) >> 40) * 0x1p-23f - 1.0f;
}

struct Trained {
  std::vector<float> w;
  std::vector<std::vector<float>> slots;
};

// `steps` updates of `n` parameters; cut: in two calls each.
Trained RunFor(const Optimizer& optimizer, int steps, int64_t n, int64_t cut = 0) {
  Trained run;
  for (int64_t i = 0; i < n; ++i) run.w.push_back(Value(1, i));
  run.slots.assign(optimizer.Slots().size(), std::vector<float>(n));
  std::vector<float> g(n);
  for (int step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < n; ++i) g[i] = Value(2 + step, i);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, cut}, {cut, n}}) {
      std::vector<float*> slots;
      for (auto& slot : run.slots) slots.push_back(slot.data() + begin);
      optimizer.Update(step, absl::MakeSpan(g).subspan(begin, end - begin),
                       absl::MakeSpan(run.w).subspan(begin, end - begin), slots);
    }
  }
  return run;
}

TEST(Adam, FollowsKerasFormulaInDoublePrecision) {
  constexpr int kSteps = 200, kSize = 37;
  const Trained run =
      RunFor(*Adam(0.01, {.beta_1 = 0.8, .beta_2 = 0.99, .epsilon = 1e-5}), kSteps, kSize);
  for (int i = 0; i < kSize; ++i) {
    double w = Value(1, i), m = 0, v = 0;
    for (int t = 1; t <= kSteps; ++t) {
      const double g = Value(1 + t, i);
      m = 0.8 * m + 0.2 * g;
      v = 0.99 * v + 0.01 * g * g;
      const double alpha = 0.01 * std::sqrt(1 - std::pow(0.99, t)) / (1 - std::pow(0.8, t));
      w -= alpha * m / (std::sqrt(v) + 1e-5);
    }
    EXPECT_NEAR(run.w[i], w, 2e-5) << i;
    EXPECT_NEAR(run.slots[0][i], m, 1e-6) << i;
    EXPECT_NEAR(run.slots[1][i], v, 1e-6) << i;
  }
}

TEST(Adam, FirstStepMovesEachParameterByTheLearningRate) {
  const OptimizerPtr adam = Adam(0.25);
  float w[] = {1, 1}, m[] = {0, 0}, v[] = {0, 0};
  const float g[] = {3, -0.5f};
  adam->Update(0, g, absl::MakeSpan(w), {m, v});
  EXPECT_NEAR(w[0], 0.75, 1e-5);
  EXPECT_NEAR(w[1], 1.25, 1e-5);
}

TEST(Sgd, MovesAgainstTheGradient) {
  const OptimizerPtr sgd = SGD(0.5);
  EXPECT_TRUE(sgd->Slots().empty());
  float w[] = {1, 2};
  const float g[] = {0.5f, -4};
  sgd->Update(0, g, absl::MakeSpan(w), {});
  EXPECT_EQ(w[0], 0.75f);
  EXPECT_EQ(w[1], 4.0f);
}

TEST(Sgd, MomentumAndNesterovFollowKerasFormulas) {
  constexpr int kSteps = 50, kSize = 19;
  for (const bool nesterov : {false, true}) {
    const Trained run = RunFor(*SGD(0.1, {.momentum = 0.9, .nesterov = nesterov}), kSteps, kSize);
    for (int i = 0; i < kSize; ++i) {
      double w = Value(1, i), u = 0;
      for (int t = 0; t < kSteps; ++t) {
        const double g = Value(2 + t, i);
        u = 0.9 * u - 0.1 * g;
        w += nesterov ? 0.9 * u - 0.1 * g : u;
      }
      EXPECT_NEAR(run.w[i], w, 2e-5) << i << " nesterov " << nesterov;
    }
  }
}

TEST(Optimizers, BitsDoNotDependOnWhereTheArrayIsCut) {
  for (const OptimizerPtr& optimizer : {Adam(), SGD(), SGD(0.1, {.momentum = 0.9})}) {
    const Trained whole = RunFor(*optimizer, 5, 1000);
    const Trained cut = RunFor(*optimizer, 5, 1000, 333);
    EXPECT_EQ(whole.w, cut.w) << optimizer->Describe();
    EXPECT_EQ(whole.slots, cut.slots) << optimizer->Describe();
  }
}

TEST(Optimizers, OptionsOutOfRangeAreRefusedByName) {
  const auto message = [](const OptimizerPtr& o) { return std::string(o->Check().message()); };
  EXPECT_THAT(message(Adam(-1)), HasSubstr("Adam: learning_rate is -1"));
  EXPECT_THAT(message(Adam(std::nan(""))), HasSubstr("learning_rate"));
  EXPECT_THAT(message(Adam(1, {.beta_1 = 1})), HasSubstr("beta_1 is 1; it must be in [0, 1)"));
  EXPECT_THAT(message(Adam(1, {.beta_2 = -0.5})), HasSubstr("beta_2"));
  EXPECT_THAT(message(Adam(1, {.epsilon = 0})), HasSubstr("epsilon"));
  EXPECT_THAT(message(SGD(0)), HasSubstr("SGD: learning_rate"));
  EXPECT_THAT(message(SGD(1, {.momentum = 2})), HasSubstr("momentum is 2"));
  EXPECT_THAT(message(SGD(1, {.nesterov = true})), HasSubstr("nesterov needs a momentum"));
  EXPECT_TRUE(Adam()->Check().ok());
  EXPECT_TRUE(SGD()->Check().ok());
}

TEST(Optimizers, DescriptionsTellUnequalOptionsApart) {
  EXPECT_EQ(Adam()->Describe(),
            "Adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07)");
  EXPECT_NE(Adam(0.1)->Describe(), Adam(0.1 + 1e-12)->Describe());
  EXPECT_EQ(SGD(0.5, {.momentum = 0.9})->Describe(),
            "SGD(learning_rate=0.5, momentum=0.9, nesterov=false)");
}

}  // namespace
}  // namespace everstep
