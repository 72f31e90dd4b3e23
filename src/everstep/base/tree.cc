// base: the tree over replicas.
#include "everstep/base/tree.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace everstep {
namespace {

void CollectMaximal(TreeNode node, int begin, int end, std::vector<TreeNode>& out) {
  if (node.end <= begin || end <= node.begin) return;
  if (begin <= node.begin && node.end <= end) {
    out.push_back(node);
    return;
  }
  const int mid = SplitOf(node);
  CollectMaximal({node.begin, mid}, begin, end, out);
  CollectMaximal({mid, node.end}, begin, end, out);
}

// Computes `node` into `slot`, using slots above it for temporaries.
void PlanNode(TreeNode node, int slot, PartialPlan& plan) {
  plan.num_slots = std::max(plan.num_slots, slot + 1);
  if (node.end - node.begin == 1) {
    plan.ops.push_back({TreeOp::kLeaf, slot, node.begin});
    return;
  }
  const int mid = SplitOf(node);
  PlanNode({node.begin, mid}, slot, plan);
  PlanNode({mid, node.end}, slot + 1, plan);
  plan.ops.push_back({TreeOp::kAdd, slot, slot + 1});
}

// Leaves the sum of `node` in the slot of its first input and returns that slot.
int FinishNode(TreeNode node, const std::vector<TreeNode>& inputs, size_t& next,
               std::vector<TreeOp>& ops) {
  if (next < inputs.size() && inputs[next] == node) return static_cast<int>(next++);
  const int mid = SplitOf(node);
  const int left = FinishNode({node.begin, mid}, inputs, next, ops);
  const int right = FinishNode({mid, node.end}, inputs, next, ops);
  ops.push_back({TreeOp::kAdd, left, right});
  return left;
}

// Ranges looked at by the search for the best assignment; it takes about a second.
constexpr int64_t kLargestSearch = int64_t{1} << 22;

int CeilLog2(int n) {
  int k = 0;
  while ((1 << k) < n) ++k;
  return k;
}

}  // namespace

int SplitOf(TreeNode node) {
  const int length = node.end - node.begin;
  int half = 1;
  while (half * 2 < length) half *= 2;
  return node.begin + half;
}

std::vector<TreeNode> MaximalNodes(int num_replicas, int begin, int end) {
  std::vector<TreeNode> nodes;
  if (begin < end) CollectMaximal({0, num_replicas}, begin, end, nodes);
  return nodes;
}

std::vector<int> AssignReplicas(int num_replicas, int workers) {
  const int load = (num_replicas + workers - 1) / workers;
  if (int64_t{num_replicas} * load * workers > kLargestSearch) {
    // floor(w*R/W): the load is least; the number of partials stays within its bound.
    std::vector<int> begins;
    for (int64_t w = 0; w <= workers; ++w) {
      begins.push_back(static_cast<int>(w * num_replicas / workers));
    }
    return begins;
  }
  using Cost = std::pair<int, int>;  // (largest number of partials of a worker, their total)
  const Cost impossible{1 << 30, 1 << 30};
  // best[w][e]: least cost of giving [0, e) to the first w workers; from[w][e]: where the last
  // begins.
  std::vector<std::vector<Cost>> best(workers + 1, std::vector<Cost>(num_replicas + 1, impossible));
  std::vector<std::vector<int>> from(workers + 1, std::vector<int>(num_replicas + 1, -1));
  best[0][0] = {0, 0};
  for (int w = 1; w <= workers; ++w) {
    for (int end = w; end <= num_replicas - (workers - w); ++end) {
      for (int begin = std::max(w - 1, end - load); begin < end; ++begin) {
        if (best[w - 1][begin] == impossible) continue;
        const int partials = static_cast<int>(MaximalNodes(num_replicas, begin, end).size());
        const Cost cost{std::max(best[w - 1][begin].first, partials),
                        best[w - 1][begin].second + partials};
        if (cost < best[w][end]) {
          best[w][end] = cost;
          from[w][end] = begin;
        }
      }
    }
  }
  std::vector<int> begins(workers + 1, num_replicas);
  for (int w = workers; w > 0; --w) begins[w - 1] = from[w][begins[w]];
  return begins;
}

PartialPlan PlanPartials(int num_replicas, int begin, int end) {
  PartialPlan plan;
  plan.nodes = MaximalNodes(num_replicas, begin, end);
  for (size_t i = 0; i < plan.nodes.size(); ++i) PlanNode(plan.nodes[i], static_cast<int>(i), plan);
  return plan;
}

int MaxSlots(int num_replicas) {
  const int log = CeilLog2(num_replicas);
  return std::max(1, 2 * log - 2) + log + 1;
}

std::vector<TreeOp> PlanFinish(int num_replicas, const std::vector<TreeNode>& inputs) {
  std::vector<TreeOp> ops;
  size_t next = 0;
  FinishNode({0, num_replicas}, inputs, next, ops);
  return ops;
}

}  // namespace everstep
