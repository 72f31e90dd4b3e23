// learner: where everything of a model lies in the state memory and in the flat gradient.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "everstep/learner/initializer.h"
#include "everstep/learner/learner.h"

namespace everstep {

// A parameter of the model. The vector it is in is in creation order: first layer first.
struct ModelParameter {
  int layer = 0;
  std::string layer_name;
  ParameterSpec spec;
  int64_t size = 0;    // elements
  int64_t offset = 0;  // floats, from the start of the parameters and of the flat gradient alike
};

// Offsets of the regions in the state memory, bytes; each a multiple of 64.
struct StateRegions {
  int64_t parameters = 0;
  std::vector<int64_t> slots;  // one per optimizer slot
  int64_t step = 0;
  int64_t seed = 0;
};

struct ModelLayout {
  StateLayout state;
  StateRegions regions;
};

// Sets every parameter's offset (the last layer first, within a layer in creation order: so that
// backward finishes the flat gradient from its start) and lays out the state.
ModelLayout LayOut(std::vector<ModelParameter>& parameters, const std::vector<std::string>& slots,
                   int64_t bucket_floats, int statistics_size);

}  // namespace everstep
