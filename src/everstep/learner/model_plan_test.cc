// learner: tests of how a description becomes a model: names, layout, initial values, buckets, and
// what is refused.
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "everstep/learner/gradient_sink.h"
#include "everstep/learner/kernels_info.h"
#include "everstep/learner/learner_test_util.h"
#include "everstep/learner/model_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> EntryNames(const StateLayout& layout) {
  std::vector<std::string> names;
  for (const auto& entry : layout.entries) names.push_back(entry.name);
  return names;
}

const StateLayout::Entry& EntryOf(const StateLayout& layout, const std::string& name) {
  for (const auto& entry : layout.entries) {
    if (entry.name == name) return entry;
  }
  ADD_FAILURE() << name;
  return layout.entries[0];
}

TEST(Layout, HoldsParametersLastLayerFirstThenSlotsThenStepAndSeed) {
  const BoundLearner bound = MakeBound(TestModel());
  const StateLayout& layout = bound.learner->layout();
  EXPECT_THAT(
      EntryNames(layout),
      ElementsAre("model/dense_1/kernel", "model/dense_1/bias", "model/dense/kernel",
                  "model/dense/bias", "optimizer/m/dense_1/kernel", "optimizer/m/dense_1/bias",
                  "optimizer/m/dense/kernel", "optimizer/m/dense/bias",
                  "optimizer/v/dense_1/kernel", "optimizer/v/dense_1/bias",
                  "optimizer/v/dense/kernel", "optimizer/v/dense/bias", "step", "seed"));
  EXPECT_EQ(layout.gradient_size, 32 * 5 + 5 + 16 * 32 + 32);
  EXPECT_EQ(layout.statistics_size, 2);
  EXPECT_THAT(EntryOf(layout, "model/dense/kernel").shape, ElementsAre(16, 32));
  EXPECT_EQ(EntryOf(layout, "model/dense_1/kernel").offset, 0);
  EXPECT_EQ(EntryOf(layout, "model/dense_1/bias").offset, 32 * 5 * 4);
  for (const char* first :
       {"optimizer/m/dense_1/kernel", "optimizer/v/dense_1/kernel", "step", "seed"}) {
    EXPECT_EQ(EntryOf(layout, first).offset % 64, 0) << first;
  }
  EXPECT_GE(layout.state_bytes, EntryOf(layout, "seed").offset + 8);
  EXPECT_EQ(EntryOf(layout, "seed").dtype, DType::kInt64);
}

TEST(Layout, BucketsPartitionTheGradientInAscendingOrder) {
  for (const int64_t bucket_floats : {1, 7, 100, 1 << 18}) {
    const BoundLearner bound = MakeBound(TestModel(), {.bucket_floats = bucket_floats});
    int64_t end = 0;
    for (const Bucket& bucket : bound.learner->layout().buckets) {
      EXPECT_EQ(bucket.offset, end);
      EXPECT_GT(bucket.size, 0);
      EXPECT_LE(bucket.size, bucket_floats);
      end += bucket.size;
    }
    EXPECT_EQ(end, bound.learner->layout().gradient_size);
  }
}

TEST(Layout, FingerprintTellsLayoutsApart) {
  const uint64_t a = ModelFingerprint(MakeBound(TestModel()).learner->layout());
  EXPECT_EQ(a, ModelFingerprint(MakeBound(TestModel(), {}, 7).learner->layout()));
  EXPECT_NE(a, ModelFingerprint(MakeBound(TestModel(), {.bucket_floats = 9}).learner->layout()));
  ModelSpec spec = TestModel();
  spec.optimizer = SGD(0.1, {.momentum = 0.9});
  EXPECT_NE(a, ModelFingerprint(MakeBound(spec).learner->layout()));
  spec = TestModel();
  spec.layers[0] = Dense(32, {.name = "first"});
  EXPECT_NE(a, ModelFingerprint(MakeBound(spec).learner->layout()));
}

TEST(InitialState, IsGlorotUniformFromSeedAndParameterAlone) {
  ModelSpec spec = TestModel();
  spec.input.shape = {4};
  spec.layers = {Dense(3)};
  spec.metrics = {};
  const BoundLearner bound = MakeBound(spec, {}, 42);
  const absl::Span<float> kernel = bound.Entry("model/dense/kernel");
  // From an independent computation of SplitMix64 and the formula, rounded to float.
  const uint32_t expected[] = {0x3e30618bu, 0x3f3fea75u, 0x3ecd779au, 0x3f3d082du};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(kernel[i]), expected[i]) << i;
  for (const float b : bound.Entry("model/dense/bias")) EXPECT_EQ(b, 0);
  for (const float m : bound.Entry("optimizer/m/dense/kernel")) EXPECT_EQ(m, 0);
  EXPECT_EQ(bound.learner->step(), 0);
}

TEST(InitialState, StaysInGlorotsRangeAndFillsIt) {
  const BoundLearner bound = MakeBound(TestModel());
  const double limit = std::sqrt(6.0 / (16 + 32));
  double low = 0, high = 0;
  for (const float w : bound.Entry("model/dense/kernel")) {
    low = std::min<double>(low, w);
    high = std::max<double>(high, w);
  }
  EXPECT_GE(low, -limit);
  EXPECT_LE(high, limit);
  EXPECT_LT(low, -0.95 * limit);
  EXPECT_GT(high, 0.95 * limit);
}

TEST(InitialState, DependsOnTheSeedOnly) {
  const BoundLearner a = MakeBound(TestModel(), {}, 1), b = MakeBound(TestModel(), {}, 1);
  const BoundLearner c = MakeBound(TestModel(), {}, 2);
  EXPECT_EQ(a.CopyState(), b.CopyState());
  EXPECT_NE(a.CopyState(), c.CopyState());
  EXPECT_FALSE(SameBits(a.Entry("model/dense/kernel"), c.Entry("model/dense/kernel")));
}

TEST(Names, FollowKerasAndTheUser) {
  ModelSpec spec = TestModel();
  spec.layers = {Flatten(), Dense(4), Dense(4, {.use_bias = false, .name = "middle"}), ReLU(),
                 Dense(5)};
  EXPECT_THAT(
      EntryNames(MakeBound(spec).learner->layout()),
      testing::IsSupersetOf({"model/dense/kernel", "model/middle/kernel", "model/dense_1/bias"}));
  const auto text = DescribeModel(spec);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("re_lu: ReLU() -> float32[4], 0 parameters"));
  EXPECT_THAT(*text, HasSubstr("total 109 parameters"));  // 16*4+4 + 4*4 + 4*5+5
}

TEST(Describe, TellsUnequalModelsApart) {
  const std::string a = *DescribeModel(TestModel(0.25));
  EXPECT_EQ(a, *DescribeModel(TestModel(0.25)));
  EXPECT_NE(a, *DescribeModel(TestModel(0.2500001)));
}

std::string Refused(const ModelSpec& spec, LearnerOptions options = {}) {
  const auto learner = MakeLearner(spec, options);
  EXPECT_EQ(learner.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(learner.status().message());
}

TEST(Refusals, NameThePartThatDoesNotFit) {
  ModelSpec spec = TestModel();
  spec.layers[1] = Dropout(1.0);
  EXPECT_THAT(Refused(spec), HasSubstr("layer 'dropout' on float32[32]: Dropout's rate is 1"));
  spec.layers[1] = Dense(0);
  EXPECT_THAT(Refused(spec), HasSubstr("layer 'dense_1' on float32[32]: Dense needs 1 unit"));
  spec.layers[1] = nullptr;
  EXPECT_THAT(Refused(spec), HasSubstr("layer 1 of the model is null"));
  spec.layers[1] = Dense(3, {.name = "dense"});
  EXPECT_THAT(Refused(spec), HasSubstr("two layers are called 'dense'"));
  spec.layers[1] = Dense(3, {.name = "a/b"});
  EXPECT_THAT(Refused(spec), HasSubstr("'a/b'"));
  spec.layers = {Flatten()};
  EXPECT_THAT(Refused(spec), HasSubstr("no parameters"));
  spec.layers = {};
  EXPECT_THAT(Refused(spec), HasSubstr("no layers"));
  spec = TestModel();
  spec.loss = nullptr;
  EXPECT_THAT(Refused(spec), HasSubstr("no loss"));
  spec = TestModel();
  spec.optimizer = Adam(-1);
  EXPECT_THAT(Refused(spec), HasSubstr("Adam: learning_rate is -1"));
  spec = TestModel();
  spec.metrics = {Accuracy(), Accuracy()};
  EXPECT_THAT(Refused(spec), HasSubstr("'accuracy'"));
}

TEST(Refusals, NameTheFieldThatDoesNotFit) {
  ModelSpec spec = TestModel();
  spec.input.name = "";
  EXPECT_THAT(Refused(spec), HasSubstr("input.name"));
  spec = TestModel();
  spec.input.shape = {4, 0};
  EXPECT_THAT(Refused(spec), HasSubstr("'x' has the shape [4,0]"));
  spec = TestModel();
  spec.input.dtype = DType::kUInt64;
  EXPECT_THAT(Refused(spec), HasSubstr("'x' is uint64"));
  spec = TestModel();
  spec.label.dtype = DType::kFloat32;
  EXPECT_THAT(Refused(spec), HasSubstr("found predictions float32[5] and labels float32[]"));
  spec = TestModel();
  spec.loss = MeanSquaredError();
  EXPECT_THAT(Refused(spec), HasSubstr("MeanSquaredError expects float32 labels"));
}

TEST(Refusals, NameTheOption) {
  EXPECT_THAT(Refused(TestModel(), {.threads_per_replica = 0}),
              HasSubstr("threads_per_replica is 0"));
  EXPECT_THAT(Refused(TestModel(), {.bucket_floats = 0}), HasSubstr("bucket_floats is 0"));
}

TEST(GradientSink, AnnouncesBucketsInOrderWhenTheyAndAllBeforeAreFinal) {
  std::vector<ModelParameter> parameters(3);  // flat: [2: 4][1: 3][0: 5], layers 0, 1, 2
  for (int i = 0; i < 3; ++i) parameters[i].layer = i;
  parameters[0].size = 5;
  parameters[1].size = 3;
  parameters[2].size = 4;
  const ModelLayout layout = LayOut(parameters, {}, 4, 1);  // buckets [0,4) [4,8) [8,12)
  std::vector<float> gradients(12, 9);
  std::vector<int> announced;
  const auto ready = [&](int b) { announced.push_back(b); };
  GradientSink sink(parameters, layout.state, absl::MakeSpan(gradients), ready);
  EXPECT_EQ(sink.At(1).data(), gradients.data() + 4);
  sink.Done(0);
  EXPECT_THAT(announced, ElementsAre());
  sink.Done(2);
  EXPECT_THAT(announced, ElementsAre(0));
  sink.Finish();  // parameter 1 never came
  EXPECT_THAT(announced, ElementsAre(0, 1, 2));
  EXPECT_THAT(gradients, ElementsAre(9, 9, 9, 9, 0, 0, 0, 9, 9, 9, 9, 9));
}

TEST(Metrics, AccuracyCountsTheFirstOfTheLargest) {
  float scores[] = {1, 3, 2, /**/ 5, 5, 1, /**/ 0, 0, 7};
  const TensorSpan prediction = {
      "p", DType::kFloat32, {3, 3}, reinterpret_cast<std::byte*>(scores)};
  int64_t labels[] = {1, 1, 2};
  const TensorSpan label = {"y", DType::kInt64, {3}, reinterpret_cast<std::byte*>(labels)};
  uint8_t bytes[] = {1, 0, 2};
  const TensorSpan small = {"y", DType::kUInt8, {3}, reinterpret_cast<std::byte*>(bytes)};
  float sum = -1;
  const MetricPtr accuracy = Accuracy();
  accuracy->Sums(prediction, label, absl::MakeSpan(&sum, 1));
  EXPECT_EQ(sum, 2);
  accuracy->Sums(prediction, small, absl::MakeSpan(&sum, 1));
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(accuracy->Value({3.0}, 4), 0.75);
  EXPECT_EQ(accuracy->Value({0.0}, 0), 0);
  EXPECT_EQ(accuracy->name(), "accuracy");
  EXPECT_EQ(SparseCategoricalAccuracy()->name(), "sparse_categorical_accuracy");
}

TEST(KernelsInfo, NamesTheLibrariesThatCompute) {
  EXPECT_THAT(BlasDescription(), testing::AnyOf(HasSubstr("OpenBLAS"), "unknown BLAS"));
  EXPECT_THAT(CpuCapability(), testing::AnyOf("AVX512", "AVX2", "DEFAULT", "NO AVX"));
  EXPECT_THAT(LearnerFingerprint(), HasSubstr(CpuCapability()));
  EXPECT_THAT(LearnerFingerprint(), HasSubstr("torch " + TorchVersion()));
}

}  // namespace
}  // namespace everstep
