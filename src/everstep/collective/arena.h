// collective: the gradient memory of one process, which neighbours on the same host map too.
//
// One memfd: the result buffer, then the partial buffers, each holding all buckets one after
// another. Starts are page-aligned; the layout follows from the shape alone, so it is the same on
// all members. Pages appear when first touched.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/collective/communicator.h"
#include "everstep/env/shared_memory.h"

namespace everstep {

class ArenaLayout {
 public:
  // kInvalidArgument for a negative size, no slots or too many buckets.
  static absl::StatusOr<std::shared_ptr<const ArenaLayout>> Make(const ArenaShape& shape);

  const ArenaShape& shape() const { return shape_; }
  int num_buckets() const { return static_cast<int>(shape_.bucket_sizes.size()); }
  int64_t size_of(int bucket) const { return shape_.bucket_sizes[bucket]; }  // floats
  int64_t offset_of(int bucket) const { return offsets_[bucket]; }           // floats
  int64_t floats() const { return offsets_.back(); }                         // of one buffer
  size_t buffer_bytes() const { return buffer_bytes_; }                      // whole pages
  size_t bytes() const { return buffer_bytes_ * (1 + shape_.slots); }
  uint64_t fingerprint() const { return fingerprint_; }  // of the shape

 private:
  ArenaShape shape_;
  std::vector<int64_t> offsets_;  // one more than buckets
  size_t buffer_bytes_ = 0;
  uint64_t fingerprint_ = 0;
};

class Arena {
 public:
  // This process's own.
  static absl::StatusOr<std::shared_ptr<Arena>> Create(std::shared_ptr<const ArenaLayout> layout);
  // A neighbour's: its result can be written, its partials only read.
  static absl::StatusOr<std::shared_ptr<Arena>> MapNeighbour(
      UniqueFd fd, std::shared_ptr<const ArenaLayout> layout);

  const ArenaLayout& layout() const { return *layout_; }
  int fd() const { return fd_.get(); }  // -1 for a neighbour's
  float* result() const { return reinterpret_cast<float*>(mapping_.data()); }
  float* partial(int slot) const {
    return reinterpret_cast<float*>(mapping_.data() + (1 + slot) * layout_->buffer_bytes());
  }

 private:
  std::shared_ptr<const ArenaLayout> layout_;
  UniqueFd fd_;
  SharedMapping mapping_;
};

}  // namespace everstep
