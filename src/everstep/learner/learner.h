// learner: the contract of everything that turns batches into gradients and gradients into a new
// state. No torch in this header: the engine and the simulator see a learner only through it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/batch.h"
#include "everstep/base/step.h"
#include "everstep/base/tensor_span.h"

namespace everstep {

// A run of the flat gradient that is reduced as one. Floats, not bytes.
struct Bucket {
  int64_t offset = 0;
  int64_t size = 0;
};

// Where everything lies; a function of model and options only, never of the machine or the cluster.
struct StateLayout {
  struct Entry {
    std::string name;  // e.g. "model/dense/kernel", "optimizer/m/dense/kernel", "step"
    DType dtype = DType::kFloat32;
    std::vector<int64_t> shape;
    int64_t offset = 0;  // bytes from the start of the state memory
  };
  std::vector<Entry> entries;
  int64_t state_bytes = 0;      // size of the state memory
  int64_t gradient_size = 0;    // floats of one flat gradient
  std::vector<Bucket> buckets;  // partition [0, gradient_size) in ascending order
  // Floats of a replica's statistics, reduced by the tree like gradients: the loss first (its sum
  // divided by the global number of examples), then each metric's sums.
  int statistics_size = 1;
};

// The state memory: `bytes` are the caller's, 64-byte aligned, StateLayout::state_bytes long,
// zeroed.
struct StateMemory {
  absl::Span<std::byte> bytes;
};

// What one replica's share of one step adds to the step. All of it is summed by the tree.
struct ReplicaResult {
  std::vector<float> statistics;  // StateLayout::statistics_size floats
};

// The sums of a whole step. Memory is the caller's and lives through the call.
struct Reduced {
  absl::Span<const float> gradients;   // gradient_size floats
  absl::Span<const float> statistics;  // statistics_size floats
};

// Not thread-safe: one caller thread for all calls. Every call is a pure function of the state and
// its arguments.
class Learner {
 public:
  virtual ~Learner() = default;

  virtual const StateLayout& layout() const = 0;

  // Takes the state's memory (once; caller keeps ownership and outlives the learner's use) and
  // computes the initial state, step 0, from the job's seed.
  virtual absl::Status Bind(StateMemory memory, uint64_t seed) = 0;

  // Gradient of the loss of replica `r` alone at the present state. OVERWRITES `gradients`
  // (gradient_size floats, caller's memory); a parameter without a gradient gets +0, an empty batch
  // gives +0 everywhere. `ready(b)` is called in this thread once per bucket, in ascending order,
  // when bucket b of `gradients` is final. The state is not touched.
  // kInvalidArgument: the batch does not fit the model (a field, type or shape is named).
  virtual absl::StatusOr<ReplicaResult> Gradient(Step step, int r, const Batch& batch,
                                                 absl::Span<float> gradients,
                                                 absl::FunctionRef<void(int)> ready) = 0;

  // Loss and metrics of replica `r`'s share at the present state, in evaluation mode (no dropout).
  virtual absl::StatusOr<ReplicaResult> Evaluate(const Batch& batch) = 0;

  // The only writer of the state: from step to step + 1. kInternal leaves the state unknown: the
  // caller must take another's state or exit, never call again.
  virtual absl::Status Apply(Step step, const Reduced& reduced) = 0;

  // Step number that the state is at.
  virtual Step step() const = 0;

  // Names of the values that Summarize returns: "loss", then each metric.
  virtual std::vector<std::string> SummaryNames() const = 0;
  // Turns statistics into the values people read. `sums` is the sum over rounds of
  // statistics * (examples of that round) for the loss (element 0) and of plain statistics for the
  // rest; `examples` is the number of examples of those rounds.
  virtual std::vector<double> Summarize(absl::Span<const double> sums, int64_t examples) const = 0;
};

// The state as named tensors over `memory`, in the layout's order.
inline std::vector<TensorSpan> StateTensors(const StateLayout& layout,
                                            absl::Span<std::byte> memory) {
  std::vector<TensorSpan> tensors;
  for (const StateLayout::Entry& e : layout.entries) {
    tensors.push_back({e.name, e.dtype, e.shape, memory.data() + e.offset});
  }
  return tensors;
}

}  // namespace everstep
