// learner: the contracts of layers and losses of your own. This header needs libtorch; programs
// that only use ours need layers.h and losses.h.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/learner/initializer.h"
#include "everstep/learner/layers.h"
#include "everstep/learner/losses.h"

namespace everstep {

// A tensor between layers, without the batch dimension.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
};

struct LayerPlan {
  TensorSpec output;
  std::vector<ParameterSpec> parameters;
};

// What a layer may know of the replica it computes. Made anew for each layer and each call.
class ForwardContext {
 public:
  ForwardContext(bool training, uint64_t key) : training_(training), key_(key) {}

  bool training() const { return training_; }
  // Of (seed, step, replica, index of the layer): for counter-based random numbers, RandomAt(key,
  // k).
  uint64_t key() const { return key_; }
  // The same key as a torch generator, made when first asked for: tensor.bernoulli_(p,
  // generator()).
  const at::Generator& generator();

 private:
  const bool training_;
  const uint64_t key_;
  at::Generator generator_;
};

// One layer of a Sequential. Immutable: its weights are in the state and come as arguments.
class Layer {
 public:
  virtual ~Layer() = default;

  // The user's name for it; empty: kind(), with _1, _2, ... in the model's order.
  virtual std::string name() const { return {}; }
  virtual std::string kind() const = 0;  // "dense"
  // Everything that changes what it computes, in one line: "Dense(units=128, activation=relu)".
  virtual std::string Describe() const = 0;

  // Input types that Forward takes as they are; others are made float32 first.
  virtual bool Accepts(DType dtype) const { return dtype == DType::kFloat32; }

  // Output and parameters for an input. kInvalidArgument: the input does not fit, or an option is
  // out of range; says what is expected. The learner adds the layer's name.
  virtual absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const = 0;

  // `input` is [n, ...], n >= 1, as planned; must not be written to. `parameters` in Plan's order:
  // leaves over the state, must not be written to (an error is reported when one was). Random
  // numbers only from `context`. May throw c10::Error: the learner turns it into a Status.
  virtual at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor> parameters,
                             ForwardContext& context) const = 0;
};

// A loss. Immutable.
class Loss {
 public:
  virtual ~Loss() = default;

  virtual std::string Describe() const = 0;
  // Whether it fits a model whose last layer gives `prediction`. kInvalidArgument if not.
  virtual absl::Status Check(const TensorSpec& prediction, const TensorSpec& label) const = 0;
  // A look at the labels themselves, before Sum. kInvalidArgument, naming the label.
  virtual absl::Status CheckLabels(const TensorSpec& prediction, const TensorSpan& label) const {
    return absl::OkStatus();
  }
  // The SUM over examples, a float32 scalar that autograd can differentiate. May throw.
  virtual at::Tensor Sum(const at::Tensor& prediction, const at::Tensor& label) const = 0;
};

}  // namespace everstep
