// engine: one collective round: this worker's replicas computed one after another, added up by the
// tree, reduced bucket by bucket while the last one is still running backward.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "everstep/base/tree.h"
#include "everstep/collective/communicator.h"
#include "everstep/data/batch_source.h"
#include "everstep/learner/learner.h"
#include "everstep/metrics/phase.h"

namespace everstep {

// What a round works with. Everything is the caller's.
struct RoundParts {
  Learner* learner;
  Communicator* communicator;
  BatchSource* source;
  PhaseBoard* phases;
  const Cancel* cancel;
};

// The sizes of the arena for a learner and R replicas: the gradient's buckets, then the statistics.
ArenaShape ArenaShapeFor(const StateLayout& layout, int num_replicas);

class RoundRunner {
 public:
  // For one view; `parts.communicator` is of it.
  explicit RoundRunner(const RoundParts& parts);

  // Gradients and statistics of training step `step`, whose batch the source calls `batch_step`,
  // summed over all replicas into the communicator's result buffer. Not concluded yet: nothing of
  // it may be applied.
  absl::Status Train(Round round, Step step, Step batch_step, Deadline deadline);
  // Statistics of evaluation step `step`.
  absl::Status Evaluate(Round round, Step step, Deadline deadline);

  // The sums of the last round.
  Reduced result() const;

 private:
  absl::Status TrainLeaf(const TreeOp& op, bool last, Round round, Step step, Step batch_step,
                         Deadline deadline);
  absl::Status StartBucket(int bucket, Round round, Deadline deadline);
  absl::Status WaitAll(Deadline deadline);
  void StoreStatistics(int slot, const ReplicaResult& result);
  absl::Span<float> BucketOf(int slot, int bucket);

  RoundParts parts_;
  const StateLayout& layout_;
  PartialPlan plan_;
  size_t tail_begin_;            // plan_.ops from here on are additions that follow the last leaf
  std::vector<Bucket> buckets_;  // the layout's, and the statistics as the last one
  std::vector<Ticket> tickets_;
};

}  // namespace everstep
