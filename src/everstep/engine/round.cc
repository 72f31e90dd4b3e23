// engine: one collective round.
#include "everstep/engine/round.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/collective/add.h"

namespace everstep {
namespace {

// dst += src, the one addition; equal sizes.
void AddSpan(absl::Span<float> dst, absl::Span<const float> src) {
  AddInto(dst.data(), src.data(), static_cast<int64_t>(dst.size()));
}

}  // namespace

ArenaShape ArenaShapeFor(const StateLayout& layout, int num_replicas) {
  ArenaShape shape;
  for (const Bucket& bucket : layout.buckets) shape.bucket_sizes.push_back(bucket.size);
  shape.bucket_sizes.push_back(layout.statistics_size);
  shape.slots = MaxSlots(num_replicas);
  return shape;
}

RoundRunner::RoundRunner(const RoundParts& parts)
    : parts_(parts), layout_(parts.learner->layout()), buckets_(layout_.buckets) {
  const View& view = parts_.communicator->view();
  const Member& self = view.members[parts_.communicator->rank()];
  plan_ = PlanPartials(view.num_replicas, self.replica_begin, self.replica_end);
  buckets_.push_back({layout_.gradient_size, layout_.statistics_size});
  tail_begin_ = plan_.ops.size();
  while (tail_begin_ > 0 && plan_.ops[tail_begin_ - 1].kind == TreeOp::kAdd) --tail_begin_;
}

absl::Span<float> RoundRunner::BucketOf(int slot, int bucket) {
  return parts_.communicator->partial(slot).subspan(buckets_[bucket].offset, buckets_[bucket].size);
}

void RoundRunner::StoreStatistics(int slot, const ReplicaResult& result) {
  absl::Span<float> out = BucketOf(slot, static_cast<int>(buckets_.size()) - 1);
  std::copy(result.statistics.begin(), result.statistics.end(), out.begin());
}

absl::Status RoundRunner::StartBucket(int bucket, Round round, Deadline deadline) {
  for (size_t i = tail_begin_; i < plan_.ops.size(); ++i) {
    const TreeOp& op = plan_.ops[i];
    AddSpan(BucketOf(op.slot, bucket), BucketOf(op.arg, bucket));
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < plan_.nodes.size(); ++i) {
    parts.push_back({plan_.nodes[i], BucketOf(static_cast<int>(i), bucket)});
  }
  EV_ASSIGN_OR_RETURN(Ticket ticket, parts_.communicator->Reduce(round, bucket, parts, deadline));
  tickets_.push_back(ticket);
  return absl::OkStatus();
}

absl::Status RoundRunner::TrainLeaf(const TreeOp& op, bool last, Round round, Step step,
                                    Step batch_step, Deadline deadline) {
  parts_.phases->Enter(Phase::kInput);
  EV_ASSIGN_OR_RETURN(std::shared_ptr<const Batch> batch,
                      parts_.source->Get(batch_step, op.arg, *parts_.cancel, deadline));
  parts_.phases->Enter(Phase::kForwardBackward);
  absl::Status started;
  auto ready = [&](int bucket) {
    if (last && started.ok()) started = StartBucket(bucket, round, deadline);
  };
  absl::Span<float> gradients =
      parts_.communicator->partial(op.slot).subspan(0, layout_.gradient_size);
  EV_ASSIGN_OR_RETURN(ReplicaResult result,
                      parts_.learner->Gradient(step, op.arg, *batch, gradients, ready));
  EV_RETURN_IF_ERROR(started);
  StoreStatistics(op.slot, result);
  return absl::OkStatus();
}

absl::Status RoundRunner::WaitAll(Deadline deadline) {
  parts_.phases->Enter(Phase::kWaitForPeer);
  for (Ticket ticket : tickets_) EV_RETURN_IF_ERROR(parts_.communicator->Wait(ticket, deadline));
  return absl::OkStatus();
}

absl::Status RoundRunner::Train(Round round, Step step, Step batch_step, Deadline deadline) {
  tickets_.clear();
  const int replica_end = plan_.nodes.empty() ? 0 : plan_.nodes.back().end;
  for (size_t i = 0; i < tail_begin_; ++i) {
    const TreeOp& op = plan_.ops[i];
    if (op.kind == TreeOp::kLeaf) {
      EV_RETURN_IF_ERROR(
          TrainLeaf(op, op.arg + 1 == replica_end, round, step, batch_step, deadline));
    } else {
      AddSpan(parts_.communicator->partial(op.slot), parts_.communicator->partial(op.arg));
    }
  }
  if (tickets_.size() != layout_.buckets.size()) {
    return absl::InternalError(absl::StrCat("the learner announced ", tickets_.size(), " of ",
                                            layout_.buckets.size(), " buckets as ready"));
  }
  EV_RETURN_IF_ERROR(StartBucket(static_cast<int>(layout_.buckets.size()), round, deadline));
  return WaitAll(deadline);
}

absl::Status RoundRunner::Evaluate(Round round, Step step, Deadline deadline) {
  tickets_.clear();
  const int bucket = static_cast<int>(layout_.buckets.size());
  for (size_t i = 0; i < tail_begin_; ++i) {
    const TreeOp& op = plan_.ops[i];
    if (op.kind == TreeOp::kAdd) {
      AddSpan(BucketOf(op.slot, bucket), BucketOf(op.arg, bucket));
      continue;
    }
    EV_ASSIGN_OR_RETURN(std::shared_ptr<const Batch> batch,
                        parts_.source->Get(step, op.arg, *parts_.cancel, deadline));
    EV_ASSIGN_OR_RETURN(ReplicaResult result, parts_.learner->Evaluate(*batch));
    StoreStatistics(op.slot, result);
  }
  EV_RETURN_IF_ERROR(StartBucket(bucket, round, deadline));
  return WaitAll(deadline);
}

Reduced RoundRunner::result() const {
  absl::Span<const float> all = parts_.communicator->result();
  return {all.subspan(0, layout_.gradient_size),
          all.subspan(layout_.gradient_size, layout_.statistics_size)};
}

}  // namespace everstep
