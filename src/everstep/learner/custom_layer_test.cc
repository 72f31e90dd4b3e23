// learner: tests that need torch: layers of a user's own, and torch's autograd and Adam as judges.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/optim/adam.h>
#include <xmmintrin.h>

#include <atomic>
#include <bit>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "everstep/learner/layer.h"
#include "everstep/learner/learner_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ForwardFunction =
    std::function<at::Tensor(const at::Tensor&, absl::Span<const at::Tensor>, ForwardContext&)>;

// A layer that keeps the shape, has the parameters [features] "scale" and "unused", and does what
// the test says.
class TestLayer : public Layer {
 public:
  explicit TestLayer(ForwardFunction forward) : forward_(std::move(forward)) {}
  std::string kind() const override { return "custom"; }
  std::string Describe() const override { return "TestLayer()"; }
  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    LayerPlan plan;
    plan.output = input;
    plan.parameters = {{"scale", input.shape, Initializer::kOnes},
                       {"unused", input.shape, Initializer::kOnes}};
    return plan;
  }
  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                     ForwardContext& context) const override {
    return forward_(input, parameters, context);
  }

 private:
  const ForwardFunction forward_;
};

ModelSpec ModelWith(ForwardFunction forward, bool first = false) {
  ModelSpec spec = TestModel(/*rate=*/0);
  spec.layers.insert(spec.layers.begin() + (first ? 0 : 1),
                     std::make_shared<TestLayer>(std::move(forward)));
  return spec;
}

at::Tensor Scaled(const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
  return x * p[0];
}

absl::Status GradientStatus(const BoundLearner& bound) {
  const auto rows = MakeBatch(0, 16, kFeatures, kClasses);
  std::vector<float> gradient(bound.learner->layout().gradient_size);
  return bound.learner->Gradient(0, 0, rows->batch, absl::MakeSpan(gradient), [](int) {}).status();
}

TEST(Gradient, IsAutogradsBitForBit) {
  const BoundLearner bound = MakeBound(TestModel(/*rate=*/0));
  const auto rows = MakeBatch(0, 64, kFeatures, kClasses, 100);
  const auto got = ComputeGradient(*bound.learner, 0, 0, rows->batch);

  at::set_num_threads(1);
  std::vector<at::Tensor> leaves;
  for (const TensorSpan& t : StateTensors(bound.learner->layout(), bound.state())) {
    if (t.name.rfind("model/", 0) != 0) continue;
    leaves.push_back(at::from_blob(t.data, t.shape, at::kFloat).clone().requires_grad_());
  }
  const at::Tensor x = at::from_blob(rows->x.data(), {64, kFeatures}, at::kFloat);
  const at::Tensor y = at::from_blob(rows->y.data(), {64}, at::kInt).to(at::kLong);
  // In the layout's order: dense_1/kernel, dense_1/bias, dense/kernel, dense/bias.
  const at::Tensor hidden = at::relu(at::addmm(leaves[3], x, leaves[2]));
  const at::Tensor logits = at::addmm(leaves[1], hidden, leaves[0]);
  const at::Tensor loss = at::cross_entropy_loss(logits, y, {}, at::Reduction::Sum);
  loss.backward(at::full({}, 1.0f / 100.0f));
  std::vector<float> expected;
  for (const at::Tensor& leaf : leaves) {
    const at::Tensor g = leaf.grad().contiguous();
    expected.insert(expected.end(), g.data_ptr<float>(), g.data_ptr<float>() + g.numel());
  }
  EXPECT_TRUE(SameBits(got.gradient, expected));
  EXPECT_EQ(got.statistics[0], loss.item<float>() / 100.0f);
  EXPECT_EQ(got.statistics[1], logits.argmax(1).eq(y).sum().item<float>());
}

TEST(Adam, AgreesWithTorchs) {
  ModelSpec spec = TestModel();
  // PyTorch adds epsilon after the correction, Keras before: too small a one to matter here.
  spec.optimizer = Adam(0.01, {.epsilon = 1e-12});
  const BoundLearner bound = MakeBound(spec);
  const int64_t size = bound.learner->layout().gradient_size;
  at::Tensor w = at::from_blob(bound.memory.get(), {size}, at::kFloat).clone().requires_grad_();
  torch::optim::Adam adam({w}, torch::optim::AdamOptions(0.01).eps(1e-12));
  for (Step s = 0; s < 50; ++s) {
    const auto rows = MakeBatch(s * 32, s * 32 + 32, kFeatures, kClasses);
    const auto g = ComputeGradient(*bound.learner, s, 0, rows->batch);
    w.mutable_grad() =
        at::from_blob(const_cast<float*>(g.gradient.data()), {size}, at::kFloat).clone();
    adam.step();
    ASSERT_TRUE(bound.learner->Apply(s, {g.gradient, g.statistics}).ok());
  }
  const at::Tensor ours = at::from_blob(bound.memory.get(), {size}, at::kFloat);
  EXPECT_LT((ours - w).abs().max().item<float>(), 2e-6);
}

TEST(CustomLayer, TrainsItsParametersAndAnUnusedOneGetsPlusZero) {
  const BoundLearner bound = MakeBound(ModelWith(Scaled));
  const auto got =
      ComputeGradient(*bound.learner, 0, 0, MakeBatch(0, 16, kFeatures, kClasses)->batch);
  for (const auto& entry : bound.learner->layout().entries) {
    if (entry.name.rfind("model/custom/", 0) != 0) continue;
    int nonzero = 0;
    for (int i = 0; i < 32; ++i) {
      nonzero += std::bit_cast<uint32_t>(got.gradient[entry.offset / 4 + i]) != 0;
    }
    if (entry.name == "model/custom/unused") {
      EXPECT_EQ(nonzero, 0);
    } else {
      EXPECT_GT(nonzero, 10);
    }
  }
}

TEST(CustomLayer, BucketsOfLaterLayersAreReadyBeforeBackwardReachesIt) {
  std::vector<std::string> events;
  ModelSpec spec =
      ModelWith([&](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
        at::Tensor y = x * p[0] + p[1];
        y.register_hook([&events](const at::Tensor&) { events.push_back("backward"); });
        return y;
      });
  // The last Dense has 165 parameters.
  const BoundLearner bound = MakeBound(spec, {.bucket_floats = 165});
  std::vector<float> gradient(bound.learner->layout().gradient_size);
  ASSERT_TRUE(bound.learner
                  ->Gradient(0, 0, MakeBatch(0, 16, kFeatures, kClasses)->batch,
                             absl::MakeSpan(gradient),
                             [&](int b) { events.push_back(b == 0 ? "first" : "later"); })
                  .ok());
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[0], "first");
  EXPECT_EQ(events[1], "backward");
  EXPECT_EQ(events[2], "later");
}

TEST(CustomLayer, ThatWritesToAParameterIsFoundOut) {
  const std::vector<ForwardFunction> culprits = {
      [](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
        p[0].mul_(2);
        return x * p[0];
      },
      [](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
        const at::NoGradGuard no_grad;
        p[0].mul_(2);
        return x + 1;
      },
      [](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
        p[0].data_ptr<float>()[1] = 7;
        return x * p[0];
      }};
  for (const ForwardFunction& culprit : culprits) {
    const absl::Status status = GradientStatus(MakeBound(ModelWith(culprit)));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("parameter"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("was written to in forward"));
  }
  // In evaluation autograd itself does not mind.
  const BoundLearner bound = MakeBound(ModelWith(culprits[0]));
  EXPECT_EQ(bound.learner->Evaluate(MakeBatch(0, 4, kFeatures, kClasses)->batch).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CustomLayer, ThatWritesToTheBatchIsFoundOut) {
  const absl::Status status =
      GradientStatus(MakeBound(ModelWith([](const at::Tensor& x, absl::Span<const at::Tensor>,
                                            ForwardContext&) { return at::Tensor(x).mul_(2); },
                                         /*first=*/true)));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("field 'x'"));
}

TEST(CustomLayer, ThatThrowsOrBreaksItsPlanIsNamedInOneLine) {
  absl::Status status = GradientStatus(
      MakeBound(ModelWith([](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
        return at::mm(x, p[0].expand({7, 32}));
      })));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 'custom' on float32[32]: "));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  status =
      GradientStatus(MakeBound(ModelWith([](const at::Tensor& x, absl::Span<const at::Tensor> p,
                                            ForwardContext&) { return x.slice(1, 0, 31); })));
  EXPECT_EQ(std::string(status.message()),
            "layer 'custom' planned float32[16,32] and gave Float[16,31]");
  status = GradientStatus(MakeBound(ModelWith(
      [](const at::Tensor& x, absl::Span<const at::Tensor>, ForwardContext&) -> at::Tensor {
        throw std::runtime_error("no more\nsecond line");
      })));
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 'custom' on float32[32]: no more"));
}

TEST(CustomLayer, ThatChangesTheFloatEnvironmentIsFoundOut) {
  const unsigned before = _mm_getcsr();
  const absl::Status status = GradientStatus(MakeBound(
      ModelWith([](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext& c) {
        _mm_setcsr(_mm_getcsr() | 0x8000);
        return Scaled(x, p, c);
      })));
  _mm_setcsr(before);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

TEST(Gradient, RepairsTheFloatEnvironmentOfTorchsWorkersToo) {
  ModelSpec spec = TestModel();
  spec.layers[0] = Dense(2048, Activation::kTanh);  // elementwise work for two threads
  const BoundLearner bound = MakeBound(spec, {.threads_per_replica = 2});
  const auto rows = MakeBatch(0, 64, kFeatures, kClasses);
  for (float& x : rows->x) x *= 1e-38f;
  const auto clean = ComputeGradient(*bound.learner, 0, 0, rows->batch);
  const unsigned before = _mm_getcsr();
  ASSERT_EQ(at::get_num_threads(), 2);
  at::parallel_for(0, 2, 1, [](int64_t, int64_t) { _mm_setcsr(_mm_getcsr() | 0x8040); });
  const auto dirty = ComputeGradient(*bound.learner, 0, 0, rows->batch);
  _mm_setcsr(before);
  EXPECT_TRUE(SameBits(clean.gradient, dirty.gradient));
  std::atomic<int> flushing{0};
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) { flushing += (_mm_getcsr() & 0x8040) != 0; });
  EXPECT_EQ(flushing, 0);
}

TEST(Gradient, RefusesToRunOnFewerThreadsThanTheJobHas) {
  const BoundLearner bound = MakeBound(TestModel(), {.threads_per_replica = 2});
  absl::Status status;
  at::set_num_threads(2);
  // Inside a parallel region OpenMP gives no more threads.
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t) {
    if (begin == 0) status = GradientStatus(bound);
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("OpenMP gave 1 of the 2 threads"));
  EXPECT_TRUE(GradientStatus(bound).ok());
}

TEST(CustomLayer, DrawsFromItsGeneratorOrTorchsOwnAreFunctionsOfStepAndReplica) {
  const std::vector<ForwardFunction> draws = {
      [](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext& context) {
        return x * at::empty_like(x).bernoulli_(0.5, context.generator()) * p[0];
      },
      [](const at::Tensor& x, absl::Span<const at::Tensor> p, ForwardContext&) {
        return (x + at::randn_like(x)) * p[0];
      }};
  const auto rows = MakeBatch(0, 32, kFeatures, kClasses);
  for (const ForwardFunction& draw : draws) {
    const BoundLearner bound = MakeBound(ModelWith(draw));
    const auto base = ComputeGradient(*bound.learner, 1, 1, rows->batch).gradient;
    const auto other = ComputeGradient(*bound.learner, 1, 2, rows->batch).gradient;
    at::randn({3});  // somebody else draws in between
    EXPECT_TRUE(SameBits(base, ComputeGradient(*bound.learner, 1, 1, rows->batch).gradient));
    EXPECT_FALSE(SameBits(base, other));
  }
}

TEST(CustomLayer, ThatCutsTheGraphGivesPlusZero) {
  ModelSpec spec = ModelWith(Scaled);
  spec.layers.push_back(
      std::make_shared<TestLayer>([](const at::Tensor& x, absl::Span<const at::Tensor>,
                                     ForwardContext&) { return x.detach(); }));
  const BoundLearner cut = MakeBound(spec);
  const auto got =
      ComputeGradient(*cut.learner, 0, 0, MakeBatch(0, 16, kFeatures, kClasses)->batch);
  for (const float g : got.gradient) EXPECT_EQ(std::bit_cast<uint32_t>(g), 0u);
}

}  // namespace
}  // namespace everstep
