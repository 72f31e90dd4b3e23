// learner: the losses, under Keras's names. No torch here. Losses of your own: layer.h.
//
// The loss of a replica is the SUM over its examples, divided by the examples of the whole step
// (Batch::global_examples): so replicas only add, and unequal shares still make the true mean.
#pragma once

#include <memory>

namespace everstep {

class Loss;  // immutable; may be shared
using LossPtr = std::shared_ptr<const Loss>;

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;  // as in Keras; false: the model ends with probabilities
};

// Labels: integers in [0, classes), one an example. Probabilities are clipped to [1e-7, 1 - 1e-7]
// and normalised, as Keras does on TensorFlow.
LossPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions options = {});

// The mean of (prediction - label)^2 over an example's elements. Labels: float32 of the
// prediction's shape.
LossPtr MeanSquaredError();

}  // namespace everstep
