// base: the tree over replicas that defines the sum of a step, and the plan by which workers that
// hold contiguous ranges of replicas add it up.
//
// Over replicas [a, b): split at a + (largest power of two smaller than b - a), add the halves; one
// replica is a leaf. The shape depends on R alone, so the bits of the sum do too.
#pragma once

#include <vector>

namespace everstep {

// Replicas [begin, end): a node of the tree over [0, R).
struct TreeNode {
  int begin = 0;
  int end = 0;
  friend bool operator==(TreeNode a, TreeNode b) { return a.begin == b.begin && a.end == b.end; }
};

// Where [begin, end) splits: its halves are [begin, mid) and [mid, end). Needs end - begin >= 2.
int SplitOf(TreeNode node);

// The largest nodes of the tree over [0, R) that lie inside [begin, end), in order: they partition
// it. At most max(1, 2*ceil(log2 R) - 2). Empty for an empty range.
std::vector<TreeNode> MaximalNodes(int num_replicas, int begin, int end);

// Contiguous ranges of replicas for `workers` workers (1 <= workers <= R), every one non-empty:
// first the load (the longest range) is least, then the largest number of partial sums of a worker,
// then their total. Above some thousand replicas the ranges are simply even. Element w is the begin
// of worker w's range; one more element ends with R.
std::vector<int> AssignReplicas(int num_replicas, int workers);

// One move in computing partial sums or in finishing the tree. Slots are buffers.
struct TreeOp {
  enum Kind { kLeaf, kAdd } kind;
  int slot;  // kLeaf: compute replica `arg` into `slot`; kAdd: slot += buffer in slot `arg`
  int arg;
};

// How one worker turns its replicas [begin, end), computed one after another in ascending order,
// into its partial sums: MaximalNodes(...)[i] ends in slot i. `num_slots` counts temporaries too.
struct PartialPlan {
  std::vector<TreeNode> nodes;
  std::vector<TreeOp> ops;
  int num_slots = 0;
};
PartialPlan PlanPartials(int num_replicas, int begin, int end);

// An upper bound of PlanPartials(R, ...).num_slots over all ranges, to size memory once.
int MaxSlots(int num_replicas);

// How an owner finishes the tree from partial sums that partition [0, R) (in order; input i is in
// slot i): the additions, in a fixed order, that leave the total in slot 0.
std::vector<TreeOp> PlanFinish(int num_replicas, const std::vector<TreeNode>& inputs);

}  // namespace everstep
