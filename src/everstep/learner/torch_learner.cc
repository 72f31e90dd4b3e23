// learner: TorchLearner.
#include "everstep/learner/torch_learner.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/float_environment.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/learner/flat_kernels.h"
#include "everstep/learner/torch_thread.h"

namespace everstep {
namespace {

constexpr int64_t kGrain = 1 << 16;  // floats a thread is worth waking for

at::ScalarType ToTorch(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kInt32:
      return at::kInt;
    case DType::kUInt8:
      return at::kByte;
    case DType::kInt8:
      return at::kChar;
    case DType::kInt64:
      return at::kLong;
    case DType::kBool:
      return at::kBool;
    case DType::kUInt64:
      break;
  }
  return at::ScalarType::Undefined;
}

at::Tensor Wrap(const void* data, absl::Span<const int64_t> shape, at::ScalarType type) {
  return at::from_blob(const_cast<void*>(data), at::IntArrayRef(shape.data(), shape.size()),
                       at::TensorOptions(type));
}

std::string ShapeOf(const at::Tensor& t) {
  return ShapeToString(absl::MakeConstSpan(t.sizes().data(), t.sizes().size()));
}

// Runs `body`, which returns a Status; what torch throws becomes a one-line Status.
template <typename Body>
absl::Status Guarded(absl::StatusCode code, const Body& body) {
  std::string message;
  try {
    return body();
  } catch (const c10::Error& e) {
    message = e.what_without_backtrace();
  } catch (const std::exception& e) {
    message = e.what();
  }
  message = message.substr(0, message.find('\n'));
  if (absl::StrContains(message, "leaf Variable that requires grad")) {
    return absl::FailedPreconditionError(
        "a parameter was written to in forward; only the optimizer may change parameters");
  }
  if (absl::StrContains(message, "can't allocate memory")) {
    code = absl::StatusCode::kResourceExhausted;
  }
  return absl::Status(code, message);
}

float CanonicalNan(float x) { return x == x ? x : std::bit_cast<float>(0x7fc00000u); }

// A weak hash is enough: it looks for writes, not for malice.
uint64_t HashFloats(const float* data, int64_t n) {
  uint64_t h = 0;
  for (int64_t i = 0; i < n; ++i) h = (h ^ std::bit_cast<uint32_t>(data[i])) * 0x100000001b3ull;
  return h;
}

}  // namespace

struct TorchLearner::Pass {
  at::Tensor input;
  at::Tensor label;
  std::vector<at::Tensor> leaves;
  at::Tensor prediction;
  at::Tensor loss;            // of the replica: the sum over its examples
  int64_t input_version = 0;  // torch's counts of writes before forward
  int64_t label_version = 0;
  std::vector<int64_t> leaf_versions;
};

TorchLearner::TorchLearner(ModelSpec spec, LearnerOptions options, ModelPlan plan,
                           ModelLayout layout)
    : spec_(std::move(spec)),
      options_(options),
      plan_(std::move(plan)),
      layout_(std::move(layout)) {}

float* TorchLearner::Floats(int64_t region) const {
  return reinterpret_cast<float*>(memory_.data() + region);
}

int64_t& TorchLearner::Number(int64_t region) const {
  return *reinterpret_cast<int64_t*>(memory_.data() + region);
}

absl::Status TorchLearner::Bind(StateMemory memory, uint64_t seed) {
  if (!memory_.empty()) return absl::FailedPreconditionError("the learner is bound already");
  if (static_cast<int64_t>(memory.bytes.size()) != layout_.state.state_bytes ||
      reinterpret_cast<uintptr_t>(memory.bytes.data()) % 64 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state needs ", layout_.state.state_bytes, " bytes aligned to 64; found ",
                     memory.bytes.size(), " bytes at an address that is ",
                     reinterpret_cast<uintptr_t>(memory.bytes.data()) % 64, " modulo 64"));
  }
  memory_ = memory.bytes;
  SetFloatEnvironment();
  std::memset(memory_.data(), 0, memory_.size());
  float* const parameters = Floats(layout_.regions.parameters);
  for (size_t i = 0; i < plan_.parameters.size(); ++i) {
    const ModelParameter& p = plan_.parameters[i];
    Initialize(p.spec, seed, static_cast<int64_t>(i),
               absl::MakeSpan(parameters + p.offset, p.size));
  }
  Number(layout_.regions.seed) = static_cast<int64_t>(seed);
  return absl::OkStatus();
}

Step TorchLearner::step() const { return memory_.empty() ? 0 : Number(layout_.regions.step); }

absl::Status TorchLearner::CheckField(const Batch& batch, const FieldSpec& field) const {
  const TensorSpan* const found = batch.Find(field.name);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch has no field '", field.name, "' that the model reads"));
  }
  std::vector<int64_t> shape = {batch.examples};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  if (found->dtype == field.dtype && found->shape == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("field '", field.name, "' of the batch is ",
                                                 NameOf(found->dtype), ShapeToString(found->shape),
                                                 "; the model expects ", NameOf(field.dtype),
                                                 ShapeToString(shape)));
}

absl::Status TorchLearner::CheckBatch(const Batch& batch) const {
  if (memory_.empty()) return absl::FailedPreconditionError("the learner is not bound to memory");
  if (batch.examples < 0 || batch.global_examples < 1 || batch.examples > batch.global_examples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the batch has ", batch.examples, " examples of ", batch.global_examples, " in the step"));
  }
  if (batch.examples == 0) return absl::OkStatus();  // it may have no fields
  EV_RETURN_IF_ERROR(CheckField(batch, spec_.input));
  EV_RETURN_IF_ERROR(CheckField(batch, spec_.label));
  return spec_.loss->CheckLabels(plan_.layers.back().output, *batch.Find(spec_.label.name));
}

std::vector<at::Tensor> TorchLearner::MakeLeaves(bool training) const {
  const float* const parameters = Floats(layout_.regions.parameters);
  std::vector<at::Tensor> leaves;
  leaves.reserve(plan_.parameters.size());
  for (const ModelParameter& p : plan_.parameters) {
    leaves.push_back(Wrap(parameters + p.offset, p.spec.shape, at::kFloat));
    if (training) leaves.back().requires_grad_(true);
  }
  return leaves;
}

absl::Status TorchLearner::RunLayers(bool training, uint64_t key, Pass& pass) const {
  at::Tensor x = pass.input;
  std::vector<int64_t> expected;
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const PlannedLayer& planned = plan_.layers[i];
    const absl::Status status = Guarded(absl::StatusCode::kInvalidArgument, [&] {
      if (planned.cast) x = x.to(at::kFloat);
      ForwardContext context(training, HashKey({key, i}));
      x = planned.layer->Forward(
          x,
          absl::MakeConstSpan(pass.leaves).subspan(planned.first_parameter, planned.num_parameters),
          context);
      return absl::OkStatus();
    });
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrCat("layer '", planned.name, "' on ", NameOf(planned.input.dtype),
                                   ShapeToString(planned.input.shape)));
    }
    expected.assign(1, pass.input.size(0));
    expected.insert(expected.end(), planned.output.shape.begin(), planned.output.shape.end());
    if (!x.defined() || x.sizes() != at::IntArrayRef(expected) ||
        x.scalar_type() != ToTorch(planned.output.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", planned.name, "' planned ", NameOf(planned.output.dtype),
          ShapeToString(expected), " and gave ",
          x.defined() ? absl::StrCat(c10::toString(x.scalar_type()), ShapeOf(x)) : "nothing"));
    }
  }
  pass.prediction = std::move(x);
  return absl::OkStatus();
}

absl::Status TorchLearner::CheckUntouched(const Pass& pass) const {
  for (const FieldSpec* field : {&spec_.input, &spec_.label}) {
    const bool is_input = field == &spec_.input;
    const int64_t version = (is_input ? pass.input : pass.label)._version();
    if (version == (is_input ? pass.input_version : pass.label_version)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "field '", field->name, "' of the batch was written to in forward; clone it first"));
  }
  for (size_t i = 0; i < pass.leaves.size(); ++i) {
    if (static_cast<int64_t>(pass.leaves[i]._version()) == pass.leaf_versions[i]) continue;
    const ModelParameter& p = plan_.parameters[i];
    return absl::FailedPreconditionError(
        absl::StrCat("parameter '", p.layer_name, "/", p.spec.name,
                     "' was written to in forward; only the optimizer may change parameters"));
  }
  return absl::OkStatus();
}

absl::Status TorchLearner::Forward(const Batch& batch, bool training, uint64_t key, Pass& pass) {
  // A layer that draws from torch's own generator is pure too, if not independent of the others.
  SeedGenerator(at::detail::getDefaultCPUGenerator(), key);
  const TensorSpan& input = *batch.Find(spec_.input.name);
  const TensorSpan& label = *batch.Find(spec_.label.name);
  pass.input = Wrap(input.data, input.shape, ToTorch(input.dtype));
  pass.label = Wrap(label.data, label.shape, ToTorch(label.dtype));
  pass.leaves = MakeLeaves(training);
  pass.input_version = pass.input._version();
  pass.label_version = pass.label._version();
  for (const at::Tensor& leaf : pass.leaves) pass.leaf_versions.push_back(leaf._version());

  // Writes behind torch's back (through a raw pointer) are looked for in the first forward only.
  const float* const parameters = Floats(layout_.regions.parameters);
  const bool look = !std::exchange(hashed_forward_[training], true);
  const uint64_t before = look ? HashFloats(parameters, layout_.state.gradient_size) : 0;

  EV_RETURN_IF_ERROR(RunLayers(training, key, pass));
  EV_RETURN_IF_ERROR(
      Annotate(Guarded(absl::StatusCode::kInvalidArgument,
                       [&] {
                         pass.loss = spec_.loss->Sum(pass.prediction, pass.label);
                         return pass.loss.numel() == 1 && pass.loss.scalar_type() == at::kFloat
                                    ? absl::OkStatus()
                                    : absl::InvalidArgumentError("Sum did not give one float32");
                       }),
               spec_.loss->Describe()));
  EV_RETURN_IF_ERROR(CheckUntouched(pass));
  if (look && HashFloats(parameters, layout_.state.gradient_size) != before) {
    return absl::FailedPreconditionError(
        "a parameter was written to in forward; only the optimizer may change parameters");
  }
  return absl::OkStatus();
}

absl::Status TorchLearner::Backward(const Batch& batch, Pass& pass, GradientSink& sink) const {
  if (!pass.loss.requires_grad()) return absl::OkStatus();  // no parameter takes part
  int before = -1;
  for (size_t i = 0; i < pass.leaves.size(); ++i) {
    // Called by autograd, in this thread, with the whole gradient of the leaf; then autograd stores
    // it in the leaf, where nobody needs it: it goes when the next one comes.
    pass.leaves[i].register_hook([&, i](const at::Tensor& gradient) {
      if (before >= 0) pass.leaves[before].mutable_grad().reset();
      before = static_cast<int>(i);
      const at::Tensor from = gradient.contiguous();
      const absl::Span<float> to = sink.At(static_cast<int>(i));
      TORCH_CHECK(from.scalar_type() == at::kFloat && from.numel() == int64_t(to.size()) &&
                      !sink.IsDone(static_cast<int>(i)),
                  "a gradient of another type or size than its parameter, or a second one");
      const float* const data = from.data_ptr<float>();
      at::parallel_for(0, from.numel(), kGrain, [&](int64_t begin, int64_t end) {
        CopyFloats(data + begin, to.data() + begin, end - begin);
      });
      sink.Done(static_cast<int>(i));
    });
  }
  return Annotate(Guarded(absl::StatusCode::kInternal,
                          [&] {
                            const float scale = 1.0f / static_cast<float>(batch.global_examples);
                            pass.loss.backward(
                                at::full(pass.loss.sizes(), scale, at::TensorOptions(at::kFloat)));
                            return absl::OkStatus();
                          }),
                  "backward");
}

std::vector<float> TorchLearner::Statistics(const Batch& batch, const Pass& pass) const {
  std::vector<float> statistics(layout_.state.statistics_size);
  statistics[0] = *pass.loss.data_ptr<float>() / static_cast<float>(batch.global_examples);
  const at::Tensor prediction = pass.prediction.detach().contiguous();
  const TensorSpan span = {"prediction", DType::kFloat32, prediction.sizes().vec(),
                           static_cast<std::byte*>(prediction.data_ptr())};
  size_t next = 1;
  for (const MetricPtr& metric : spec_.metrics) {
    const absl::Span<float> sums = absl::MakeSpan(statistics).subspan(next, metric->num_sums());
    metric->Sums(span, *batch.Find(spec_.label.name), sums);
    next += sums.size();
  }
  for (float& x : statistics) x = CanonicalNan(x);
  return statistics;
}

absl::StatusOr<ReplicaResult> TorchLearner::Gradient(Step step, int r, const Batch& batch,
                                                     absl::Span<float> gradients,
                                                     absl::FunctionRef<void(int)> ready) {
  EV_RETURN_IF_ERROR(CheckBatch(batch));
  if (static_cast<int64_t>(gradients.size()) != layout_.state.gradient_size) {
    return absl::InvalidArgumentError(absl::StrCat("the gradient has ", layout_.state.gradient_size,
                                                   " floats, the ", "memory for it ",
                                                   gradients.size()));
  }
  EV_RETURN_IF_ERROR(PrepareTorchThread(options_.threads_per_replica));
  GradientSink sink(plan_.parameters, layout_.state, gradients, ready);
  ReplicaResult result;
  if (batch.examples == 0) {
    result.statistics.assign(layout_.state.statistics_size, 0.0f);
  } else {
    const uint64_t key = HashKey({static_cast<uint64_t>(Number(layout_.regions.seed)),
                                  static_cast<uint64_t>(RandomPurpose::kReplica),
                                  static_cast<uint64_t>(step), static_cast<uint64_t>(r)});
    EV_RETURN_IF_ERROR(Guarded(absl::StatusCode::kInternal, [&]() -> absl::Status {
      const at::AutoGradMode grad(true);
      Pass pass;
      EV_RETURN_IF_ERROR(Forward(batch, /*training=*/true, key, pass));
      EV_RETURN_IF_ERROR(Backward(batch, pass, sink));
      result.statistics = Statistics(batch, pass);
      return absl::OkStatus();
    }));
  }
  sink.Finish();
  EV_RETURN_IF_ERROR(CheckFloatEnvironment());
  return result;
}

absl::StatusOr<ReplicaResult> TorchLearner::Evaluate(const Batch& batch) {
  EV_RETURN_IF_ERROR(CheckBatch(batch));
  EV_RETURN_IF_ERROR(PrepareTorchThread(options_.threads_per_replica));
  ReplicaResult result;
  if (batch.examples == 0) {
    result.statistics.assign(layout_.state.statistics_size, 0.0f);
    return result;
  }
  EV_RETURN_IF_ERROR(Guarded(absl::StatusCode::kInternal, [&]() -> absl::Status {
    const at::NoGradGuard no_grad;
    Pass pass;
    const uint64_t seed = static_cast<uint64_t>(Number(layout_.regions.seed));
    EV_RETURN_IF_ERROR(Forward(batch, /*training=*/false, HashKey({seed}), pass));
    result.statistics = Statistics(batch, pass);
    return absl::OkStatus();
  }));
  EV_RETURN_IF_ERROR(CheckFloatEnvironment());
  return result;
}

absl::Status TorchLearner::Apply(Step step, const Reduced& reduced) {
  if (memory_.empty()) return absl::FailedPreconditionError("the learner is not bound to memory");
  int64_t& state_step = Number(layout_.regions.step);
  if (step != state_step) {
    return absl::InvalidArgumentError(
        absl::StrCat("Apply of step ", step, " on a state at step ", state_step));
  }
  const int64_t size = layout_.state.gradient_size;
  if (static_cast<int64_t>(reduced.gradients.size()) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient has ", size, " floats, not ", reduced.gradients.size()));
  }
  EV_RETURN_IF_ERROR(PrepareTorchThread(options_.threads_per_replica));
  // Nothing below can fail.
  float* const parameters = Floats(layout_.regions.parameters);
  at::parallel_for(0, size, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<float*> slots;
    for (const int64_t region : layout_.regions.slots) slots.push_back(Floats(region) + begin);
    spec_.optimizer->Update(step, reduced.gradients.subspan(begin, end - begin),
                            absl::MakeSpan(parameters + begin, end - begin), slots);
  });
  state_step = step + 1;
  return absl::OkStatus();
}

std::vector<std::string> TorchLearner::SummaryNames() const {
  std::vector<std::string> names = {"loss"};
  for (const MetricPtr& metric : spec_.metrics) names.push_back(metric->name());
  return names;
}

std::vector<double> TorchLearner::Summarize(absl::Span<const double> sums, int64_t examples) const {
  std::vector<double> values = {examples == 0 ? 0.0 : sums[0] / static_cast<double>(examples)};
  size_t next = 1;
  for (const MetricPtr& metric : spec_.metrics) {
    values.push_back(metric->Value(sums.subspan(next, metric->num_sums()), examples));
    next += metric->num_sums();
  }
  return values;
}

absl::StatusOr<std::unique_ptr<Learner>> MakeLearner(ModelSpec spec, LearnerOptions options) {
  if (options.threads_per_replica < 1 || options.threads_per_replica > 1024) {
    return absl::InvalidArgumentError(absl::StrCat(
        "threads_per_replica is ", options.threads_per_replica, "; it must be 1 to 1024"));
  }
  if (options.bucket_floats < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket_floats is ", options.bucket_floats, "; it must be 1 or more"));
  }
  EV_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(spec));
  for (const FieldSpec* field : {&spec.input, &spec.label}) {
    if (ToTorch(field->dtype) == at::ScalarType::Undefined) {
      return absl::InvalidArgumentError(absl::StrCat("field '", field->name, "' is ",
                                                     NameOf(field->dtype),
                                                     ", which torch cannot compute with"));
    }
  }
  int statistics_size = 1;
  for (const MetricPtr& metric : spec.metrics) statistics_size += metric->num_sums();
  PrepareTorchProcess();
  ModelLayout layout =
      LayOut(plan.parameters, spec.optimizer->Slots(), options.bucket_floats, statistics_size);
  return std::make_unique<TorchLearner>(std::move(spec), options, std::move(plan),
                                        std::move(layout));
}

}  // namespace everstep
