// learner: how parameters begin, as pure functions computed in exact arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace everstep {

enum class Initializer {
  kZeros,
  kOnes,
  kGlorotUniform,  // uniform in +-sqrt(6 / (fan_in + fan_out)), fans counted as Keras does
};

struct ParameterSpec {
  std::string name;  // "kernel"
  std::vector<int64_t> shape;
  Initializer initializer = Initializer::kGlorotUniform;
};

// Fills `values` (as many as the shape has elements). `index` is the parameter's place in the
// model, counted from the first layer. Equal bits on every machine: integer hashing, then + - * /
// sqrt in double, rounded once to float.
void Initialize(const ParameterSpec& spec, uint64_t seed, int64_t index, absl::Span<float> values);

}  // namespace everstep
