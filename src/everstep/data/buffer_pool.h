// data: memory of batches, used again: fresh pages cost more than the copy into them.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace everstep {

// Buffers of one size, aligned to 64 bytes. Any thread. Buffers may outlive the pool.
class BufferPool {
 public:
  BufferPool(size_t bytes, size_t keep) : free_(std::make_shared<Free>(bytes, keep)) {}

  // Contents are undefined. Goes back when the last copy of the pointer is gone.
  std::shared_ptr<std::byte> Take();

 private:
  struct Free {
    Free(size_t bytes_each, size_t most) : bytes(bytes_each), keep(most) {}
    ~Free();
    const size_t bytes, keep;
    std::mutex mu;
    std::vector<std::byte*> buffers;
  };
  std::shared_ptr<Free> free_;
};

}  // namespace everstep
