// data: the order of the records of an epoch, computed record by record, never stored.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "everstep/base/keyed_random.h"

namespace everstep {

// A block shuffle: blocks of consecutive records are permuted, then the records inside windows of
// consecutive permuted blocks. Reads stay near each other while every epoch has an order of its
// own; a data set of at most block_records * window_blocks records is shuffled as a whole.
struct ShuffleOptions {
  bool shuffle = true;  // false: the order of the files
  int64_t block_records = 32;
  int64_t window_blocks = 2048;
};

// The order of one epoch: a pure function of (seed, epoch, n, options), a bijection of [0, n).
// One thread at a time; copies are independent and cheap. Making one computes the order of at most
// 64 Ki blocks ahead; that of more blocks is computed as it is asked for.
class EpochOrder {
 public:
  EpochOrder(uint64_t seed, int64_t epoch, int64_t n, const ShuffleOptions& options);

  // The record at `position`, both in [0, n). Fastest for positions that rise.
  int64_t RecordAt(int64_t position);

 private:
  uint64_t window_key_;
  int64_t n_;
  bool shuffle_;
  int64_t block_;        // records of a block
  int64_t full_blocks_;  // the records after them are the tail
  int64_t window_size_;  // records of a window
  int64_t rotation_;     // record numbers are turned by this, so the tail differs each epoch
  KeyedPermutation blocks_;
  std::shared_ptr<const std::vector<uint32_t>> block_table_;  // blocks_, unless there are many
  int64_t window_ = -1;                                       // the one in_window_ is for
  KeyedPermutation in_window_;
};

}  // namespace everstep
