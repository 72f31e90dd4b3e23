// base: Batch and shares.
#include "everstep/base/batch.h"

namespace everstep {

const TensorSpan* Batch::Find(std::string_view name) const {
  for (const TensorSpan& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Share ShareOf(int64_t n, int r, int num_replicas) {
  return {n * r / num_replicas, n * (r + 1) / num_replicas};
}

}  // namespace everstep
