// checkpoint: which checkpoints go when a new one has come.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "everstep/base/step.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/store.h"

namespace everstep {

struct RetentionRule {
  int keep_last = 0;    // the newest so many stay; 0: all
  Step keep_every = 0;  // those of steps that are multiples of it stay; 0: none for that
};

struct RetentionPlan {
  std::vector<CheckpointInfo> kept;     // of this job, oldest first
  std::vector<CheckpointInfo> retired;  // in the order to remove them
};

// `all` as ListCheckpoints gives them; `committed` stays in any case. `is_ours` tells of one that
// opens whether it is of this model and seed: others neither count nor go. `is_good` reads a whole
// one: nothing goes unless one that stays was found good, and if none is, the newest good one of
// the others stays too. Damaged ones go when the oldest of the newest `keep_last` is newer.
RetentionPlan PlanRetention(absl::Span<const CheckpointInfo> all, const RetentionRule& rule,
                            const CheckpointId& committed,
                            absl::FunctionRef<bool(const CheckpointInfo&)> is_ours,
                            absl::FunctionRef<bool(const CheckpointInfo&)> is_good);

}  // namespace everstep
