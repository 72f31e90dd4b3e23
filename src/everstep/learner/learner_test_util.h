// learner: what the room's tests share.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "everstep/learner/model_spec.h"
#include "gtest/gtest.h"

namespace everstep {

// A learner and the memory it is bound to.
struct BoundLearner {
  std::unique_ptr<Learner> learner;
  std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, &std::free};

  absl::Span<std::byte> state() const {
    return {memory.get(), static_cast<size_t>(learner->layout().state_bytes)};
  }
  std::vector<std::byte> CopyState() const { return {state().begin(), state().end()}; }
  absl::Span<float> Entry(const std::string& name) const {
    for (const TensorSpan& t : StateTensors(learner->layout(), state())) {
      if (t.name == name) return t.as<float>();
    }
    ADD_FAILURE() << "no entry " << name;
    return {};
  }
};

inline BoundLearner MakeBound(ModelSpec spec, LearnerOptions options = {}, uint64_t seed = 42) {
  BoundLearner bound;
  auto learner = MakeLearner(std::move(spec), options);
  EXPECT_TRUE(learner.ok()) << learner.status();
  if (!learner.ok()) std::abort();
  bound.learner = *std::move(learner);
  const size_t size = bound.learner->layout().state_bytes;
  bound.memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, size)));
  std::memset(bound.memory.get(), 0, size);
  const absl::Status status = bound.learner->Bind({bound.state()}, seed);
  EXPECT_TRUE(status.ok()) << status;
  return bound;
}

// A batch that owns its memory: `x` is float32 [n, features], `y` int32 [n].
struct TestBatch {
  std::vector<float> x;
  std::vector<int32_t> y;
  Batch batch;
};

// Rows [begin, end) of an endless table whose row i belongs to class i % classes and lies around
// that class's point. global_examples is `global`, or the rows' number.
inline std::unique_ptr<TestBatch> MakeBatch(int64_t begin, int64_t end, int64_t features,
                                            int classes, int64_t global = 0) {
  auto made = std::make_unique<TestBatch>();
  const int64_t n = end - begin;
  for (int64_t i = begin; i < end; ++i) {
    made->y.push_back(static_cast<int32_t>(i % classes));
    for (int64_t f = 0; f < features; ++f) {
      const auto unit = [](uint64_t key, uint64_t k) {
        return static_cast<float>(RandomAt(key, k) >> 40) * 0x1p-24f;
      };
      const float center = 2 * unit(7, (i % classes) * features + f) - 1;
      made->x.push_back(center + 0.4f * (unit(8, i * features + f) - 0.5f));
    }
  }
  made->batch.examples = n;
  made->batch.global_examples = global == 0 ? std::max<int64_t>(n, 1) : global;
  made->batch.fields = {
      {"x", DType::kFloat32, {n, features}, reinterpret_cast<std::byte*>(made->x.data())},
      {"y", DType::kInt32, {n}, reinterpret_cast<std::byte*>(made->y.data())}};
  return made;
}

constexpr int64_t kFeatures = 16;
constexpr int kClasses = 5;

inline ModelSpec TestModel(double rate = 0.25) {
  ModelSpec spec;
  spec.input = {"x", DType::kFloat32, {kFeatures}};
  spec.label = {"y", DType::kInt32, {}};
  spec.layers = {Dense(32, Activation::kRelu), Dropout(rate), Dense(kClasses)};
  spec.loss = SparseCategoricalCrossentropy({.from_logits = true});
  spec.optimizer = Adam(0.01);
  spec.metrics = {Accuracy()};
  return spec;
}

struct GradientOf {
  std::vector<float> gradient;
  std::vector<float> statistics;
};

// Gradient into fresh memory full of NaN, so that what is not overwritten is seen.
inline GradientOf ComputeGradient(Learner& learner, Step step, int r, const Batch& batch) {
  GradientOf out;
  out.gradient.assign(learner.layout().gradient_size, std::nanf("1"));
  auto result = learner.Gradient(step, r, batch, absl::MakeSpan(out.gradient), [](int) {});
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) out.statistics = result->statistics;
  return out;
}

inline bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace everstep
