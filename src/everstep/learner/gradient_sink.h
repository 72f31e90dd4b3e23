// learner: GradientSink, where autograd's gradients become the caller's flat gradient, bucket by
// bucket. No torch here.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "everstep/learner/layout.h"

namespace everstep {

// For one call of Learner::Gradient, in its thread. Buckets are announced in ascending order, each
// as soon as it and all before it are final.
class GradientSink {
 public:
  // All arguments outlive the sink.
  GradientSink(const std::vector<ModelParameter>& parameters, const StateLayout& layout,
               absl::Span<float> gradients, absl::FunctionRef<void(int)> ready);

  // Where the gradient of parameter `index` goes; write all of it, then call Done(index), once.
  absl::Span<float> At(int index) const;
  void Done(int index);
  bool IsDone(int index) const { return done_[index]; }

  // No more gradients: what is missing is +0. Announces the remaining buckets.
  void Finish();

 private:
  void Announce();

  const std::vector<ModelParameter>& parameters_;
  const StateLayout& layout_;
  const absl::Span<float> gradients_;
  const absl::FunctionRef<void(int)> ready_;
  std::vector<bool> done_;
  std::vector<int> by_offset_;  // parameters in the order of their offsets
  size_t next_parameter_ = 0;   // in by_offset_: those before it are done
  int next_bucket_ = 0;         // those before it are announced
};

}  // namespace everstep
