// base: rules of shapes and types.
#include "everstep/base/tensor_span.h"

#include <gtest/gtest.h>

#include "everstep/base/float_environment.h"

#include <xmmintrin.h>

namespace everstep {
namespace {

TEST(TensorSpan, CountsElementsAndRefusesOverflow) {
  EXPECT_EQ(NumElements({}), 1);
  EXPECT_EQ(NumElements({784, 128}), 784 * 128);
  EXPECT_EQ(NumElements({3, 0}), 0);
  EXPECT_EQ(NumElements({-1}), -1);
  EXPECT_EQ(NumElements({int64_t{1} << 40, int64_t{1} << 40}), -1);
}

TEST(TensorSpan, KnowsEveryTypeBySizeAndName) {
  for (DType t : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kUInt8, DType::kInt8,
                  DType::kInt64, DType::kBool, DType::kUInt64}) {
    EXPECT_GT(SizeOf(t), 0);
    EXPECT_STRNE(NameOf(t), "unknown");
  }
  EXPECT_FALSE(IsKnownDType(7));
  EXPECT_EQ(ShapeToString({784, 128}), "[784,128]");
  EXPECT_EQ(ShapeToString({}), "[]");
}

TEST(FloatEnvironment, IsSetAndChecked) {
  SetFloatEnvironment();
  EXPECT_TRUE(CheckFloatEnvironment().ok());
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // FTZ and DAZ
  EXPECT_FALSE(CheckFloatEnvironment().ok());
  SetFloatEnvironment();
  EXPECT_TRUE(CheckFloatEnvironment().ok());
  _mm_setcsr(before);
}

}  // namespace
}  // namespace everstep
