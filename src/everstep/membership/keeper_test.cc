// membership: the keeper of a stream, with streams that are threads: no gRPC, so that
// ThreadSanitizer sees all of it.
#include "everstep/membership/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

namespace everstep {
namespace {

using ::testing::ElementsAre;

constexpr Duration kLong = std::chrono::seconds(20);

using Callbacks = StreamCallbacks<int>;

// The other end: hears what is said on the newest stream, and can break it.
class FakeEnd {
 public:
  class Stream final : public ControlStream<int> {
   public:
    Stream(FakeEnd* end, Callbacks callbacks) : end_(end), callbacks_(std::move(callbacks)) {
      thread_ = std::thread([this] { Run(); });
    }
    ~Stream() override {
      Cancel();
      thread_.join();
      end_->Forget(this);
    }
    void Send(int message) override { end_->Hear(this, message); }
    void Finish() override { Cancel(); }
    void Cancel() override {
      std::lock_guard<std::mutex> lock(mutex_);
      cancelled_ = true;
      changed_.notify_all();
    }

   private:
    void Run() {
      end_->Begin(this);
      callbacks_.opened();
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return cancelled_; });
      lock.unlock();
      callbacks_.closed(absl::UnavailableError("broken"));
    }
    FakeEnd* const end_;
    const Callbacks callbacks_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool cancelled_ = false;
    std::thread thread_;
  };

  absl::StatusOr<std::unique_ptr<ControlStream<int>>> Open(Callbacks callbacks) {
    ++opened;
    return std::unique_ptr<ControlStream<int>>(new Stream(this, std::move(callbacks)));
  }
  void Break() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (now_ != nullptr) now_->Cancel();
  }
  std::vector<int> heard() {
    std::lock_guard<std::mutex> lock(mutex_);
    return heard_;
  }
  std::atomic<int> opened{0};

 private:
  void Begin(Stream* stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    now_ = stream;
    heard_.clear();
  }
  void Forget(Stream* stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (now_ == stream) now_ = nullptr;
  }
  void Hear(Stream* stream, int message) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (now_ == stream) heard_.push_back(message);
  }
  std::mutex mutex_;
  Stream* now_ = nullptr;
  std::vector<int> heard_;
};

Keeper<int, int>::Hooks HooksFor(FakeEnd* end) {
  Keeper<int, int>::Hooks hooks;
  hooks.open = [end](Callbacks callbacks) { return end->Open(std::move(callbacks)); };
  hooks.on_open = [] { return std::vector<int>(); };
  return hooks;
}

// Until `heard` is what the newest stream has heard.
bool Eventually(FakeEnd& end, const std::vector<int>& heard) {
  const Deadline deadline = After(RealClock(), kLong);
  while (end.heard() != heard) {
    if (RealClock().Now() > deadline) return false;
    SleepFor(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(Keeper, WhatIsSaidWhileStreamsBreakIsHeardOnceAndInOrder) {
  FakeEnd end;
  std::vector<int> remembered;  // under the keeper's lock
  auto hooks = HooksFor(&end);
  hooks.on_open = [&] { return remembered; };
  Keeper<int, int> keeper("there", hooks, RealClock());
  ASSERT_TRUE(keeper.Start(kLong).ok());
  std::atomic<bool> stop{false};
  std::thread breaker([&] {
    while (!stop) {
      end.Break();
      SleepFor(std::chrono::milliseconds(3));
    }
  });
  constexpr int kCount = 300;
  for (int i = 0; i < kCount; ++i) {
    keeper.Say(i, [&] { remembered.push_back(i); });
    SleepFor(std::chrono::milliseconds(1));
  }
  stop = true;
  breaker.join();
  std::vector<int> all(kCount);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_TRUE(Eventually(end, all));
  EXPECT_GT(end.opened, 1);
}

TEST(Keeper, TheFirstWordsComeBeforeAnythingElse) {
  FakeEnd end;
  auto hooks = HooksFor(&end);
  hooks.on_open = [] { return std::vector<int>{7, 8}; };
  Keeper<int, int> keeper("there", hooks, RealClock());
  ASSERT_TRUE(keeper.Start(kLong).ok());
  keeper.Say(9, [] {});
  EXPECT_THAT(end.heard(), ElementsAre(7, 8, 9));
}

TEST(Keeper, AwayIsMeasuredFromTheLossToTheReturn) {
  FakeEnd end;
  std::atomic<bool> there{true};
  auto hooks = HooksFor(&end);
  hooks.open = [&](Callbacks callbacks) -> absl::StatusOr<std::unique_ptr<ControlStream<int>>> {
    if (!there) return absl::UnavailableError("nobody");
    return end.Open(std::move(callbacks));
  };
  Keeper<int, int> keeper("there", hooks, RealClock());
  ASSERT_TRUE(keeper.Start(kLong).ok());
  EXPECT_EQ(keeper.AwayFor(), Duration(0));
  there = false;
  end.Break();
  const Deadline deadline = After(RealClock(), kLong);
  while (keeper.AwayFor() < std::chrono::milliseconds(100) && RealClock().Now() < deadline) {
    SleepFor(std::chrono::milliseconds(5));
  }
  EXPECT_GE(keeper.AwayFor(), std::chrono::milliseconds(100));
  there = true;
  while (keeper.AwayFor() > Duration(0) && RealClock().Now() < deadline) {
    SleepFor(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(keeper.AwayFor(), Duration(0));
}

TEST(Keeper, BeatsComeOnlyWhileAStreamIsOpen) {
  FakeEnd end;
  std::atomic<int> beats{0};
  auto hooks = HooksFor(&end);
  hooks.on_beat = [&] { ++beats; };
  hooks.beat_interval = std::chrono::milliseconds(5);
  Keeper<int, int> keeper("there", hooks, RealClock());
  EXPECT_EQ(beats, 0);
  ASSERT_TRUE(keeper.Start(kLong).ok());
  const Deadline deadline = After(RealClock(), kLong);
  while (beats < 3 && RealClock().Now() < deadline) SleepFor(std::chrono::milliseconds(2));
  EXPECT_GE(beats, 3);
  keeper.Retire();
  SleepFor(std::chrono::milliseconds(50));
  const int after = beats;
  SleepFor(std::chrono::milliseconds(50));
  EXPECT_EQ(beats, after);
  EXPECT_EQ(end.opened, 1);  // a retired keeper opens no other
}

TEST(Keeper, ARefusalIsNotTriedAgain) {
  auto hooks = Keeper<int, int>::Hooks();
  int tries = 0;
  hooks.open = [&](Callbacks) -> absl::StatusOr<std::unique_ptr<ControlStream<int>>> {
    ++tries;
    return absl::PermissionDeniedError("another secret");
  };
  Keeper<int, int> keeper("there", hooks, RealClock());
  const absl::Status status = keeper.Start(kLong);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_EQ(ExitCodeFor(status), kExitConfiguration);
  EXPECT_EQ(tries, 1);
}

}  // namespace
}  // namespace everstep
