// data: the order of an epoch is a bijection, differs between epochs, and stays local.
#include "everstep/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace everstep {
namespace {

std::vector<int64_t> OrderOf(uint64_t seed, int64_t epoch, int64_t n,
                             const ShuffleOptions& options) {
  EpochOrder order(seed, epoch, n, options);
  std::vector<int64_t> records;
  for (int64_t i = 0; i < n; ++i) records.push_back(order.RecordAt(i));
  return records;
}

TEST(Order, EveryRecordComesExactlyOnceAnEpoch) {
  for (const int64_t n : {1, 2, 3, 7, 31, 32, 33, 64, 100, 1000, 4099}) {
    for (const int64_t block : {1, 2, 7, 32, 5000}) {
      for (const int64_t window : {1, 2, 3, 100}) {
        for (int64_t epoch = 0; epoch < 3; ++epoch) {
          std::vector<int64_t> records = OrderOf(5, epoch, n, {true, block, window});
          std::sort(records.begin(), records.end());
          for (int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(records[i], i) << "n " << n << " block " << block << " window " << window;
          }
        }
      }
    }
  }
}

TEST(Order, APositionDoesNotDependOnWhatWasAskedBefore) {
  const ShuffleOptions options = {true, 8, 4};
  const std::vector<int64_t> forward = OrderOf(1, 2, 500, options);
  EpochOrder order(1, 2, 500, options);
  for (int64_t i = 499; i >= 0; --i) ASSERT_EQ(order.RecordAt(i), forward[i]);
  for (int64_t i = 0; i < 500; ++i)
    ASSERT_EQ(EpochOrder(1, 2, 500, options).RecordAt(i), forward[i]);
}

TEST(Order, SeedsAndEpochsGiveOrdersOfTheirOwn) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) orders.insert(OrderOf(seed, epoch, 100, {}));
  }
  EXPECT_EQ(orders.size(), 100u);
}

TEST(Order, WithoutShuffleItIsThatOfTheFiles) {
  const std::vector<int64_t> records = OrderOf(3, 4, 100, {false, 8, 4});
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(records[i], i);
}

TEST(Order, ASmallDataSetIsShuffledAsAWhole) {
  // Over many epochs each record comes at each tenth of the epoch about equally often, the records
  // at the ends included.
  constexpr int64_t kRecords = 1000, kEpochs = 2000;
  std::vector<std::vector<int>> counts(kRecords, std::vector<int>(10));
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int64_t> records = OrderOf(9, epoch, kRecords, {});
    for (int64_t i = 0; i < kRecords; ++i) ++counts[records[i]][i * 10 / kRecords];
  }
  const double expected = kEpochs / 10.0, sigma = std::sqrt(expected * 0.9);
  for (int64_t record = 0; record < kRecords; ++record) {
    for (int tenth = 0; tenth < 10; ++tenth) {
      ASSERT_NEAR(counts[record][tenth], expected, 6 * sigma) << record << " in " << tenth;
    }
  }
}

TEST(Order, ReadsStayInsideAWindowOfBlocks) {
  const int64_t block = 16, window = 4, n = 100 * block;
  const std::vector<int64_t> records = OrderOf(2, 0, n, {true, block, window});
  for (int64_t begin = 0; begin < n; begin += block * window) {
    std::set<int64_t> blocks;
    for (int64_t i = begin; i < begin + block * window; ++i) blocks.insert(records[i] / block);
    // The rotation may cut each block of the order in two.
    EXPECT_LE(blocks.size(), static_cast<size_t>(2 * window));
  }
}

}  // namespace
}  // namespace everstep
