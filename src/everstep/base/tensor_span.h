// base: TensorSpan, a named, typed, shaped view of host memory that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace everstep {

// Numbers are TensorFlow's DataType enum, so they can go to files as they are.
enum class DType : int32_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUInt8 = 4,
  kInt8 = 6,
  kInt64 = 9,
  kBool = 10,
  kUInt64 = 23,
};

int64_t SizeOf(DType dtype);        // bytes of one element
const char* NameOf(DType dtype);    // "float32"
bool IsKnownDType(int32_t number);  // whether `number` is one of DType

// Elements of a shape; 1 for a scalar. Negative when the shape has a negative dimension or the
// product overflows int64.
int64_t NumElements(absl::Span<const int64_t> shape);
std::string ShapeToString(absl::Span<const int64_t> shape);  // "[784,128]", "[]" for a scalar

// Host memory, row-major, little-endian. `data` holds NumElements(shape) * SizeOf(dtype) bytes and
// is owned by whoever made the span.
struct TensorSpan {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::byte* data = nullptr;

  int64_t num_elements() const { return NumElements(shape); }
  int64_t num_bytes() const { return num_elements() * SizeOf(dtype); }
  absl::Span<const std::byte> bytes() const { return {data, static_cast<size_t>(num_bytes())}; }
  template <typename T>
  absl::Span<T> as() const {
    return {reinterpret_cast<T*>(data), static_cast<size_t>(num_elements())};
  }
};

}  // namespace everstep
