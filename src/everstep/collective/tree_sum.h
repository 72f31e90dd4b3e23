// collective: adding up along the tree, from partial sums that partition a node of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "everstep/base/tree.h"

namespace everstep {

// How `root` is summed from `inputs`. Immutable but for its scratch memory: one thread at a time.
class TreeSum {
 public:
  // `inputs` partition `root`, in order, and each is a node of the tree below it.
  TreeSum(TreeNode root, const std::vector<TreeNode>& inputs);

  int num_inputs() const { return num_inputs_; }

  // out[i] = the sum, for i in [0, n), n at most kPieceFloats. Inputs are only read and overlap
  // neither `out` nor each other. A single input is copied, bit for bit.
  void Run(const float* const* inputs, int64_t n, float* out);

  // Pieces of this size stay in a core's own cache from the first addition to the last.
  static constexpr int64_t kPieceFloats = 4096;

 private:
  struct Step {
    int out;  // scratch slot, or -1 for the caller's `out`
    int left, right;
  };
  int num_inputs_;
  std::vector<Step> steps_;
  std::vector<const float*> at_;  // where the partial sum that began as input i now is
  std::unique_ptr<float[]> scratch_;
};

}  // namespace everstep
