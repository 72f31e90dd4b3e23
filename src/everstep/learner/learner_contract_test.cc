// learner: tests of MakeLearner's learner through the contract of learner.h.
#include <xmmintrin.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "everstep/base/float_environment.h"
#include "everstep/learner/learner_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace everstep {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<TestBatch> Rows(int64_t begin, int64_t end, int64_t global = 0) {
  return MakeBatch(begin, end, kFeatures, kClasses, global);
}

TEST(Gradient, MatchesFiniteDifferencesOfTheLoss) {
  for (const Activation activation : {Activation::kTanh, Activation::kSigmoid}) {
    for (const bool from_logits : {true, false}) {
      ModelSpec spec = TestModel();
      spec.layers = {Dense(6, activation),
                     Dense(kClasses, from_logits ? Activation::kLinear : Activation::kSoftmax)};
      spec.loss = SparseCategoricalCrossentropy({.from_logits = from_logits});
      const BoundLearner bound = MakeBound(spec);
      const auto rows = Rows(0, 20);
      const auto gradient = ComputeGradient(*bound.learner, 0, 0, rows->batch).gradient;
      float* const parameters = reinterpret_cast<float*>(bound.memory.get());
      const float h = 1e-2f;
      for (size_t i = 0; i < gradient.size(); ++i) {
        const float kept = parameters[i];
        parameters[i] = kept + h;
        const double up = bound.learner->Evaluate(rows->batch)->statistics[0];
        parameters[i] = kept - h;
        const double down = bound.learner->Evaluate(rows->batch)->statistics[0];
        parameters[i] = kept;
        EXPECT_NEAR(gradient[i], (up - down) / (2 * h), 1e-4) << i;
      }
    }
  }
}

TEST(Gradient, OfMeanSquaredErrorIsTheFormula) {
  ModelSpec spec;
  spec.input = {"x", DType::kFloat32, {2}};
  spec.label = {"y", DType::kFloat32, {2}};
  spec.layers = {Dense(2, {.use_bias = false})};
  spec.loss = MeanSquaredError();
  spec.optimizer = SGD();
  const BoundLearner bound = MakeBound(spec);
  const absl::Span<float> w = bound.Entry("model/dense/kernel");
  w[0] = 1, w[1] = 2, w[2] = 3, w[3] = 4;
  float x[] = {1, 1}, y[] = {0, 10};
  Batch batch;
  batch.examples = 1;
  batch.global_examples = 4;
  batch.fields = {{"x", DType::kFloat32, {1, 2}, reinterpret_cast<std::byte*>(x)},
                  {"y", DType::kFloat32, {1, 2}, reinterpret_cast<std::byte*>(y)}};
  const auto got = ComputeGradient(*bound.learner, 0, 0, batch);
  // Predictions 4 and 6, errors 4 and -4; the loss is their squares' mean, over 4 examples.
  EXPECT_THAT(got.statistics, ElementsAre(4.0f));
  EXPECT_THAT(got.gradient, ElementsAre(1, -1, 1, -1));
}

TEST(Gradient, OfTheSameReplicaHasEqualBitsWhateverWasComputedBeforeAndWherever) {
  const BoundLearner a = MakeBound(TestModel()), b = MakeBound(TestModel());
  const auto rows = Rows(0, 64, 256), others = Rows(64, 90, 256);
  const auto first = ComputeGradient(*a.learner, 5, 2, rows->batch);
  ComputeGradient(*a.learner, 5, 3, others->batch);
  ComputeGradient(*a.learner, 6, 2, others->batch);
  ASSERT_TRUE(a.learner->Evaluate(others->batch).ok());
  const auto again = ComputeGradient(*a.learner, 5, 2, rows->batch);
  EXPECT_TRUE(SameBits(first.gradient, again.gradient));
  EXPECT_EQ(first.statistics, again.statistics);

  // Another learner, the batch elsewhere in memory, the gradient at an odd address, another thread.
  std::vector<float> padded(b.learner->layout().gradient_size + 3);
  std::vector<float> x(rows->x.size() + 1);
  std::copy(rows->x.begin(), rows->x.end(), x.begin() + 1);
  Batch moved = rows->batch;
  moved.fields[0].data = reinterpret_cast<std::byte*>(x.data() + 1);
  std::thread([&] {
    const auto gradient = absl::MakeSpan(padded).subspan(3);
    ASSERT_TRUE(b.learner->Gradient(5, 2, moved, gradient, [](int) {}).ok());
    EXPECT_TRUE(SameBits(first.gradient, gradient));
  }).join();
}

TEST(Gradient, LeavesTheStateAlone) {
  const BoundLearner bound = MakeBound(TestModel());
  const auto before = bound.CopyState();
  ComputeGradient(*bound.learner, 0, 0, Rows(0, 30)->batch);
  ASSERT_TRUE(bound.learner->Evaluate(Rows(0, 30)->batch).ok());
  EXPECT_EQ(before, bound.CopyState());
}

TEST(Gradient, OfReplicasAddsUpToThatOfTheWholeBatch) {
  const BoundLearner bound = MakeBound(TestModel(/*rate=*/0));
  const auto whole = ComputeGradient(*bound.learner, 0, 0, Rows(0, 101)->batch);
  std::vector<double> sum(whole.gradient.size());
  std::vector<double> statistics(2);
  for (int r = 0; r < 4; ++r) {
    const Share share = ShareOf(101, r, 4);
    const auto part =
        ComputeGradient(*bound.learner, 0, r, Rows(share.begin, share.end, 101)->batch);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part.gradient[i];
    for (int i = 0; i < 2; ++i) statistics[i] += part.statistics[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole.gradient[i], 1e-6) << i;
  EXPECT_NEAR(statistics[0], whole.statistics[0], 1e-5);
  EXPECT_EQ(statistics[1], whole.statistics[1]);
}

TEST(Gradient, DropoutDependsOnStepReplicaAndSeed) {
  const BoundLearner bound = MakeBound(TestModel());
  const auto rows = Rows(0, 64);
  const auto base = ComputeGradient(*bound.learner, 3, 1, rows->batch).gradient;
  EXPECT_TRUE(SameBits(base, ComputeGradient(*bound.learner, 3, 1, rows->batch).gradient));
  EXPECT_FALSE(SameBits(base, ComputeGradient(*bound.learner, 4, 1, rows->batch).gradient));
  EXPECT_FALSE(SameBits(base, ComputeGradient(*bound.learner, 3, 2, rows->batch).gradient));
  // The seed is read from the state, which may have come from elsewhere.
  for (const TensorSpan& t : StateTensors(bound.learner->layout(), bound.state())) {
    if (t.name == "seed") t.as<int64_t>()[0] += 1;
  }
  EXPECT_FALSE(SameBits(base, ComputeGradient(*bound.learner, 3, 1, rows->batch).gradient));
}

TEST(Gradient, BucketsAreFinalWhenAnnouncedAndAnnouncedInOrder) {
  const BoundLearner bound = MakeBound(TestModel(), {.bucket_floats = 50});
  const StateLayout& layout = bound.learner->layout();
  std::vector<float> gradient(layout.gradient_size), at_ready(layout.gradient_size);
  std::vector<int> announced, expected(layout.buckets.size());
  const auto ready = [&](int b) {
    announced.push_back(b);
    const Bucket& bucket = layout.buckets[b];
    std::copy_n(gradient.begin() + bucket.offset, bucket.size, at_ready.begin() + bucket.offset);
  };
  ASSERT_TRUE(
      bound.learner->Gradient(0, 0, Rows(0, 9)->batch, absl::MakeSpan(gradient), ready).ok());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(announced, expected);
  EXPECT_TRUE(SameBits(gradient, at_ready));
}

TEST(Gradient, OfNoExamplesIsPlusZeroWithoutStatistics) {
  const BoundLearner bound = MakeBound(TestModel(), {.bucket_floats = 50});
  Batch none;
  none.global_examples = 3;
  std::vector<float> gradient(bound.learner->layout().gradient_size, -1);
  size_t announced = 0;
  const auto result = bound.learner->Gradient(0, 0, none, absl::MakeSpan(gradient),
                                              [&](int b) { EXPECT_EQ(b, int(announced++)); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(announced, bound.learner->layout().buckets.size());
  for (const float g : gradient) EXPECT_EQ(std::bit_cast<uint32_t>(g), 0u);
  EXPECT_THAT(result->statistics, ElementsAre(0, 0));
  EXPECT_THAT(bound.learner->Evaluate(none)->statistics, ElementsAre(0, 0));
}

TEST(Gradient, IsTheSameUnderAForeignFloatEnvironmentWhichItRepairs) {
  const BoundLearner bound = MakeBound(TestModel());
  const auto rows = Rows(0, 64);
  for (float& x : rows->x) x *= 1e-38f;  // products are denormal
  const auto clean = ComputeGradient(*bound.learner, 0, 0, rows->batch).gradient;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  const auto dirty = ComputeGradient(*bound.learner, 0, 0, rows->batch).gradient;
  EXPECT_TRUE(CheckFloatEnvironment().ok());
  _mm_setcsr(before);
  EXPECT_TRUE(SameBits(clean, dirty));
}

std::string Refused(const BoundLearner& bound, const Batch& batch) {
  std::vector<float> gradient(bound.learner->layout().gradient_size);
  const absl::Status status =
      bound.learner->Gradient(0, 0, batch, absl::MakeSpan(gradient), [](int) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bound.learner->Evaluate(batch).status(), status);
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  return std::string(status.message());
}

TEST(Gradient, RefusesBatchesThatDoNotFitSayingWhatWasExpected) {
  const BoundLearner bound = MakeBound(TestModel());
  auto rows = Rows(0, 8);
  rows->batch.fields[0].name = "z";
  EXPECT_THAT(Refused(bound, rows->batch), HasSubstr("no field 'x'"));
  rows = MakeBatch(0, 8, kFeatures - 1, kClasses);
  EXPECT_THAT(Refused(bound, rows->batch),
              HasSubstr("'x' of the batch is float32[8,15]; the model expects float32[8,16]"));
  rows = Rows(0, 8);
  rows->batch.fields[1].dtype = DType::kInt64;
  EXPECT_THAT(Refused(bound, rows->batch), HasSubstr("'y' of the batch is int64[8]"));
  rows = Rows(0, 8);
  rows->y[3] = kClasses;
  EXPECT_THAT(Refused(bound, rows->batch), HasSubstr("example 3 of the replica has the label 5"));
  rows->y[3] = -1;
  EXPECT_THAT(Refused(bound, rows->batch), HasSubstr("label -1"));
  rows = Rows(0, 8, 7);
  EXPECT_THAT(Refused(bound, rows->batch), HasSubstr("8 examples of 7"));
}

TEST(Gradient, RefusesMemoryOfAnotherSize) {
  const BoundLearner bound = MakeBound(TestModel());
  std::vector<float> gradient(3);
  const auto result = bound.learner->Gradient(0, 0, Rows(0, 8)->batch, absl::MakeSpan(gradient),
                                              [](int) { FAIL(); });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Gradient, IntegerInputsAreMadeFloats) {
  ModelSpec spec = TestModel(/*rate=*/0);
  spec.input = {"x", DType::kUInt8, {4, 4}};
  spec.layers.insert(spec.layers.begin(), Flatten());
  const BoundLearner plain = MakeBound(spec);
  spec.layers.insert(spec.layers.begin(), Rescaling(1));
  const BoundLearner rescaled = MakeBound(spec);
  std::vector<uint8_t> x(10 * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = RandomAt(1, i) & 0xff;
  auto rows = Rows(0, 10);
  const auto as_float = ComputeGradient(*MakeBound(TestModel(0)).learner, 0, 0, [&]() -> Batch& {
    for (size_t i = 0; i < x.size(); ++i) rows->x[i] = x[i];
    return rows->batch;
  }());
  rows->batch.fields[0] = {"x", DType::kUInt8, {10, 4, 4}, reinterpret_cast<std::byte*>(x.data())};
  EXPECT_TRUE(
      SameBits(as_float.gradient, ComputeGradient(*plain.learner, 0, 0, rows->batch).gradient));
  EXPECT_TRUE(
      SameBits(as_float.gradient, ComputeGradient(*rescaled.learner, 0, 0, rows->batch).gradient));
}

TEST(Bind, RefusesMemoryThatDoesNotFitAndASecondTime) {
  auto learner = *MakeLearner(TestModel());
  EXPECT_EQ(learner->Evaluate(Rows(0, 4)->batch).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(learner->Apply(0, {}).code(), absl::StatusCode::kFailedPrecondition);
  const size_t size = learner->layout().state_bytes;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, size + 64)), &std::free);
  EXPECT_EQ(learner->Bind({{memory.get() + 4, size}}, 1).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(learner->Bind({{memory.get(), size - 4}}, 1).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(learner->Bind({{memory.get(), size}}, 1).ok());
  EXPECT_EQ(learner->Bind({{memory.get(), size}}, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Apply, WritesNothingWhenRefused) {
  const BoundLearner bound = MakeBound(TestModel());
  const auto before = bound.CopyState();
  std::vector<float> gradient(bound.learner->layout().gradient_size, 1);
  EXPECT_EQ(bound.learner->Apply(1, {gradient, {}}).code(), absl::StatusCode::kInvalidArgument);
  gradient.pop_back();
  EXPECT_EQ(bound.learner->Apply(0, {gradient, {}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(before, bound.CopyState());
}

TEST(Apply, CountsStepsAndTakesNanAsItIs) {
  const BoundLearner bound = MakeBound(TestModel());
  std::vector<float> gradient(bound.learner->layout().gradient_size, 1);
  ASSERT_TRUE(bound.learner->Apply(0, {gradient, {}}).ok());
  EXPECT_EQ(bound.learner->step(), 1);
  gradient[0] = std::bit_cast<float>(0xffc00001u);
  ASSERT_TRUE(bound.learner->Apply(1, {gradient, {}}).ok());
  EXPECT_EQ(bound.learner->step(), 2);
  const absl::Span<float> kernel = bound.Entry("model/dense_1/kernel");
  EXPECT_EQ(std::bit_cast<uint32_t>(kernel[0]), 0x7fc00000u);
  EXPECT_TRUE(std::isfinite(kernel[1]));
}

TEST(Apply, ContinuesFromAStateThatCameFromElsewhere) {
  const BoundLearner a = MakeBound(TestModel(), {}, 1), b = MakeBound(TestModel(), {}, 2);
  const auto step = [](const BoundLearner& bound, Step s) {
    const auto g = ComputeGradient(*bound.learner, s, 0, Rows(s * 32, s * 32 + 32)->batch);
    ASSERT_TRUE(bound.learner->Apply(s, {g.gradient, g.statistics}).ok());
  };
  for (Step s = 0; s < 3; ++s) step(a, s);
  std::copy(a.state().begin(), a.state().end(), b.state().begin());
  EXPECT_EQ(b.learner->step(), 3);
  for (Step s = 3; s < 6; ++s) {
    step(a, s);
    step(b, s);
  }
  EXPECT_EQ(a.CopyState(), b.CopyState());
}

// Trains for `steps` and gives {loss, accuracy} on rows that were not trained on.
std::vector<double> Train(const ModelSpec& spec, LearnerOptions options, int steps) {
  const BoundLearner bound = MakeBound(spec, options);
  for (Step s = 0; s < steps; ++s) {
    const auto g = ComputeGradient(*bound.learner, s, 0, Rows(s * 32, s * 32 + 32)->batch);
    EXPECT_TRUE(bound.learner->Apply(s, {g.gradient, g.statistics}).ok());
  }
  const auto result = bound.learner->Evaluate(Rows(1000000, 1000500)->batch);
  EXPECT_TRUE(result.ok());
  return bound.learner->Summarize({result->statistics[0] * 500.0, result->statistics[1]}, 500);
}

TEST(Training, LearnsAndSummarizes) {
  EXPECT_THAT(MakeBound(TestModel()).learner->SummaryNames(), ElementsAre("loss", "accuracy"));
  const std::vector<double> values = Train(TestModel(), {}, 300);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_LT(values[0], 0.05);
  EXPECT_GT(values[1], 0.99);
  const std::vector<double> before = Train(TestModel(), {}, 0);
  EXPECT_GT(before[0], 1.0);
  EXPECT_LT(before[1], 0.7);
}

TEST(Training, LearnsWithMomentumAndWithSeveralThreads) {
  ModelSpec spec = TestModel();
  spec.optimizer = SGD(0.1, {.momentum = 0.9, .nesterov = true});
  EXPECT_LT(Train(spec, {}, 300)[0], 0.05);
  EXPECT_LT(Train(TestModel(), {.threads_per_replica = 2}, 300)[0], 0.05);
}

TEST(Training, GivesEqualBitsTwice) {
  const auto state = [](LearnerOptions options) {
    ModelSpec spec = TestModel();
    spec.layers[0] = Dense(512, Activation::kRelu);  // large enough for threads to share
    const BoundLearner bound = MakeBound(spec, options);
    for (Step s = 0; s < 5; ++s) {
      const auto g = ComputeGradient(*bound.learner, s, 0, Rows(s * 256, s * 256 + 256)->batch);
      EXPECT_TRUE(bound.learner->Apply(s, {g.gradient, g.statistics}).ok());
    }
    return bound.CopyState();
  };
  EXPECT_EQ(state({}), state({}));
  EXPECT_EQ(state({.threads_per_replica = 2}), state({.threads_per_replica = 2}));
}

}  // namespace
}  // namespace everstep
