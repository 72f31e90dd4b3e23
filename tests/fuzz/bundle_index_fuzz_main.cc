// tests: runs the fuzz target without libFuzzer: on files, or on bombs and mutations of its own,
// with an eye on the memory that reading an index takes.
//   bundle_index_fuzz [FROM COUNT]     mutations FROM .. FROM+COUNT-1 (default 0 200000)
//   bundle_index_fuzz FILE...          these indices, e.g. what libFuzzer found
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "bundle_index_fuzz.h"
#include "driver.h"
#include "mutations.h"

namespace {

// Of the C++ heap, in the only thread there is.
size_t live = 0, peak = 0;
constexpr size_t kAtOnce = size_t{256} << 20;

void* Allocate(size_t size) {
  if (size > kAtOnce) {
    std::fprintf(stderr, "bundle_index_fuzz: broken: %zu bytes asked for at once\n", size);
    std::abort();
  }
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  live += malloc_usable_size(memory);
  if (live > peak) peak = live;
  return memory;
}

void Free(void* memory) {
  if (memory != nullptr) live -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }

namespace {

using everstep::fuzz::Bomb;
using everstep::fuzz::DataFile;
using everstep::fuzz::kMaxShards;

// A parse needs the index once, what it says once, and a message of one entry: a table's bytes can
// say at most some dozens of times what they take.
constexpr size_t kTimes = 64;
constexpr size_t kFree = size_t{1} << 20;

// Whether it was taken.
bool Run(const std::string& what, const std::string& index) {
  const size_t before = live;
  peak = live;
  const bool taken = everstep::fuzz::TryIndex(index);
  const size_t took = peak - before;
  const size_t bound = kTimes * (index.size() + kMaxShards * DataFile().size()) + kFree;
  if (std::getenv("EVERSTEP_FUZZ_SHOW") != nullptr) {
    std::printf("%s: %zu bytes of index, %zu of memory\n", what.c_str(), index.size(), took);
  }
  if (took > bound) {
    std::fprintf(stderr, "bundle_index_fuzz: broken: %s: %zu bytes of memory for %zu of index\n",
                 what.c_str(), took, index.size());
    std::abort();
  }
  return taken;
}

void Expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "bundle_index_fuzz: broken: %s\n", what.c_str());
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  const auto range = everstep::fuzz::RangeOrFiles(
      argc, argv, 200000,
      [](const std::string& name, const std::string& text) { Run(name, text); });
  if (!range.has_value()) return 0;
  const auto [from, count] = *range;

  const std::vector<std::string> seeds = everstep::fuzz::Seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::string name = "seed " + std::to_string(i);
    Expect(Run(name, seeds[i]), name + " is refused");
  }
  for (const Bomb& bomb : everstep::fuzz::Bombs()) {
    Expect(Run(bomb.name, bomb.index) == bomb.is_taken,
           bomb.name + (bomb.is_taken ? ": was refused" : ": was taken"));
  }
  uint64_t read = 0, unread = 0;
  for (uint64_t n = from; n < from + count; ++n) {
    ++(Run("mutation " + std::to_string(n), everstep::fuzz::Mutate(seeds, n)) ? read : unread);
  }
  // Mutations that are all refused, or none, would test one half of the reader only.
  std::printf("%llu mutations: %llu were taken, %llu refused\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(read),
              static_cast<unsigned long long>(unread));
  Expect(count < 10000 || (read * 20 > unread && unread * 20 > read),
         "the mutations are one-sided");
  return 0;
}
