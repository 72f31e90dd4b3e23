// learner: the layers we ship.
#include "everstep/learner/layers.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/learner/flat_kernels.h"
#include "everstep/learner/layer.h"
#include "everstep/learner/number_text.h"

namespace everstep {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements a thread is worth waking for; even

// A layer without parameters whose name the user may give.
class NamedLayer : public Layer {
 public:
  NamedLayer(std::string kind, std::string name) : kind_(std::move(kind)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string kind() const override { return kind_; }

 private:
  const std::string kind_, name_;
};

const char* NameOf(Activation activation) {
  switch (activation) {
    case Activation::kLinear:
      return "linear";
    case Activation::kRelu:
      return "relu";
    case Activation::kTanh:
      return "tanh";
    case Activation::kSigmoid:
      return "sigmoid";
    case Activation::kSoftmax:
      return "softmax";
  }
  return "unknown";
}

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kLinear:
      return x;
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kTanh:
      return at::tanh(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
    case Activation::kSoftmax:
      return at::softmax(x, -1);
  }
  return x;
}

class DenseLayer : public NamedLayer {
 public:
  DenseLayer(int units, const DenseOptions& options)
      : NamedLayer("dense", options.name), units_(units), options_(options) {}

  std::string Describe() const override {
    return absl::StrCat("Dense(units=", units_, ", activation=", NameOf(options_.activation),
                        ", use_bias=", options_.use_bias ? "true" : "false", ")");
  }

  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    if (units_ < 1) {
      return absl::InvalidArgumentError(absl::StrCat("Dense needs 1 unit or more, not ", units_));
    }
    if (input.shape.empty()) {
      return absl::InvalidArgumentError("Dense expects inputs [..., features], not one number");
    }
    LayerPlan plan = {input, {{"kernel", {input.shape.back(), units_}}}};
    plan.output.shape.back() = units_;
    if (options_.use_bias) plan.parameters.push_back({"bias", {units_}, Initializer::kZeros});
    return plan;
  }

  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                     ForwardContext& context) const override {
    const at::Tensor x = input.dim() == 2 ? input : input.reshape({-1, input.size(-1)});
    at::Tensor y =
        options_.use_bias ? at::addmm(parameters[1], x, parameters[0]) : at::mm(x, parameters[0]);
    if (input.dim() != 2) {
      std::vector<int64_t> shape = input.sizes().vec();
      shape.back() = units_;
      y = y.view(shape);
    }
    return Activate(y, options_.activation);
  }

 private:
  const int units_;
  const DenseOptions options_;
};

at::Tensor Dropped(const at::Tensor& x, const DropoutMask& mask) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = at::empty_like(from);
  const float* in = from.data_ptr<float>();
  float* out = to.data_ptr<float>();
  // In pairs, so that a thread's first element is even.
  at::parallel_for(0, (from.numel() + 1) / 2, kGrain / 2, [&](int64_t begin, int64_t end) {
    begin *= 2;
    end = std::min(end * 2, from.numel());
    ApplyDropout(mask, begin, in + begin, out + begin, end - begin);
  });
  return to;
}

// The mask is computed, not kept: backward is the same function of the gradient.
struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            int64_t key, int64_t threshold, double scale) {
    context->saved_data["key"] = key;
    context->saved_data["threshold"] = threshold;
    context->saved_data["scale"] = scale;
    return Dropped(x, {static_cast<uint64_t>(key), static_cast<uint32_t>(threshold),
                       static_cast<float>(scale)});
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const DropoutMask mask = {static_cast<uint64_t>(context->saved_data["key"].toInt()),
                              static_cast<uint32_t>(context->saved_data["threshold"].toInt()),
                              static_cast<float>(context->saved_data["scale"].toDouble())};
    return {Dropped(gradients[0], mask), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class DropoutLayer : public NamedLayer {
 public:
  DropoutLayer(double rate, std::string name)
      : NamedLayer("dropout", std::move(name)), rate_(rate) {}

  std::string Describe() const override {
    return absl::StrCat("Dropout(rate=", ExactText(rate_), ")");
  }

  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    if (!(rate_ >= 0 && rate_ < 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Dropout's rate is ", rate_, "; it must be in [0, 1)"));
    }
    return LayerPlan{input, {}};
  }

  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                     ForwardContext& context) const override {
    if (!context.training() || rate_ == 0) return input;
    const auto threshold = static_cast<int64_t>(rate_ * 0x1p32);  // below 2^32: rate is below 1
    return DropoutFunction::apply(input, static_cast<int64_t>(context.key()), threshold,
                                  1.0 / (1.0 - rate_));
  }

 private:
  const double rate_;
};

class FlattenLayer : public NamedLayer {
 public:
  explicit FlattenLayer(std::string name) : NamedLayer("flatten", std::move(name)) {}

  std::string Describe() const override { return "Flatten()"; }
  bool Accepts(DType dtype) const override { return true; }

  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    return LayerPlan{{input.dtype, {NumElements(input.shape)}}, {}};
  }

  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                     ForwardContext& context) const override {
    return input.reshape({input.size(0), -1});
  }
};

class RescalingLayer : public NamedLayer {
 public:
  RescalingLayer(double scale, double offset, std::string name)
      : NamedLayer("rescaling", std::move(name)), scale_(scale), offset_(offset) {}

  std::string Describe() const override {
    return absl::StrCat("Rescaling(scale=", ExactText(scale_), ", offset=", ExactText(offset_),
                        ")");
  }
  bool Accepts(DType dtype) const override {
    return dtype == DType::kFloat32 || dtype == DType::kUInt8;
  }

  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    if (!std::isfinite(scale_) || !std::isfinite(offset_)) {
      return absl::InvalidArgumentError("Rescaling's scale and offset must be finite");
    }
    return LayerPlan{{DType::kFloat32, input.shape}, {}};
  }

  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                     ForwardContext& context) const override {
    if (input.scalar_type() != at::kByte) return input * scale_ + offset_;
    const at::Tensor from = input.contiguous();
    at::Tensor to = at::empty(from.sizes(), at::kFloat);
    const uint8_t* in = from.data_ptr<uint8_t>();
    float* out = to.data_ptr<float>();
    at::parallel_for(0, from.numel(), kGrain, [&](int64_t begin, int64_t end) {
      RescaleBytes(static_cast<float>(scale_), static_cast<float>(offset_), in + begin, out + begin,
                   end - begin);
    });
    return to;
  }

 private:
  const double scale_, offset_;
};

class ReluLayer : public NamedLayer {
 public:
  explicit ReluLayer(std::string name) : NamedLayer("re_lu", std::move(name)) {}

  std::string Describe() const override { return "ReLU()"; }

  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    return LayerPlan{input, {}};
  }

  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                     ForwardContext& context) const override {
    return at::relu(input);
  }
};

}  // namespace

LayerPtr Dense(int units, DenseOptions options) {
  return std::make_shared<DenseLayer>(units, options);
}
LayerPtr Dense(int units, Activation activation) {
  return Dense(units, DenseOptions{.activation = activation});
}
LayerPtr Dropout(double rate, std::string name) {
  return std::make_shared<DropoutLayer>(rate, std::move(name));
}
LayerPtr Flatten(std::string name) { return std::make_shared<FlattenLayer>(std::move(name)); }
LayerPtr Rescaling(double scale, double offset, std::string name) {
  return std::make_shared<RescalingLayer>(scale, offset, std::move(name));
}
LayerPtr ReLU(std::string name) { return std::make_shared<ReluLayer>(std::move(name)); }

}  // namespace everstep
