// collective: the one addition has the same bits on every path.
#include "everstep/collective/add.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "everstep/base/float_environment.h"
#include "everstep/base/keyed_random.h"

namespace everstep {
namespace {

uint32_t BitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
float FloatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Zeros, denormals, the edges of the range, infinities, quiet and signalling NaNs with payloads.
const std::vector<uint32_t>& Specials() {
  static const std::vector<uint32_t> specials = {
      0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
      0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc00000, 0x7fc12345, 0xffedcba9, 0x7f800001, 0xff812345,
      0x3f800000, 0xbf800000, 0x33800000, 0xb3800000, 0x4b800001, 0x7f000000};
  return specials;
}

std::vector<AddPath> PathsHere() {
  std::vector<AddPath> paths = {AddPath::kPlain};
  for (AddPath path : {AddPath::kAvx2, AddPath::kAvx512}) {
    if (Supported(path)) paths.push_back(path);
  }
  return paths;
}

TEST(Add, DefinitionBySpecialValues) {
  SetFloatEnvironment();
  struct Case {
    uint32_t a, b, sum;
  };
  const Case cases[] = {
      {0x00000000, 0x80000000, 0x00000000},  // +0 + -0 is +0
      {0x80000000, 0x80000000, 0x80000000},  // -0 + -0 is -0
      {0x00000001, 0x00000001, 0x00000002},  // denormals are not flushed
      {0x00800000, 0x80000001, 0x007fffff},  // nor is a denormal result
      {0x7f800000, 0xff800000, 0x7fc00000},  // inf - inf
      {0x7fc12345, 0x3f800000, 0x7fc00000},  // a payload is dropped
      {0x3f800000, 0xffedcba9, 0x7fc00000},  // and so is a sign
      {0x7f800001, 0x00000000, 0x7fc00000},  // a signalling NaN
      {0x7f7fffff, 0x7f7fffff, 0x7f800000},  // overflow
      {0x3f800000, 0x33800000, 0x3f800000},  // a tie goes to even, down
      {0x3f800001, 0x33800000, 0x3f800002},  // a tie goes to even, up
  };
  for (AddPath path : PathsHere()) {
    for (const Case& c : cases) {
      // In every lane, so that vector bodies and tails are both seen.
      std::vector<float> a(37, FloatOf(c.a)), b(37, FloatOf(c.b)), out(37);
      AddWith(path, out.data(), a.data(), b.data(), 37);
      for (float x : out) ASSERT_EQ(BitsOf(x), c.sum) << static_cast<int>(path);
      AddWith(path, out.data(), b.data(), a.data(), 37);
      for (float x : out) ASSERT_EQ(BitsOf(x), c.sum) << "not commutative";
    }
  }
}

TEST(Add, AllPathsAndAlignmentsGiveTheSameBits) {
  SetFloatEnvironment();
  uint64_t draw = 0;
  const auto next = [&draw] { return Mix64(++draw); };
  for (int round = 0; round < 3000; ++round) {
    const int64_t n = static_cast<int64_t>(next() % 200);
    const size_t offset_a = next() % 17, offset_b = next() % 17, offset_out = next() % 17;
    std::vector<float> a(n + 17), b(n + 17);
    for (auto* v : {&a, &b}) {
      for (float& x : *v) {
        const uint64_t r = next();
        x = r % 3 == 0 ? FloatOf(Specials()[(r >> 8) % Specials().size()])
                       : FloatOf(static_cast<uint32_t>(r >> 32));
      }
    }
    std::vector<uint32_t> want;
    for (int64_t i = 0; i < n; ++i) {
      const float sum = a[offset_a + i] + b[offset_b + i];
      want.push_back(sum != sum ? 0x7fc00000u : BitsOf(sum));
    }
    for (AddPath path : PathsHere()) {
      const float guard = FloatOf(0x12345678);
      std::vector<float> out(n + 18, guard);
      AddWith(path, out.data() + offset_out, a.data() + offset_a, b.data() + offset_b, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(BitsOf(out[offset_out + i]), want[i]);
      ASSERT_EQ(BitsOf(out[offset_out + n]), BitsOf(guard)) << "wrote past the end";
      if (offset_out > 0) {
        ASSERT_EQ(BitsOf(out[offset_out - 1]), BitsOf(guard));
      }
      std::vector<float> in_place(a);
      AddWith(path, in_place.data() + offset_a, in_place.data() + offset_a, b.data() + offset_b, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(BitsOf(in_place[offset_a + i]), want[i]);
    }
  }
}

TEST(Add, IntoIsAddInPlaceOnTheBestPath) {
  SetFloatEnvironment();
  std::vector<float> dst(100, 1.5f), src(100, 2.25f);
  AddInto(dst.data(), src.data(), 100);
  for (float x : dst) EXPECT_EQ(x, 3.75f);
  EXPECT_TRUE(Supported(BestAddPath()));
}

}  // namespace
}  // namespace everstep
