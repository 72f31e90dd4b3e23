// base: rules of keyed random numbers.
#include "everstep/base/keyed_random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace everstep {
namespace {

TEST(KeyedRandom, KeysKeepOrderAndLengthApart) {
  std::set<uint64_t> seen = {HashKey({}),     HashKey({0}),    HashKey({0, 0}),
                             HashKey({1, 2}), HashKey({2, 1}), HashKey({1, 2, 0})};
  EXPECT_EQ(seen.size(), 6u);
}

TEST(KeyedRandom, NeverChangesBetweenReleases) {
  // SplitMix64 with seed 0 is a published sequence.
  EXPECT_EQ(RandomAt(0, 0), 0xe220a8397b1dcdafull);
  EXPECT_EQ(RandomAt(0, 1), 0x6e789e6aa1b965f4ull);
}

TEST(KeyedPermutation, IsAPermutationForEverySize) {
  for (uint64_t n = 1; n <= 300; ++n) {
    KeyedPermutation permutation(HashKey({n}), n);
    std::vector<bool> hit(n);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t image = permutation.At(i);
      ASSERT_LT(image, n);
      ASSERT_FALSE(hit[image]);
      hit[image] = true;
    }
  }
}

TEST(KeyedPermutation, DependsOnTheKeyAndMovesMostPoints) {
  constexpr uint64_t kN = 10000;
  KeyedPermutation a(1, kN), b(2, kN);
  int fixed = 0, equal = 0;
  for (uint64_t i = 0; i < kN; ++i) {
    fixed += a.At(i) == i;
    equal += a.At(i) == b.At(i);
  }
  EXPECT_LT(fixed, 10);
  EXPECT_LT(equal, 10);
}

}  // namespace
}  // namespace everstep
