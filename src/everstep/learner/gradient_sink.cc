// learner: flat gradients, bucket by bucket.
#include "everstep/learner/gradient_sink.h"

#include <algorithm>
#include <numeric>

namespace everstep {

GradientSink::GradientSink(const std::vector<ModelParameter>& parameters, const StateLayout& layout,
                           absl::Span<float> gradients, absl::FunctionRef<void(int)> ready)
    : parameters_(parameters),
      layout_(layout),
      gradients_(gradients),
      ready_(ready),
      done_(parameters.size()),
      by_offset_(parameters.size()) {
  std::iota(by_offset_.begin(), by_offset_.end(), 0);
  std::sort(by_offset_.begin(), by_offset_.end(),
            [&](int a, int b) { return parameters_[a].offset < parameters_[b].offset; });
}

absl::Span<float> GradientSink::At(int index) const {
  const ModelParameter& p = parameters_[index];
  return gradients_.subspan(p.offset, p.size);
}

void GradientSink::Done(int index) {
  done_[index] = true;
  Announce();
}

void GradientSink::Finish() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (done_[i]) continue;
    const absl::Span<float> values = At(static_cast<int>(i));
    std::fill(values.begin(), values.end(), 0.0f);
    done_[i] = true;
  }
  Announce();
}

void GradientSink::Announce() {
  while (next_parameter_ < by_offset_.size() && done_[by_offset_[next_parameter_]]) {
    ++next_parameter_;
  }
  const int64_t final_to = next_parameter_ == by_offset_.size()
                               ? layout_.gradient_size
                               : parameters_[by_offset_[next_parameter_]].offset;
  while (next_bucket_ < static_cast<int>(layout_.buckets.size())) {
    const Bucket& bucket = layout_.buckets[next_bucket_];
    if (bucket.offset + bucket.size > final_to) return;
    ready_(next_bucket_++);
  }
}

}  // namespace everstep
