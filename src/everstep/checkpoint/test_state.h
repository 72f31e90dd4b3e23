// checkpoint: states for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "everstep/base/tensor_span.h"

namespace everstep {

// A state of several types that differs for each step.
struct TestState {
  explicit TestState(int64_t at = 0) : step(at) {
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<float>(at) + 0.25f * static_cast<float>(i);
    }
    mask[0] = static_cast<uint8_t>(at);
  }

  std::vector<TensorSpan> tensors() {
    return {{"model/dense/kernel", DType::kFloat32, {3, 4}, Bytes(weights.data())},
            {"step", DType::kInt64, {}, Bytes(&step)},
            {"model/mask", DType::kUInt8, {2}, Bytes(mask)},
            {"empty", DType::kFloat32, {0, 5}, Bytes(weights.data())}};
  }
  template <typename T>
  static std::byte* Bytes(T* data) {
    return reinterpret_cast<std::byte*>(data);
  }

  std::vector<float> weights = std::vector<float>(12);
  int64_t step;
  uint8_t mask[2] = {0, 9};
};

// A state as training has it, of some pages, that is a pure function of the step. Whether memory is
// that of a step is asked of the bytes, not of a digest.
struct TrainState {
  explicit TrainState(int64_t at = 0) : step(at) {
    uint64_t k = 0;
    for (std::vector<float>* tensor : {&kernel, &bias, &moment}) {
      for (float& value : *tensor) {
        value = static_cast<float>(RandomAt(static_cast<uint64_t>(at), k++) >> 40);
      }
    }
  }
  std::vector<TensorSpan> tensors() {
    using S = TestState;
    return {{"model/dense/bias", DType::kFloat32, {50}, S::Bytes(bias.data())},
            {"model/dense/kernel", DType::kFloat32, {60, 50}, S::Bytes(kernel.data())},
            {"optimizer/m/model/dense/kernel", DType::kFloat32, {3000}, S::Bytes(moment.data())},
            {"seed", DType::kInt64, {}, S::Bytes(&seed)},
            {"step", DType::kInt64, {}, S::Bytes(&step)}};
  }
  friend bool operator==(const TrainState& a, const TrainState& b) {
    return a.kernel == b.kernel && a.bias == b.bias && a.moment == b.moment && a.step == b.step &&
           a.seed == b.seed;
  }

  std::vector<float> kernel = std::vector<float>(3000), bias = std::vector<float>(50),
                     moment = std::vector<float>(3000);
  int64_t step, seed = 5;
};

}  // namespace everstep
