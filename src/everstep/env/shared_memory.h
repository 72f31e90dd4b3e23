// env: memory shared between processes of one host by descriptor (memfd), and the futex in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/env/fd.h"

namespace everstep {

// A memfd of `bytes` zero bytes that can never be resized again, so that whoever maps it cannot be
// hit by SIGBUS. Pages appear when first touched; nothing is left on disk. `name` shows in
// /proc/PID/maps. kResourceExhausted when the system gives none.
absl::StatusOr<UniqueFd> CreateSharedMemory(const std::string& name, size_t bytes);

// A mapping of such a memfd, unmapped at its end. Not inherited by forked children. The memory
// lives until the last mapping and descriptor, of whatever process, is gone.
class SharedMapping {
 public:
  // Maps `fd`, which came from CreateSharedMemory here or in another process. kInvalidArgument when
  // it is not a memfd of exactly `bytes` that is sealed against resizing.
  static absl::StatusOr<SharedMapping> Map(int fd, size_t bytes);

  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept { *this = std::move(other); }
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Takes away this mapping's right to write [offset, offset + bytes), both whole pages.
  absl::Status ProtectAgainstWrites(size_t offset, size_t bytes);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

size_t PageBytes();

// Waits while `word` is `expected`, until a FutexWake on it in any process that maps it, or
// `timeout`; may return early for no reason. Call in a loop around the real condition.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, Duration timeout) noexcept;
void FutexWakeAll(const std::atomic<uint32_t>& word) noexcept;

}  // namespace everstep
