// learner: from a description of a model to a Learner. No torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/tensor_span.h"
#include "everstep/learner/layers.h"
#include "everstep/learner/learner.h"
#include "everstep/learner/losses.h"
#include "everstep/learner/metric.h"
#include "everstep/learner/optimizers.h"

namespace everstep {

// A field of the batch: its name, type and shape without the batch dimension.
struct FieldSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  // empty: one number an example
};

// A stack of layers (Keras's Sequential) and how it is trained.
struct ModelSpec {
  FieldSpec input;  // numeric; other types than float32 become float32 unless a layer takes them
  FieldSpec label;
  std::vector<LayerPtr> layers;
  LossPtr loss;
  OptimizerPtr optimizer;
  std::vector<MetricPtr> metrics;
};

// Part of the job: other options than threads_per_replica = 1 may give other bits.
struct LearnerOptions {
  int threads_per_replica = 1;               // of ATen and of BLAS, set at run time; 1 to 1024
  int64_t bucket_floats = int64_t{1} << 18;  // of the flat gradient, reduced as one; 1 MiB
};

// Builds the model. Every Learner of equal spec and options has the equal layout, in any process.
// kInvalidArgument, naming the layer and what it expected and found: the parts do not fit.
//
// The state memory is, in this order and each run 64-byte aligned: all parameters (the last layer's
// first, as backward makes their gradients), each optimizer slot in the same order, then "step" and
// "seed" (int64). The flat gradient is ordered as the parameters are. Entries are called
// "model/<layer>/<parameter>", "optimizer/<slot>/<layer>/<parameter>", "step", "seed".
//
// It sets, for the process: torch's deterministic algorithms, one inter-op thread, and malloc to
// keep up to 256 MiB of freed memory.
absl::StatusOr<std::unique_ptr<Learner>> MakeLearner(ModelSpec spec, LearnerOptions options = {});

// The model as people read it, one line a layer with output shape and parameter count, then loss,
// optimizer, metrics and totals. Also what two programs must agree on to compute the same:
// everything in `spec` that changes the bits is in this text. Fails as MakeLearner does.
absl::StatusOr<std::string> DescribeModel(const ModelSpec& spec);

}  // namespace everstep
