// base: properties of the tree, over all R <= 128 and W <= R.
#include "everstep/base/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace everstep {
namespace {

// The definition, written out: what the sum over [a, b) is, as an expression.
std::string Definition(int a, int b) {
  if (b - a == 1) return std::to_string(a);
  int half = 1;
  while (half * 2 < b - a) half *= 2;
  return "(" + Definition(a, a + half) + "+" + Definition(a + half, b) + ")";
}

void Execute(const std::vector<TreeOp>& ops, std::vector<std::string>& slots) {
  for (const TreeOp& op : ops) {
    if (op.kind == TreeOp::kLeaf) {
      slots[op.slot] = std::to_string(op.arg);
    } else {
      slots[op.slot] = "(" + slots[op.slot] + "+" + slots[op.arg] + ")";
    }
  }
}

int Bound(int num_replicas) {
  return std::max(1, 2 * static_cast<int>(std::ceil(std::log2(num_replicas))) - 2);
}

TEST(Tree, SplitsAtTheLargestPowerOfTwoBelowTheLength) {
  EXPECT_EQ(SplitOf({0, 2}), 1);
  EXPECT_EQ(SplitOf({0, 4}), 2);
  EXPECT_EQ(SplitOf({0, 6}), 4);
  EXPECT_EQ(SplitOf({4, 7}), 6);
}

TEST(Tree, PartialsOfAnyRangeStayWithinTheBoundAndThePlanWithinItsSlots) {
  for (int replicas = 1; replicas <= 128; ++replicas) {
    for (int begin = 0; begin < replicas; ++begin) {
      for (int end = begin + 1; end <= replicas; ++end) {
        const PartialPlan plan = PlanPartials(replicas, begin, end);
        ASSERT_LE(static_cast<int>(plan.nodes.size()), Bound(replicas));
        ASSERT_LE(plan.num_slots, MaxSlots(replicas));
        int at = begin;
        for (TreeNode node : plan.nodes) {
          ASSERT_EQ(node.begin, at);
          at = node.end;
        }
        ASSERT_EQ(at, end);
      }
    }
  }
}

TEST(Tree, AnyNumberOfWorkersComputesTheDefinition) {
  for (int replicas = 1; replicas <= 128; ++replicas) {
    const std::string want = Definition(0, replicas);
    for (int workers = 1; workers <= replicas; ++workers) {
      const std::vector<int> begins = AssignReplicas(replicas, workers);
      ASSERT_EQ(static_cast<int>(begins.size()), workers + 1);
      std::vector<TreeNode> inputs;
      std::vector<std::string> finish;
      for (int w = 0; w < workers; ++w) {
        const int length = begins[w + 1] - begins[w];
        ASSERT_GE(length, 1);
        ASSERT_LE(length, (replicas + workers - 1) / workers);
        const PartialPlan plan = PlanPartials(replicas, begins[w], begins[w + 1]);
        std::vector<std::string> slots(plan.num_slots);
        Execute(plan.ops, slots);
        inputs.insert(inputs.end(), plan.nodes.begin(), plan.nodes.end());
        finish.insert(finish.end(), slots.begin(), slots.begin() + plan.nodes.size());
      }
      Execute(PlanFinish(replicas, inputs), finish);
      ASSERT_EQ(finish[0], want) << replicas << " replicas, " << workers << " workers";
    }
  }
}

TEST(Tree, HugeNumbersOfReplicasAreAssignedAtOnceWithTheLeastLoad) {
  for (int workers : {1, 2, 3, 7, 1000}) {
    const std::vector<int> begins = AssignReplicas(1000000, workers);
    ASSERT_EQ(static_cast<int>(begins.size()), workers + 1);
    EXPECT_EQ(begins.front(), 0);
    EXPECT_EQ(begins.back(), 1000000);
    for (int w = 0; w < workers; ++w) {
      EXPECT_GE(begins[w + 1] - begins[w], 1);
      EXPECT_LE(begins[w + 1] - begins[w], (1000000 + workers - 1) / workers);
    }
  }
}

TEST(Tree, EqualPowersOfTwoGiveOnePartialEach) {
  for (int replicas : {1, 2, 4, 8, 16, 64, 128}) {
    for (int workers = 1; workers <= replicas; workers *= 2) {
      const std::vector<int> begins = AssignReplicas(replicas, workers);
      for (int w = 0; w < workers; ++w) {
        EXPECT_EQ(MaximalNodes(replicas, begins[w], begins[w + 1]).size(), 1u);
      }
    }
  }
}

TEST(Tree, LeavesAreComputedInAscendingOrderSoTheLastOneCanOverlap) {
  const PartialPlan plan = PlanPartials(13, 2, 12);
  int last = -1;
  for (const TreeOp& op : plan.ops) {
    if (op.kind != TreeOp::kLeaf) continue;
    EXPECT_GT(op.arg, last);
    last = op.arg;
  }
  EXPECT_EQ(last, 11);
}

}  // namespace
}  // namespace everstep
