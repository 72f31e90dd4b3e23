// learner: metrics, and the contract of metrics of your own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"

namespace everstep {

// Immutable and pure. A metric is a few float sums over examples; replicas' and rounds' sums are
// added, then become the value that people read.
class Metric {
 public:
  virtual ~Metric() = default;

  virtual std::string name() const = 0;
  virtual int num_sums() const { return 1; }

  // Whether the metric fits a model: shapes without the batch dimension. kInvalidArgument if not.
  virtual absl::Status Check(absl::Span<const int64_t> prediction_shape, DType label_dtype,
                             absl::Span<const int64_t> label_shape) const = 0;

  // Sums over the examples of one replica (at least one). `prediction` is float32 [n, ...];
  // `label` [n, ...] as in the batch. Writes all of `sums` (num_sums floats).
  virtual void Sums(const TensorSpan& prediction, const TensorSpan& label,
                    absl::Span<float> sums) const = 0;

  // The value for `examples` examples. examples == 0 gives 0.
  virtual double Value(absl::Span<const double> sums, int64_t examples) const = 0;
};
using MetricPtr = std::shared_ptr<const Metric>;

// The share of examples whose largest prediction (the first of equals) is the label's class.
MetricPtr SparseCategoricalAccuracy(std::string name = "sparse_categorical_accuracy");
// The same, called "accuracy", as Keras's compile(metrics=["accuracy"]) calls it.
MetricPtr Accuracy();

}  // namespace everstep
