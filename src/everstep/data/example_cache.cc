// data: the cache of decoded examples.
#include "everstep/data/example_cache.h"

#include <cstring>
#include <new>
#include <utility>

namespace everstep {

std::unique_ptr<ExampleCache> ExampleCache::Make(int64_t examples, std::vector<int64_t> field_bytes,
                                                 int64_t budget) {
  int64_t per_example = 1;
  for (int64_t bytes : field_bytes) per_example += bytes;
  if (examples <= 0 || per_example > budget / examples) return nullptr;
  std::unique_ptr<ExampleCache> cache(new ExampleCache);
  for (int64_t bytes : field_bytes) {
    // Not value-initialised: pages nobody fills cost nothing.
    cache->fields_.emplace_back(new (std::nothrow)
                                    std::byte[static_cast<size_t>(bytes * examples)]);
    if (cache->fields_.back() == nullptr) return nullptr;
  }
  cache->states_.reset(new (std::nothrow) std::atomic<uint8_t>[static_cast<size_t>(examples)]());
  if (cache->states_ == nullptr) return nullptr;
  cache->field_bytes_ = std::move(field_bytes);
  return cache;
}

bool ExampleCache::Get(int64_t i, absl::Span<std::byte* const> out) const {
  if (states_[i].load(std::memory_order_acquire) != kPresent) return false;
  for (size_t f = 0; f < fields_.size(); ++f) {
    std::memcpy(out[f], &fields_[f][static_cast<size_t>(i * field_bytes_[f])],
                static_cast<size_t>(field_bytes_[f]));
  }
  return true;
}

void ExampleCache::Prefetch(int64_t i) const {
  constexpr int64_t kLine = 64, kMostBytes = 16 * kLine;  // the hardware goes on from there
  for (size_t f = 0; f < fields_.size(); ++f) {
    const std::byte* begin = &fields_[f][static_cast<size_t>(i * field_bytes_[f])];
    const int64_t bytes = field_bytes_[f] < kMostBytes ? field_bytes_[f] : kMostBytes;
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(begin + at);
  }
}

void ExampleCache::Put(int64_t i, absl::Span<std::byte* const> fields) {
  uint8_t absent = kAbsent;
  if (!states_[i].compare_exchange_strong(absent, kBeingWritten, std::memory_order_relaxed)) return;
  for (size_t f = 0; f < fields_.size(); ++f) {
    std::memcpy(&fields_[f][static_cast<size_t>(i * field_bytes_[f])], fields[f],
                static_cast<size_t>(field_bytes_[f]));
  }
  states_[i].store(kPresent, std::memory_order_release);
}

}  // namespace everstep
