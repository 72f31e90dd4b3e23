// learner: the losses we ship.
#include "everstep/learner/losses.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "everstep/learner/layer.h"

namespace everstep {
namespace {

std::string Text(const TensorSpec& t) {
  return absl::StrCat(NameOf(t.dtype), ShapeToString(t.shape));
}

template <typename Label>
absl::Status CheckClasses(absl::Span<const Label> labels, int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<int64_t>(labels[i]);
    if (label < 0 || label >= classes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "SparseCategoricalCrossentropy: example ", i, " of the replica has the label ", label,
          "; the model has the classes 0 to ", classes - 1));
    }
  }
  return absl::OkStatus();
}

class SparseCategoricalCrossentropyLoss : public Loss {
 public:
  explicit SparseCategoricalCrossentropyLoss(SparseCategoricalCrossentropyOptions options)
      : options_(options) {}

  std::string Describe() const override {
    return absl::StrCat(
        "SparseCategoricalCrossentropy(from_logits=", options_.from_logits ? "true" : "false", ")");
  }

  absl::Status Check(const TensorSpec& prediction, const TensorSpec& label) const override {
    const bool integer = label.dtype == DType::kUInt8 || label.dtype == DType::kInt32 ||
                         label.dtype == DType::kInt64;
    if (prediction.shape.size() == 1 && integer && NumElements(label.shape) == 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "SparseCategoricalCrossentropy expects predictions [classes] and one uint8, int32 or ",
        "int64 label an example; found predictions ", Text(prediction), " and labels ",
        Text(label)));
  }

  absl::Status CheckLabels(const TensorSpec& prediction, const TensorSpan& label) const override {
    const int64_t classes = prediction.shape[0];
    if (label.dtype == DType::kUInt8) return CheckClasses(label.as<const uint8_t>(), classes);
    if (label.dtype == DType::kInt32) return CheckClasses(label.as<const int32_t>(), classes);
    return CheckClasses(label.as<const int64_t>(), classes);
  }

  at::Tensor Sum(const at::Tensor& prediction, const at::Tensor& label) const override {
    constexpr double kEpsilon = 1e-7;  // keras.config.epsilon()
    const at::Tensor logits =
        options_.from_logits ? prediction : at::log(at::clamp(prediction, kEpsilon, 1 - kEpsilon));
    const at::Tensor classes = label.to(at::kLong).reshape({-1});
    return at::nll_loss(at::log_softmax(logits, 1), classes, {}, at::Reduction::Sum);
  }

 private:
  const SparseCategoricalCrossentropyOptions options_;
};

class MeanSquaredErrorLoss : public Loss {
 public:
  std::string Describe() const override { return "MeanSquaredError()"; }

  absl::Status Check(const TensorSpec& prediction, const TensorSpec& label) const override {
    if (label.dtype == DType::kFloat32 && label.shape == prediction.shape) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("MeanSquaredError expects float32 labels of the predictions' shape; found "
                     "predictions ",
                     Text(prediction), " and labels ", Text(label)));
  }

  at::Tensor Sum(const at::Tensor& prediction, const at::Tensor& label) const override {
    const int64_t elements = prediction.numel() / prediction.size(0);
    return at::mse_loss(prediction, label, at::Reduction::Sum) / static_cast<double>(elements);
  }
};

}  // namespace

LossPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions options) {
  return std::make_shared<SparseCategoricalCrossentropyLoss>(options);
}

LossPtr MeanSquaredError() { return std::make_shared<MeanSquaredErrorLoss>(); }

}  // namespace everstep
