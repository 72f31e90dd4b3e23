// learner: tests of the loops over flat arrays.
#include "everstep/learner/flat_kernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "gtest/gtest.h"

namespace everstep {
namespace {

constexpr int64_t kSize = 1031;  // odd: vectors and remainders

// All magnitudes and signs, with zeros, denormals, infinities and NaNs of other payloads.
std::vector<float> Wild(uint64_t key) {
  std::vector<float> values(kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    const uint64_t word = RandomAt(key, i);
    values[i] =
        static_cast<float>(static_cast<int32_t>(word)) * std::ldexp(1.0f, (word >> 32) % 80 - 70);
    if (word >> 60 == 0) values[i] = std::bit_cast<float>(static_cast<uint32_t>(word));
  }
  values[0] = 0;
  values[1] = -0.0f;
  values[2] = std::numeric_limits<float>::infinity();
  values[3] = std::bit_cast<float>(0xffc01234u);
  values[4] = 1e-44f;
  return values;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i])) << "element " << i;
  }
}

// The definition: one element at a time, in source order (volatile: neither vectorised nor fused).
float Canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fc00000u) : x; }
void AdamReference(AdamScalars s, const std::vector<float>& g, std::vector<float>& w,
                   std::vector<float>& m, std::vector<float>& v) {
  for (size_t i = 0; i < g.size(); ++i) {
    volatile float dm = g[i] - m[i];
    volatile float sm = dm * s.one_minus_beta_1;
    volatile float mi = m[i] + sm;
    volatile float gg = g[i] * g[i];
    volatile float dv = gg - v[i];
    volatile float sv = dv * s.one_minus_beta_2;
    volatile float vi = v[i] + sv;
    volatile float numerator = mi * s.alpha;
    volatile float root = std::sqrt(static_cast<float>(vi));
    volatile float denominator = root + s.epsilon;
    volatile float delta = numerator / denominator;
    volatile float wi = w[i] - delta;
    m[i] = Canonical(mi);
    v[i] = Canonical(vi);
    w[i] = Canonical(wi);
  }
}

TEST(FlatKernels, ThisMachineRunsMoreThanTheBase) {
  // Else the tests below compare nothing; a machine without AVX2 cannot run torch's kernels well.
  EXPECT_GE(UsableIsas().size(), 2u);
  EXPECT_EQ(BestIsa(), UsableIsas().back());
}

TEST(FlatKernels, AdamGivesTheBitsOfTheDefinitionOnEveryInstructionSet) {
  const AdamScalars s = {0.0031f, 0.1f, 0.001f, 1e-7f};
  std::vector<float> g = Wild(1), w0 = Wild(2), m0 = Wild(3), v0 = Wild(4);
  for (float& v : v0) v = std::fabs(v);
  std::vector<float> w = w0, m = m0, v = v0;
  AdamReference(s, g, w, m, v);
  for (const Isa isa : UsableIsas()) {
    std::vector<float> wi = w0, mi = m0, vi = v0;
    AdamUpdate(s, g.data(), wi.data(), mi.data(), vi.data(), kSize, isa);
    ExpectSameBits(m, mi);
    ExpectSameBits(v, vi);
    ExpectSameBits(w, wi);
  }
}

TEST(FlatKernels, SgdGivesEqualBitsOnEveryInstructionSet) {
  const std::vector<float> g = Wild(1), w0 = Wild(2), u0 = Wild(3);
  for (const Isa isa : UsableIsas()) {
    std::vector<float> w = w0, expected = w0;
    SgdUpdate(0.1f, g.data(), w.data(), kSize, isa);
    for (int64_t i = 0; i < kSize; ++i) {
      volatile float product = 0.1f * g[i];
      volatile float difference = w0[i] - product;
      expected[i] = Canonical(difference);
    }
    ExpectSameBits(expected, w);
  }
  for (const bool nesterov : {false, true}) {
    std::vector<float> w1 = w0, u1 = u0;
    MomentumUpdate(0.1f, 0.9f, nesterov, g.data(), w1.data(), u1.data(), kSize, Isa::kBase);
    for (const Isa isa : UsableIsas()) {
      std::vector<float> w = w0, u = u0;
      MomentumUpdate(0.1f, 0.9f, nesterov, g.data(), w.data(), u.data(), kSize, isa);
      ExpectSameBits(w1, w);
      ExpectSameBits(u1, u);
    }
  }
}

TEST(FlatKernels, CopyKeepsEveryBitAndMakesEveryNanTheSame) {
  const std::vector<float> from = Wild(1);
  for (const Isa isa : UsableIsas()) {
    std::vector<float> to(kSize, 7);
    CopyFloats(from.data(), to.data(), kSize, isa);
    for (int64_t i = 0; i < kSize; ++i) {
      const uint32_t expected =
          std::isnan(from[i]) ? 0x7fc00000u : std::bit_cast<uint32_t>(from[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(to[i]), expected);
    }
  }
}

TEST(FlatKernels, BytesAreScaledThenShifted) {
  std::vector<uint8_t> from(kSize);
  for (int64_t i = 0; i < kSize; ++i) from[i] = static_cast<uint8_t>(i);
  for (const Isa isa : UsableIsas()) {
    std::vector<float> to(kSize);
    RescaleBytes(1 / 255.0f, -0.5f, from.data(), to.data(), kSize, isa);
    for (int64_t i = 0; i < kSize; ++i) {
      volatile float scaled = static_cast<float>(from[i]) * (1 / 255.0f);
      ASSERT_EQ(to[i], scaled + -0.5f);
    }
  }
}

TEST(FlatKernels, DropoutIsAFunctionOfKeyAndElementWhereverTheArrayIsCut) {
  const DropoutMask mask = {99, static_cast<uint32_t>(0.2 * 0x1p32), 1.25f};
  std::vector<float> from(kSize), expected(kSize);
  int kept = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    from[i] = static_cast<float>(i + 1);
    const uint64_t word = RandomAt(99, i / 2);
    const uint32_t bits = static_cast<uint32_t>(i % 2 == 0 ? word : word >> 32);
    expected[i] = bits >= mask.threshold ? from[i] * 1.25f : 0.0f;
    kept += expected[i] != 0;
  }
  EXPECT_NEAR(kept, 0.8 * kSize, 50);  // four standard deviations
  for (const Isa isa : UsableIsas()) {
    for (const int64_t cut : {int64_t{0}, int64_t{2}, int64_t{514}, kSize - 1}) {
      std::vector<float> to(kSize, 7);
      ApplyDropout(mask, 0, from.data(), to.data(), cut, isa);
      ApplyDropout(mask, cut, from.data() + cut, to.data() + cut, kSize - cut, isa);
      ExpectSameBits(expected, to);
    }
  }
}

}  // namespace
}  // namespace everstep
