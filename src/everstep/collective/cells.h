// collective: the words by which members that share memory tell each other how far they are.
//
// Each member has one page of cells per view, in a memfd made for that view: nothing that an old
// view's process still does can be seen in it. A member alone stores its cells; all neighbours load
// them. A cell's word only rises, and is stored after the data it speaks of. The bell alone is
// rung by others.
//
// Orders: stores and loads are sequentially consistent. Release and acquire would be enough for the
// data, but "I sleep, then look once more" against "I store, then look who sleeps" is not.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/step.h"
#include "everstep/env/fd.h"

namespace everstep {

constexpr int kMaxBuckets = (1 << 20) - 1;

// The word of a bucket of a round: rises with (round, bucket), and is never 0.
constexpr uint64_t WordOf(Round round, int bucket) {
  return (static_cast<uint64_t>(round) + 1) << 20 | static_cast<uint64_t>(bucket);
}
constexpr Round RoundOf(uint64_t word) { return static_cast<Round>(word >> 20) - 1; }
constexpr int BucketOf(uint64_t word) { return static_cast<int>(word & ((1u << 20) - 1)); }
constexpr int kVoteBucket = kMaxBuckets;  // "bucket" of a wait for a vote

// What a member says at the end of a round, as it lies in cells and goes over links.
struct VoteRecord {
  int64_t round = 0;
  int64_t step = 0;
  int64_t prepared_term = 0;
  int64_t prepared_id = 0;
  uint64_t digest = 0;
  uint64_t buckets = 0;  // hash of the buckets reduced: a member that reduced others is found out
  uint32_t wishes = 0;
  uint32_t unused = 0;
};

struct CellPage {
  // The partials of (round, bucket) are complete, and the result there may be overwritten.
  alignas(64) std::atomic<uint64_t> ready;
  // Every slice of (round, bucket) that this member works on lies in all neighbours' results, and
  // it reads their partials no more.
  alignas(64) std::atomic<uint64_t> done;
  // Conclusion k of the view is in votes[k % 2], its word k + 1. Two are enough: who votes for k +
  // 2 has seen all votes for k + 1, and who votes for k + 1 has read all votes for k.
  struct alignas(64) VoteCell {
    std::atomic<uint64_t> word;
    VoteRecord record;
  } votes[2];
  // How the member sleeps, if it does, and the futex it sleeps on.
  alignas(64) std::atomic<uint32_t> asleep;
  std::atomic<uint32_t> bell;
  alignas(64) std::array<uint64_t, 16> processors;  // that it may run on; set before it is shared
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(CellPage) <= 4096);

enum Asleep : uint32_t { kAwake = 0, kOnFutex = 1, kInPoll = 2 };

// A new page in a memfd, all words 0; `fd` is to be passed on.
struct OwnCells {
  UniqueFd fd;
  std::shared_ptr<CellPage> page;
};
absl::StatusOr<OwnCells> MakeCells();
absl::StatusOr<std::shared_ptr<CellPage>> MapCells(UniqueFd fd);

// Wakes the member whose page it is if it sleeps; `wake_fd` is its eventfd. Any thread or process.
void Ring(CellPage& page, int wake_fd) noexcept;

// How many different processors the members of `pages` may run on.
int CountProcessors(const std::vector<const CellPage*>& pages);

}  // namespace everstep
