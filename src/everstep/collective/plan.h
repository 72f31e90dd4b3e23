// collective: who adds what. Pure: from a view and who shares memory with whom.
//
// Every member owns one slice of each bucket (small buckets have fewer slices than members).
// Members that share memory form a group, a contiguous run of ranks, so its replicas are contiguous
// too. In each group other than the owner's one member, the slice's delegate, sums the group's
// partials up to the group's maximal nodes of the tree, sends those sums to the owner, receives the
// result and spreads it in the group. So between groups each number travels once each way.
#pragma once

#include <cstdint>
#include <vector>

#include "everstep/base/tree.h"
#include "everstep/base/view.h"

namespace everstep {

struct Group {
  int first = 0;  // ranks [first, last)
  int last = 0;
  std::vector<TreeNode> nodes;  // the maximal nodes of its replicas
  int size() const { return last - first; }
};

// A range of floats, relative to its bucket's start.
struct SliceRange {
  int64_t begin = 0;
  int64_t size = 0;
};

class ReductionPlan {
 public:
  // shares[i][j]: whether rank i says that it maps rank j's memory. A run of neighbours with equal
  // host forms a group if every pair in it does, both ways; else its first member is a group of its
  // own and the rest of the run is looked at in the same way.
  ReductionPlan(const View& view, int rank, const std::vector<std::vector<bool>>& shares);

  int rank() const { return rank_; }
  int num_members() const { return static_cast<int>(parts_.size()); }
  int num_replicas() const { return num_replicas_; }
  const std::vector<Group>& groups() const { return groups_; }
  int group_of(int rank) const { return group_of_[rank]; }
  const Group& own_group() const { return groups_[group_of_[rank_]]; }
  bool InOwnGroup(int rank) const { return group_of_[rank] == group_of_[rank_]; }
  const std::vector<TreeNode>& parts_of(int rank) const { return parts_[rank]; }

  // The slice of a bucket of `size` floats that `owner` owns; may be empty.
  SliceRange SliceOf(int64_t size, int bucket, int owner) const;
  // Who works on `owner`'s slices in `group`: the owner itself in its own group.
  int DelegateOf(int owner, int group) const;

  static constexpr int64_t kMinSliceFloats = 1024;
  static constexpr int64_t kSliceAlignment = 16;  // floats

 private:
  int rank_;
  int num_replicas_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<std::vector<TreeNode>> parts_;
};

}  // namespace everstep
