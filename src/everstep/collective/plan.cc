// collective: who adds what.
#include "everstep/collective/plan.h"

#include <algorithm>

namespace everstep {
namespace {

// Whether all of [first, last) share memory with each other, and both sides say so.
bool AllShare(const std::vector<std::vector<bool>>& shares, int first, int last) {
  for (int i = first; i < last; ++i) {
    for (int j = first; j < last; ++j) {
      if (i != j && !shares[i][j]) return false;
    }
  }
  return true;
}

}  // namespace

ReductionPlan::ReductionPlan(const View& view, int rank,
                             const std::vector<std::vector<bool>>& shares)
    : rank_(rank), num_replicas_(view.num_replicas) {
  const int members = static_cast<int>(view.members.size());
  for (const Member& m : view.members) {
    parts_.push_back(MaximalNodes(num_replicas_, m.replica_begin, m.replica_end));
  }
  for (int first = 0; first < members;) {
    int last = first + 1;
    while (last < members && view.members[last].host == view.members[first].host) ++last;
    if (!AllShare(shares, first, last)) last = first + 1;
    Group group{first, last, {}};
    group.nodes = MaximalNodes(num_replicas_, view.members[first].replica_begin,
                               view.members[last - 1].replica_end);
    for (int r = first; r < last; ++r) group_of_.push_back(static_cast<int>(groups_.size()));
    groups_.push_back(std::move(group));
    first = last;
  }
}

SliceRange ReductionPlan::SliceOf(int64_t size, int bucket, int owner) const {
  const int64_t members = num_members();
  const int64_t even = (size + members - 1) / members;
  const int64_t wanted = std::max(even, kMinSliceFloats);
  const int64_t length = (wanted + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  // Turned by the bucket, so that small buckets do not all burden rank 0.
  const int64_t index = (owner + bucket) % members;
  const int64_t begin = std::min(size, index * length);
  return {begin, std::min(size, begin + length) - begin};
}

int ReductionPlan::DelegateOf(int owner, int group) const {
  const Group& g = groups_[group];
  if (group_of_[owner] == group) return owner;
  return g.first + (owner - groups_[group_of_[owner]].first) % g.size();
}

}  // namespace everstep
