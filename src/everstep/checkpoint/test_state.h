// checkpoint: a small state for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace everstep
