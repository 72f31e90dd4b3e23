// learner: the metrics we ship.
#include "everstep/learner/metric.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {

template <typename Label>
int64_t CountCorrect(const float* scores, int64_t classes, absl::Span<const Label> labels) {
  int64_t correct = 0;
  for (const Label label : labels) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (scores[c] > scores[best]) best = c;
    }
    correct += best == static_cast<int64_t>(label);
    scores += classes;
  }
  return correct;
}

class SparseCategoricalAccuracyMetric : public Metric {
 public:
  explicit SparseCategoricalAccuracyMetric(std::string name) : name_(std::move(name)) {}

  std::string name() const override { return name_; }

  absl::Status Check(absl::Span<const int64_t> prediction_shape, DType label_dtype,
                     absl::Span<const int64_t> label_shape) const override {
    const bool integer = label_dtype == DType::kUInt8 || label_dtype == DType::kInt32 ||
                         label_dtype == DType::kInt64;
    if (prediction_shape.size() == 1 && integer && NumElements(label_shape) == 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "metric '", name_, "' needs predictions [classes] and one uint8, int32 or int64 label an ",
        "example; found predictions ", ShapeToString(prediction_shape), " and labels ",
        NameOf(label_dtype), ShapeToString(label_shape)));
  }

  void Sums(const TensorSpan& prediction, const TensorSpan& label,
            absl::Span<float> sums) const override {
    const float* scores = prediction.as<const float>().data();
    const int64_t classes = prediction.shape[1];
    int64_t correct = 0;
    if (label.dtype == DType::kUInt8) {
      correct = CountCorrect(scores, classes, label.as<const uint8_t>());
    } else if (label.dtype == DType::kInt32) {
      correct = CountCorrect(scores, classes, label.as<const int32_t>());
    } else {
      correct = CountCorrect(scores, classes, label.as<const int64_t>());
    }
    sums[0] = static_cast<float>(correct);
  }

  double Value(absl::Span<const double> sums, int64_t examples) const override {
    return examples == 0 ? 0.0 : sums[0] / static_cast<double>(examples);
  }

 private:
  const std::string name_;
};

}  // namespace

MetricPtr SparseCategoricalAccuracy(std::string name) {
  return std::make_shared<SparseCategoricalAccuracyMetric>(std::move(name));
}

MetricPtr Accuracy() { return SparseCategoricalAccuracy("accuracy"); }

}  // namespace everstep
