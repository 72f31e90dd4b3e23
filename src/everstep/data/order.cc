// data: the block shuffle.
#include "everstep/data/order.h"

#include <algorithm>
#include <utility>

namespace everstep {
namespace {

constexpr int64_t kMaxTable = 1 << 16;

uint64_t Key(uint64_t seed, RandomPurpose purpose, int64_t epoch, int64_t k) {
  return HashKey({seed, static_cast<uint64_t>(purpose), static_cast<uint64_t>(epoch),
                  static_cast<uint64_t>(k)});
}

}  // namespace

EpochOrder::EpochOrder(uint64_t seed, int64_t epoch, int64_t n, const ShuffleOptions& options)
    : window_key_(Key(seed, RandomPurpose::kWindowOrder, epoch, 0)),
      n_(n),
      shuffle_(options.shuffle),
      block_(std::max<int64_t>(options.block_records, 1)),
      full_blocks_(n / block_),
      window_size_(block_ * std::clamp<int64_t>(options.window_blocks, 1,
                                                std::max<int64_t>(n / block_ + 1, 1))),
      rotation_(n == 0 ? 0
                       : static_cast<int64_t>(Key(seed, RandomPurpose::kBlockOrder, epoch, 1) %
                                              static_cast<uint64_t>(n))),
      blocks_(Key(seed, RandomPurpose::kBlockOrder, epoch, 0), static_cast<uint64_t>(full_blocks_)),
      in_window_(0, 0) {
  if (!shuffle_ || full_blocks_ > kMaxTable) return;
  auto table = std::make_shared<std::vector<uint32_t>>(static_cast<size_t>(full_blocks_));
  for (size_t i = 0; i < table->size(); ++i) (*table)[i] = static_cast<uint32_t>(blocks_.At(i));
  block_table_ = std::move(table);
}

int64_t EpochOrder::RecordAt(int64_t position) {
  if (!shuffle_) return position;
  const int64_t window = position / window_size_;
  const int64_t begin = window * window_size_;
  if (window != window_) {
    window_ = window;
    in_window_ = KeyedPermutation(HashKey({window_key_, static_cast<uint64_t>(window)}),
                                  static_cast<uint64_t>(std::min(window_size_, n_ - begin)));
  }
  int64_t at = begin + static_cast<int64_t>(in_window_.At(static_cast<uint64_t>(position - begin)));
  // The tail, shorter than a block, stays last among the blocks; the rotation makes it other
  // records each epoch.
  const int64_t block = at / block_;
  if (block < full_blocks_) {
    const uint64_t to = block_table_ != nullptr ? (*block_table_)[static_cast<size_t>(block)]
                                                : blocks_.At(static_cast<uint64_t>(block));
    at = static_cast<int64_t>(to) * block_ + at % block_;
  }
  at += rotation_;
  return at < n_ ? at : at - n_;
}

}  // namespace everstep
