// collective: gradient memory.
#include "everstep/collective/arena.h"

#include <utility>

#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/collective/cells.h"

namespace everstep {

absl::StatusOr<std::shared_ptr<const ArenaLayout>> ArenaLayout::Make(const ArenaShape& shape) {
  if (shape.slots < 1) {
    return absl::InvalidArgumentError("gradient memory needs at least one partial buffer");
  }
  if (shape.bucket_sizes.size() > static_cast<size_t>(kMaxBuckets)) {
    return absl::InvalidArgumentError(
        absl::StrCat(shape.bucket_sizes.size(), " buckets; at most ", kMaxBuckets, " can be"));
  }
  auto layout = std::make_shared<ArenaLayout>();
  layout->shape_ = shape;
  layout->offsets_ = {0};
  uint64_t hash = HashKey({static_cast<uint64_t>(shape.slots), shape.bucket_sizes.size()});
  for (int64_t size : shape.bucket_sizes) {
    if (size < 0 || size > (int64_t{1} << 40)) {
      return absl::InvalidArgumentError(absl::StrCat("a bucket of ", size, " floats"));
    }
    layout->offsets_.push_back(layout->offsets_.back() + size);
    hash = HashKey({hash, static_cast<uint64_t>(size)});
  }
  const size_t page = PageBytes();
  const size_t bytes = static_cast<size_t>(layout->floats()) * sizeof(float);
  layout->buffer_bytes_ = std::max(page, (bytes + page - 1) / page * page);
  layout->fingerprint_ = hash;
  return layout;
}

absl::StatusOr<std::shared_ptr<Arena>> Arena::Create(std::shared_ptr<const ArenaLayout> layout) {
  auto arena = std::make_shared<Arena>();
  EV_ASSIGN_OR_RETURN(arena->fd_, CreateSharedMemory("everstep-gradients", layout->bytes()));
  EV_ASSIGN_OR_RETURN(arena->mapping_, SharedMapping::Map(arena->fd_.get(), layout->bytes()));
  arena->layout_ = std::move(layout);
  return arena;
}

absl::StatusOr<std::shared_ptr<Arena>> Arena::MapNeighbour(
    UniqueFd fd, std::shared_ptr<const ArenaLayout> layout) {
  auto arena = std::make_shared<Arena>();
  EV_ASSIGN_OR_RETURN(arena->mapping_, SharedMapping::Map(fd.get(), layout->bytes()));
  EV_RETURN_IF_ERROR(arena->mapping_.ProtectAgainstWrites(
      layout->buffer_bytes(), layout->bytes() - layout->buffer_bytes()));
  arena->layout_ = std::move(layout);
  return arena;
}

}  // namespace everstep
