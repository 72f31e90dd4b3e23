// data: work ahead is bounded, in order, and never in the way.
#include "everstep/data/work_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "everstep/env/clock.h"

namespace everstep {
namespace {

constexpr Deadline kNever = Deadline::max();

// Batches that say which they are; makes none while the gate is shut.
class Maker {
 public:
  WorkAhead::Result Make(Step step, int r, const Cancel& cancel) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      made_.push_back({step, r});
      changed_.notify_all();
      while (!open_ && !cancel.IsSet()) changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    if (step == 13) return absl::DataLossError("thirteen");
    auto batch = std::make_shared<Batch>();
    batch->examples = step;
    batch->global_examples = r;
    return std::shared_ptr<const Batch>(std::move(batch));
  }
  WorkAhead::Make Function() {
    return [this](Step step, int r, const Cancel& cancel) { return Make(step, r, cancel); };
  }
  void Open(bool open) {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = open;
    changed_.notify_all();
  }
  void WaitForBegun(size_t n) {
    std::unique_lock<std::mutex> lock(mu_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return made_.size() >= n; }));
  }
  std::vector<std::pair<Step, int>> begun() {
    std::lock_guard<std::mutex> lock(mu_);
    return made_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = true;
  std::vector<std::pair<Step, int>> made_;
};

TEST(WorkAhead, MakesStepsAndReplicasInOrderAndNoMoreThanItsDepth) {
  Maker maker;
  WorkAhead ahead(1, 3, RealClock(), maker.Function());
  ahead.Expect({5, 100}, 2, 4);
  maker.WaitForBegun(3);
  SleepFor(std::chrono::milliseconds(20));
  EXPECT_EQ(maker.begun(), (std::vector<std::pair<Step, int>>{{5, 2}, {5, 3}, {6, 2}}));
  Cancel cancel;
  auto batch = ahead.Take(5, 2, cancel, kNever);
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ((**batch)->examples, 5);
  EXPECT_EQ((**batch)->global_examples, 2);
  maker.WaitForBegun(4);
  EXPECT_EQ(maker.begun().back(), (std::pair<Step, int>(6, 3)));
}

TEST(WorkAhead, WhatNobodyHasBegunIsLeftToTheCallerAndNotMadeTwice) {
  Maker maker;
  maker.Open(false);
  WorkAhead ahead(1, 4, RealClock(), maker.Function());
  Cancel cancel;
  ahead.Expect({0, 10}, 0, 1);
  maker.WaitForBegun(1);  // step 0 is being made
  EXPECT_FALSE(ahead.Take(1, 0, cancel, kNever).has_value());
  maker.Open(true);
  maker.WaitForBegun(2);
  EXPECT_EQ(maker.begun()[1].first, 2);
}

TEST(WorkAhead, StepsGoneByGiveTheirPlacesBack) {
  Maker maker;
  WorkAhead ahead(1, 2, RealClock(), maker.Function());
  Cancel cancel;
  ahead.Expect({0, 100}, 0, 1);
  maker.WaitForBegun(2);
  EXPECT_FALSE(ahead.Take(50, 0, cancel, kNever).has_value());
  maker.WaitForBegun(4);
  EXPECT_EQ(maker.begun().back().first, 52);
}

TEST(WorkAhead, AStepGoneByWhileItIsBeingMadeGivesItsPlaceBackToo) {
  Maker maker;
  maker.Open(false);
  WorkAhead ahead(1, 1, RealClock(), maker.Function());
  Cancel cancel;
  ahead.Expect({0, 100}, 0, 1);
  maker.WaitForBegun(1);
  EXPECT_FALSE(ahead.Take(50, 0, cancel, kNever).has_value());
  maker.Open(true);
  maker.WaitForBegun(2);
  EXPECT_EQ(maker.begun().back().first, 51);
}

TEST(WorkAhead, ErrorsComeOnceAndOnlyForTheirBatch) {
  Maker maker;
  WorkAhead ahead(1, 2, RealClock(), maker.Function());
  Cancel cancel;
  ahead.Expect({13, 15}, 0, 1);
  maker.WaitForBegun(2);
  const auto bad = ahead.Take(13, 0, cancel, kNever);
  ASSERT_TRUE(bad.has_value());
  EXPECT_EQ(bad->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(ahead.Take(13, 0, cancel, kNever).has_value());
  EXPECT_TRUE(ahead.Take(14, 0, cancel, kNever)->ok());
}

TEST(WorkAhead, WaitingEndsAtTheDeadlineAndOnCancel) {
  Maker maker;
  maker.Open(false);
  WorkAhead ahead(1, 2, RealClock(), maker.Function());
  Cancel cancel;
  ahead.Expect({0, 2}, 0, 1);
  maker.WaitForBegun(1);
  const auto late = ahead.Take(0, 0, cancel, After(RealClock(), std::chrono::milliseconds(30)));
  EXPECT_EQ(late->status().code(), absl::StatusCode::kDeadlineExceeded);
  std::thread canceller([&] {
    SleepFor(std::chrono::milliseconds(30));
    cancel.Set();
  });
  EXPECT_EQ(ahead.Take(0, 0, cancel, kNever)->status().code(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST(WorkAhead, ABatchBegunUnderAnOlderWindowIsNotWaitedForInVain) {
  Maker maker;
  maker.Open(false);
  WorkAhead ahead(1, 2, RealClock(), maker.Function());
  Cancel cancel;
  ahead.Expect({0, 2}, 0, 1);
  maker.WaitForBegun(1);
  ahead.Expect({7, 9}, 0, 1);
  std::thread opener([&] {
    SleepFor(std::chrono::milliseconds(30));
    maker.Open(true);
  });
  const auto batch = ahead.Take(0, 0, cancel, kNever);
  EXPECT_TRUE(!batch.has_value() || batch->ok());
  opener.join();
}

TEST(WorkAhead, EndsWhileBatchesAreBeingMade) {
  Maker maker;
  maker.Open(false);
  WorkAhead ahead(3, 8, RealClock(), maker.Function());
  ahead.Expect({0, 100}, 0, 4);
  maker.WaitForBegun(3);
}

}  // namespace
}  // namespace everstep
