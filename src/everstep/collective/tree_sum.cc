// collective: adding up along the tree, in cache-sized pieces.
#include "everstep/collective/tree_sum.h"

#include <cstring>

#include "everstep/collective/add.h"

namespace everstep {

TreeSum::TreeSum(TreeNode root, const std::vector<TreeNode>& inputs)
    : num_inputs_(static_cast<int>(inputs.size())), at_(inputs.size()) {
  // The tree below [a, b) has the shape of that over [0, b - a): splits depend on lengths alone.
  std::vector<TreeNode> shifted;
  for (TreeNode node : inputs) shifted.push_back({node.begin - root.begin, node.end - root.begin});
  for (const TreeOp& op : PlanFinish(root.end - root.begin, shifted)) {
    steps_.push_back({op.slot, op.slot, op.arg});
  }
  if (!steps_.empty()) steps_.back().out = -1;
  if (steps_.size() > 1) scratch_ = std::make_unique<float[]>(inputs.size() * kPieceFloats);
}

void TreeSum::Run(const float* const* inputs, int64_t n, float* out) {
  if (steps_.empty()) {
    std::memcpy(out, inputs[0], static_cast<size_t>(n) * sizeof(float));
    return;
  }
  for (int i = 0; i < num_inputs_; ++i) at_[i] = inputs[i];
  for (const Step& step : steps_) {
    float* to = step.out < 0 ? out : scratch_.get() + step.out * kPieceFloats;
    Add(to, at_[step.left], at_[step.right], n);
    at_[step.left] = to;
  }
}

}  // namespace everstep
