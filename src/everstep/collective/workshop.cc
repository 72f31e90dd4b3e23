// collective: memory and sums shared by the reductions of a communicator.
#include "everstep/collective/workshop.h"

#include <utility>

namespace everstep {
namespace {

std::vector<TreeNode> PartsOf(const ReductionPlan& plan, const Group& group) {
  std::vector<TreeNode> parts;
  for (int r = group.first; r < group.last; ++r) {
    parts.insert(parts.end(), plan.parts_of(r).begin(), plan.parts_of(r).end());
  }
  return parts;
}

// What an owner of this group adds: nodes of other groups, parts of its own.
std::vector<TreeNode> InputsOfOwner(const ReductionPlan& plan) {
  std::vector<TreeNode> inputs;
  for (const Group& group : plan.groups()) {
    const bool own = group.first == plan.own_group().first;
    const std::vector<TreeNode> nodes = own ? PartsOf(plan, group) : group.nodes;
    inputs.insert(inputs.end(), nodes.begin(), nodes.end());
  }
  return inputs;
}

}  // namespace

Workshop::Workshop(ReductionPlan plan, std::shared_ptr<const ArenaLayout> layout,
                   std::vector<Neighbour> group)
    : plan_(std::move(plan)),
      layout_(std::move(layout)),
      group_(std::move(group)),
      whole_({0, plan_.num_replicas()}, InputsOfOwner(plan_)) {
  const std::vector<TreeNode> parts = PartsOf(plan_, plan_.own_group());
  size_t next = 0;
  for (TreeNode node : plan_.own_group().nodes) {
    std::vector<TreeNode> inputs;
    first_part_.push_back(static_cast<int>(next));
    while (next < parts.size() && parts[next].end <= node.end) inputs.push_back(parts[next++]);
    group_nodes_.emplace_back(node, inputs);
  }

  const int own = plan_.group_of(plan_.rank());
  for (int g = 0; g < static_cast<int>(plan_.groups().size()); ++g) {
    first_staged_of_group_.push_back(g == own ? -1 : staged_per_bucket_);
    if (g == own) staged_before_ = staged_per_bucket_;
    if (g != own) staged_per_bucket_ += static_cast<int>(plan_.groups()[g].nodes.size());
  }
  int64_t staging = 0, outbox = 0;
  const int nodes = static_cast<int>(plan_.own_group().nodes.size());
  for (int bucket = 0; bucket < layout_->num_buckets(); ++bucket) {
    const int64_t size = layout_->size_of(bucket);
    staging += plan_.SliceOf(size, bucket, plan_.rank()).size * staged_per_bucket_;
    for (int owner = 0; owner < plan_.num_members(); ++owner) {
      outbox_offset_.push_back(outbox);
      const bool away = !plan_.InOwnGroup(owner) && plan_.own_group().size() > 1 &&
                        plan_.DelegateOf(owner, own) == plan_.rank();
      if (away) outbox += plan_.SliceOf(size, bucket, owner).size * nodes;
    }
  }
  // Uninitialised: pages appear when they are first used.
  staging_memory_.reset(new float[static_cast<size_t>(staging)]);
  outbox_memory_.reset(new float[static_cast<size_t>(outbox)]);
  float* at = staging_memory_.get();
  for (int bucket = 0; bucket < layout_->num_buckets(); ++bucket) {
    const int64_t floats = plan_.SliceOf(layout_->size_of(bucket), bucket, plan_.rank()).size;
    for (int i = 0; i < staged_per_bucket_; ++i, at += floats) {
      staged_.push_back({at, floats, -1, 0, false});
    }
  }
}

void Workshop::LocalInputs(int64_t at, std::vector<const float*>& out) const {
  for (const Neighbour& n : group_) {
    const int parts = static_cast<int>(plan_.parts_of(n.rank).size());
    for (int i = 0; i < parts; ++i) out.push_back(n.arena->partial(i) + at);
  }
}

absl::Span<Staged> Workshop::staged(int bucket) {
  return absl::MakeSpan(staged_).subspan(static_cast<size_t>(bucket) * staged_per_bucket_,
                                         staged_per_bucket_);
}

int Workshop::StagedIndex(int group, int node) const {
  const int first = first_staged_of_group_[group];
  const int nodes = static_cast<int>(plan_.groups()[group].nodes.size());
  return first < 0 || node < 0 || node >= nodes ? -1 : first + node;
}

float* Workshop::outbox(int bucket, int owner, int node) {
  const int64_t floats = plan_.SliceOf(layout_->size_of(bucket), bucket, owner).size;
  const size_t index = static_cast<size_t>(bucket) * plan_.num_members() + owner;
  return outbox_memory_.get() + outbox_offset_[index] + floats * node;
}

}  // namespace everstep
