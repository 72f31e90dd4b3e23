// collective: the work on one slice.
#include "everstep/collective/slice_work.h"

#include <algorithm>
#include <cstring>

namespace everstep {

SliceWork::SliceWork(Workshop& shop, Round round, int bucket, int owner)
    : shop_(shop), round_(round), bucket_(bucket), owner_(owner) {
  const ArenaLayout& layout = shop.layout();
  const SliceRange slice = shop.plan().SliceOf(layout.size_of(bucket), bucket, owner);
  at_ = layout.offset_of(bucket) + slice.begin;
  size_ = slice.size;
}

void SliceWork::QueueSends(const std::vector<StreamLink*>& links, int& unsent) {
  const ReductionPlan& plan = shop_.plan();
  SendJob job;
  job.frame.round = round_;
  job.frame.bucket = bucket_;
  job.frame.owner = owner_;
  job.floats = size_;
  job.unsent = &unsent;
  if (is_owner()) {
    job.frame.kind = FrameKind::kResult;
    job.data = shop_.self().arena->result() + at_;
    job.available = &finished_;
    for (int g = 0; g < static_cast<int>(plan.groups().size()); ++g) {
      if (g == plan.group_of(plan.rank())) continue;
      links[plan.DelegateOf(owner_, g)]->Queue(job);
      ++unsent;
    }
    return;
  }
  job.frame.kind = FrameKind::kPartial;
  job.available = &summed_;
  const bool alone = plan.own_group().size() == 1;
  if (alone) summed_ = size_;  // its parts are the group's nodes, sent from where they lie
  for (int node = 0; node < static_cast<int>(plan.own_group().nodes.size()); ++node) {
    job.frame.node = node;
    job.data =
        alone ? shop_.self().arena->partial(node) + at_ : shop_.outbox(bucket_, owner_, node);
    links[owner_]->Queue(job);
    ++unsent;
  }
}

bool SliceWork::GroupIsReady() {
  if (group_is_ready_) return true;
  const uint64_t word = WordOf(round_, bucket_);
  for (const Neighbour& n : shop_.group()) {
    if (n.cells->ready.load() < word) return false;
  }
  group_is_ready_ = true;
  return true;
}

bool SliceWork::Advance() {
  if (done() || !GroupIsReady()) return false;
  if (is_owner()) return AdvanceOwner();
  const bool summed = SumGroup();
  return Spread() || summed;
}

bool SliceWork::AdvanceOwner() {
  const absl::Span<Staged> staged = shop_.staged(bucket_);
  int64_t limit = std::min(size_, finished_ + kStepFloats);
  for (const Staged& s : staged) limit = std::min(limit, s.round == round_ ? s.received : 0);
  if (limit <= finished_) return false;
  float* const result = shop_.self().arena->result() + at_;
  const size_t before = static_cast<size_t>(shop_.staged_before());
  while (finished_ < limit) {
    const int64_t n = std::min(limit - finished_, TreeSum::kPieceFloats);
    inputs_.clear();
    for (size_t i = 0; i < before; ++i) inputs_.push_back(staged[i].data + finished_);
    shop_.LocalInputs(at_ + finished_, inputs_);
    for (size_t i = before; i < staged.size(); ++i) inputs_.push_back(staged[i].data + finished_);
    shop_.whole().Run(inputs_.data(), n, result + finished_);
    CopyToNeighbours(finished_, n);
    finished_ += n;
  }
  if (done()) {
    for (Staged& s : staged) s.in_use = false;
  }
  return true;
}

bool SliceWork::SumGroup() {
  if (summed_ == size_) return false;
  const int64_t limit = std::min(size_, summed_ + kStepFloats);
  const int nodes = static_cast<int>(shop_.plan().own_group().nodes.size());
  while (summed_ < limit) {
    const int64_t n = std::min(limit - summed_, TreeSum::kPieceFloats);
    inputs_.clear();
    shop_.LocalInputs(at_ + summed_, inputs_);
    for (int node = 0; node < nodes; ++node) {
      shop_.group_node(node).Run(inputs_.data() + shop_.first_part(node), n,
                                 shop_.outbox(bucket_, owner_, node) + summed_);
    }
    summed_ += n;
  }
  return true;
}

bool SliceWork::Spread() {
  const int64_t limit = std::min(received_, finished_ + kStepFloats);
  if (limit <= finished_) return false;
  CopyToNeighbours(finished_, limit - finished_);
  finished_ = limit;
  return true;
}

void SliceWork::CopyToNeighbours(int64_t from, int64_t floats) {
  const float* const source = shop_.self().arena->result() + at_ + from;
  for (const Neighbour& n : shop_.group()) {
    if (n.rank == shop_.plan().rank()) continue;
    std::memcpy(n.arena->result() + at_ + from, source,
                static_cast<size_t>(floats) * sizeof(float));
  }
}

void SliceWork::CollectWaits(const std::function<void(int)>& wait) const {
  if (done()) return;
  if (!group_is_ready_) {
    const uint64_t word = WordOf(round_, bucket_);
    for (const Neighbour& n : shop_.group()) {
      if (n.cells->ready.load() < word) wait(n.rank);
    }
    return;
  }
  const ReductionPlan& plan = shop_.plan();
  if (!is_owner()) {
    if (finished_ == received_) wait(owner_);
    return;
  }
  const absl::Span<Staged> staged = shop_.staged(bucket_);
  for (int g = 0; g < static_cast<int>(plan.groups().size()); ++g) {
    for (int node = 0; node < static_cast<int>(plan.groups()[g].nodes.size()); ++node) {
      const int index = shop_.StagedIndex(g, node);
      if (index < 0) continue;
      const Staged& s = staged[index];
      if (s.round != round_ || s.received <= finished_) wait(plan.DelegateOf(owner_, g));
    }
  }
}

float* SliceWork::ResultPlace(int64_t offset, int64_t floats) {
  if (is_owner() || offset != received_ || floats > size_ - offset) return nullptr;
  return shop_.self().arena->result() + at_ + offset;
}

}  // namespace everstep
