// learner: the layers a model is made of, under Keras's names. No torch here: a program describes
// its model, MakeLearner (model_spec.h) builds it. Layers of your own: layer.h.
#pragma once

#include <memory>
#include <string>

namespace everstep {

// An immutable description of one layer; it holds no weights, so it may be shared by models and
// threads. A model uses each at most once.
class Layer;
using LayerPtr = std::shared_ptr<const Layer>;

enum class Activation { kLinear, kRelu, kTanh, kSigmoid, kSoftmax };

struct DenseOptions {
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  std::string name = {};  // empty: "dense", "dense_1", ... in the model's order
};

// y = activation(x * kernel + bias) over the last axis. kernel is [inputs, units] as in Keras,
// drawn glorot-uniform; bias is [units], zeros.
LayerPtr Dense(int units, DenseOptions options = {});
LayerPtr Dense(int units, Activation activation);

// In training each element is zeroed with probability `rate` (0 <= rate < 1) and the others are
// scaled by 1/(1-rate); in evaluation, the identity. The mask is a function of (seed, step,
// replica, layer, element) alone.
LayerPtr Dropout(double rate, std::string name = {});

// [n, a, b, ...] to [n, a*b*...].
LayerPtr Flatten(std::string name = {});

// float32(x) * scale + offset; any numeric input type.
LayerPtr Rescaling(double scale, double offset = 0, std::string name = {});

LayerPtr ReLU(std::string name = {});

}  // namespace everstep
