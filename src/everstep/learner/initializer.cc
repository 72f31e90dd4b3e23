// learner: initial values of parameters.
#include "everstep/learner/initializer.h"

#include <algorithm>
#include <cmath>

#include "everstep/base/keyed_random.h"

namespace everstep {
namespace {

struct Fans {
  double in = 1;
  double out = 1;
};

// keras/src/initializers/random_initializers.py, compute_fans: kernels are [..., in, out] and the
// leading dimensions are the receptive field.
Fans FansOf(absl::Span<const int64_t> shape) {
  if (shape.empty()) return {};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double field = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) field *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[shape.size() - 2]) * field,
          static_cast<double>(shape[shape.size() - 1]) * field};
}

void GlorotUniform(absl::Span<const int64_t> shape, uint64_t key, absl::Span<float> values) {
  const Fans fans = FansOf(shape);
  const double limit = std::sqrt(6.0 / std::max(1.0, fans.in + fans.out));
  for (size_t i = 0; i < values.size(); ++i) {
    // 53 bits in [0, 1), then [-limit, limit). Each operation is exactly rounded.
    const double unit = static_cast<double>(RandomAt(key, i) >> 11) * 0x1p-53;
    values[i] = static_cast<float>((2.0 * unit - 1.0) * limit);
  }
}

}  // namespace

void Initialize(const ParameterSpec& spec, uint64_t seed, int64_t index, absl::Span<float> values) {
  switch (spec.initializer) {
    case Initializer::kZeros:
      std::fill(values.begin(), values.end(), 0.0f);
      return;
    case Initializer::kOnes:
      std::fill(values.begin(), values.end(), 1.0f);
      return;
    case Initializer::kGlorotUniform:
      GlorotUniform(spec.shape,
                    HashKey({seed, static_cast<uint64_t>(RandomPurpose::kInitializer),
                             static_cast<uint64_t>(index)}),
                    values);
      return;
  }
}

}  // namespace everstep
