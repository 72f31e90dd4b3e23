// data: decoded examples kept in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace everstep {

// Room for every example of a data set, filled as they come. Any threads at once.
class ExampleCache {
 public:
  // `field_bytes[f]`: bytes of field f of one example. Null when all would take over `budget` bytes
  // or memory is short. Memory is taken from the system as it is touched.
  static std::unique_ptr<ExampleCache> Make(int64_t examples, std::vector<int64_t> field_bytes,
                                            int64_t budget);

  // Copies example `i` to out[f], one for each field; false when it is not here.
  bool Get(int64_t i, absl::Span<std::byte* const> out) const;
  // Starts to fetch example `i` into the processor's caches: examples lie far apart.
  void Prefetch(int64_t i) const;
  // Takes a copy of example `i`, unless it is here or another thread is at it.
  void Put(int64_t i, absl::Span<std::byte* const> fields);

 private:
  enum State : uint8_t { kAbsent, kBeingWritten, kPresent };
  ExampleCache() = default;

  std::vector<int64_t> field_bytes_;
  std::vector<std::unique_ptr<std::byte[]>> fields_;
  std::unique_ptr<std::atomic<uint8_t>[]> states_;
};

}  // namespace everstep
