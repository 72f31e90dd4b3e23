// learner: a ModelSpec checked and resolved: names, shapes between layers, parameters.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/learner/layer.h"
#include "everstep/learner/layout.h"
#include "everstep/learner/model_spec.h"

namespace everstep {

struct PlannedLayer {
  LayerPtr layer;
  std::string name;   // unique in the model
  bool cast = false;  // its input is made float32 first
  TensorSpec input;   // after the cast
  TensorSpec output;
  int first_parameter = 0;  // in ModelPlan::parameters
  int num_parameters = 0;
};

struct ModelPlan {
  std::vector<PlannedLayer> layers;
  std::vector<ModelParameter> parameters;  // in creation order; offsets are set by LayOut
};

// kInvalidArgument, naming the part that does not fit.
absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec);

}  // namespace everstep
