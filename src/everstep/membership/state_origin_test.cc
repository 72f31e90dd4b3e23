// membership: rules of which state a view begins with.
#include "everstep/membership/state_origin.h"

#include <gtest/gtest.h>

namespace everstep {
namespace {

struct At {
  History history;
  Step step;
  uint64_t digest;
};

std::optional<StateOrigin> Choose(const std::vector<At>& members) {
  std::vector<Hello> hellos(members.size());
  std::vector<const Hello*> by_rank;
  for (size_t i = 0; i < members.size(); ++i) {
    hellos[i].history = members[i].history;
    hellos[i].step = members[i].step;
    hellos[i].digest = members[i].digest;
    by_rank.push_back(&hellos[i]);
  }
  return ChooseOrigin(by_rank);
}

void Expect(const std::vector<At>& members, const StateOrigin& want) {
  const auto got = Choose(members);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->history, want.history);
  EXPECT_EQ(got->step, want.step);
  EXPECT_EQ(got->digest, want.digest);
  EXPECT_EQ(got->donor, want.donor);
}

TEST(ChooseOrigin, WhenAllHoldTheSameNobodyDonates) {
  Expect({{1, 40, 7}, {1, 40, 7}}, {1, 40, 7, -1});
  Expect({{0, 0, 9}}, {0, 0, 9, -1});
}

TEST(ChooseOrigin, TheFurthestStepWinsAndTheLowestRankThatHoldsItDonates) {
  Expect({{0, 0, 3}, {0, 40, 7}, {0, 40, 7}, {0, 20, 5}}, {0, 40, 7, 1});
}

TEST(ChooseOrigin, ALaterHistoryWinsOverMoreSteps) {
  Expect({{1, 90, 3}, {2, 10, 7}}, {2, 10, 7, 1});
}

TEST(ChooseOrigin, OfThoseAtTheFurthestStepTheMajoritysDigestWins) {
  Expect({{0, 40, 8}, {0, 40, 7}, {0, 40, 7}}, {0, 40, 7, 1});
  Expect({{0, 39, 8}, {0, 39, 8}, {0, 39, 8}, {0, 40, 7}}, {0, 40, 7, 3});
}

TEST(ChooseOrigin, WithoutAMajorityThereIsNone) {
  EXPECT_FALSE(Choose({{0, 40, 8}, {0, 40, 7}}));
  EXPECT_FALSE(Choose({{0, 40, 1}, {0, 40, 2}, {0, 40, 3}, {0, 0, 1}}));
  EXPECT_FALSE(Choose({{0, 40, 1}, {0, 40, 1}, {0, 40, 2}, {0, 40, 3}})) << "half is not more";
}

}  // namespace
}  // namespace everstep
