// collective: what all reductions of one communicator share: the memory of the group, the plan, the
// tree sums, and staging memory for what comes over links. Owned by the communicator; its one
// caller thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/collective/arena.h"
#include "everstep/collective/cells.h"
#include "everstep/collective/failure.h"
#include "everstep/collective/plan.h"
#include "everstep/collective/stream_link.h"
#include "everstep/collective/tree_sum.h"

namespace everstep {

// A member that shares memory with this one, or this one itself.
struct Neighbour {
  int rank = -1;
  std::shared_ptr<Arena> arena;
  std::shared_ptr<CellPage> cells;
  int wake_fd = -1;
};

// A partial sum of another group on its way in: `received` floats of it are there. A sender is at
// most one round ahead, and starts a bucket again only after it got this one's result, which took
// all of what it had sent: so one buffer for each bucket is enough.
struct Staged {
  float* data = nullptr;
  int64_t floats = 0;
  Round round = -1;
  int64_t received = 0;
  bool in_use = false;  // from the first chunk of a round until the slice is finished
};

class Workshop {
 public:
  // `group`: the own group's members in order of rank.
  Workshop(ReductionPlan plan, std::shared_ptr<const ArenaLayout> layout,
           std::vector<Neighbour> group);

  const ReductionPlan& plan() const { return plan_; }
  const ArenaLayout& layout() const { return *layout_; }
  const std::vector<Neighbour>& group() const { return group_; }
  const Neighbour& self() const { return group_[plan_.rank() - plan_.own_group().first]; }

  // Sums a slice of the whole tree: first the inputs of groups before the own one, then the group's
  // parts, then the inputs of later groups.
  TreeSum& whole() { return whole_; }
  // Sums the own group's parts up to its node `node`, from the group's parts
  // [first_part(node), ...).
  TreeSum& group_node(int node) { return group_nodes_[node]; }
  int first_part(int node) const { return first_part_[node]; }

  // The group's parts in order: pointers to a float's place in each.
  void LocalInputs(int64_t at, std::vector<const float*>& out) const;

  // The staged inputs of this member's own slice of `bucket`, in the order of nodes.
  absl::Span<Staged> staged(int bucket);
  // Where group `group`'s node `node` is in staged(); -1 when there is none.
  int StagedIndex(int group, int node) const;
  // How many inputs of staged() are of groups before the own one.
  int staged_before() const { return staged_before_; }

  // Memory for the sum of the own group's node `node` over `owner`'s slice of `bucket`, where this
  // member is the delegate. A group of one needs none: its parts are its nodes.
  float* outbox(int bucket, int owner, int node);

 private:
  ReductionPlan plan_;
  std::shared_ptr<const ArenaLayout> layout_;
  std::vector<Neighbour> group_;
  TreeSum whole_;
  std::vector<TreeSum> group_nodes_;
  std::vector<int> first_part_;
  std::vector<int> first_staged_of_group_;
  int staged_per_bucket_ = 0;
  int staged_before_ = 0;
  std::vector<Staged> staged_;
  std::unique_ptr<float[]> staging_memory_;
  std::vector<int64_t> outbox_offset_;  // by (bucket, owner)
  std::unique_ptr<float[]> outbox_memory_;
};

}  // namespace everstep
