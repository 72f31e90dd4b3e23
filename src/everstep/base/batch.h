// base: Batch, the examples of one replica's share of one step, as plain host memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "everstep/base/tensor_span.h"

namespace everstep {

// Immutable once made; shared between the thread that made it and those that use it.
struct Batch {
  int64_t examples = 0;                // n_r: examples of this replica; may be 0
  int64_t global_examples = 0;         // n: examples of the whole step, over all replicas; > 0
  std::vector<TensorSpan> fields;      // each of shape [examples, ...]
  std::shared_ptr<const void> memory;  // owns the fields' memory

  // The field called `name`, or null.
  const TensorSpan* Find(std::string_view name) const;
};

// The examples [begin, end) of a global batch of n that replica r of R gets: floor(r*n/R) to
// floor((r+1)*n/R). Some are empty when n < R.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
};
Share ShareOf(int64_t n, int r, int num_replicas);

}  // namespace everstep
