// data: the pool of batch memory.
#include "everstep/data/buffer_pool.h"

#include <new>

namespace everstep {
namespace {

constexpr std::align_val_t kAlignment{64};

void Release(std::byte* buffer) { ::operator delete(buffer, kAlignment); }

}  // namespace

BufferPool::Free::~Free() {
  for (std::byte* buffer : buffers) Release(buffer);
}

std::shared_ptr<std::byte> BufferPool::Take() {
  std::byte* buffer = nullptr;
  {
    std::lock_guard<std::mutex> lock(free_->mu);
    if (!free_->buffers.empty()) {
      buffer = free_->buffers.back();
      free_->buffers.pop_back();
    }
  }
  if (buffer == nullptr) {
    buffer = static_cast<std::byte*>(::operator new(free_->bytes, kAlignment));
  }
  return {buffer, [free = free_](std::byte* b) {
            {
              std::lock_guard<std::mutex> lock(free->mu);
              if (free->buffers.size() < free->keep) {
                free->buffers.push_back(b);
                return;
              }
            }
            Release(b);
          }};
}

}  // namespace everstep
