// checkpoint: a machine that stops at any moment loses no committed checkpoint, and what it was at
// is whole or absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

constexpr int kJobs = 1000;
constexpr int kLives = 4;

class Random {
 public:
  explicit Random(uint64_t seed) : key_(HashKey({seed, 77})) {}
  uint64_t Next() { return RandomAt(key_, k_++); }
  int Below(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }

 private:
  const uint64_t key_;
  uint64_t k_ = 0;
};

// A job that trains, checkpoints and dies again and again on one file system.
class Job {
 public:
  explicit Job(uint64_t seed) : random_(seed) {
    EXPECT_TRUE(fs_.CreateDirectories("/job").ok());
    EXPECT_TRUE(fs_.SyncDirectory("/").ok());
    options_ = {"/job/checkpoints", random_.Below(4), random_.Below(2) * 20, ""};
  }

  // From the start to the death of all: every operation may be the last.
  void Live() {
    const int before = fs_.changes();
    fs_.FailAfter(random_.Below(150));
    if (random_.Below(4) != 0) ++term_;  // else the same names once more
    DirectoryStore store(fs_, options_);
    bool alive = store.RemoveLeftovers().ok();
    for (int i = 0; alive && i < 4; ++i) {
      step_ += 10;
      const CheckpointId id = {step_, 0, {term_, 1}};
      const absl::Status status = Checkpoint(id);
      alive = status.ok();
      if (alive) committed_ = step_;
      commits_ += alive;
      if (!alive && random_.Below(2) == 0) store.Abandon(id);
    }
    deaths_in_work_ += !alive && fs_.changes() > before;
    if (random_.Below(2) == 0) {
      fs_.Crash();
    } else {
      fs_.CrashKeepingSome(random_.Next());
    }
  }

  // What the next life finds: what was committed last, or something newer that is whole.
  void Check() {
    TrainState got(-1);
    DirectoryStore store(fs_, options_);
    const int before = fs_.changes();
    const auto restored = store.Restore(got.tensors());
    const auto all = ListCheckpoints(fs_, options_.directory);
    ASSERT_TRUE(all.ok());
    // Also those that are being retired are whole or gone.
    for (const CheckpointInfo& info : *all) ASSERT_TRUE(info.opened.ok()) << info.opened;
    EXPECT_EQ(fs_.changes(), before) << "reading changes nothing";
    if (!restored.ok()) {
      ASSERT_EQ(restored.status().code(), absl::StatusCode::kNotFound) << restored.status();
      ASSERT_EQ(committed_, -1) << "a committed checkpoint is lost";
      ASSERT_TRUE(got == TrainState(-1));
      step_ = 0;
      return;
    }
    ASSERT_TRUE(restored->rejected.empty()) << restored->rejected[0].why;
    ASSERT_GE(restored->id.step, committed_);
    ASSERT_TRUE(got == TrainState(restored->id.step));
    newer_than_told_ += restored->id.step > committed_;
    step_ = committed_ = restored->id.step;
  }

  int commits_ = 0, deaths_in_work_ = 0, newer_than_told_ = 0;

 private:
  absl::Status Checkpoint(const CheckpointId& id) {
    const int writers = 1 + random_.Below(4);
    const int first = random_.Below(writers);
    for (int i = 0; i < writers; ++i) {
      TrainState state(id.step);
      DirectoryStore store(fs_, options_);
      EV_RETURN_IF_ERROR(store.SaveShard(id, state.tensors(), {(first + i) % writers, writers}));
    }
    TrainState state(id.step);
    return DirectoryStore(fs_, options_).Commit(id, state.tensors(), writers);
  }

  Random random_;
  MemoryFileSystem fs_;
  DirectoryStoreOptions options_;
  Step step_ = 0, committed_ = -1;
  int64_t term_ = 0;
};

TEST(Crash, WhatWasCommittedIsThereAndWhatWasNotIsWholeOrAbsent) {
  log::Init(log::Level::kOff, "");
  int commits = 0, deaths = 0, newer = 0;
  for (uint64_t seed = 0; seed < kJobs; ++seed) {
    Job job(seed);
    for (int life = 0; life < kLives; ++life) {
      job.Live();
      job.Check();
      if (HasFatalFailure()) FAIL() << "job " << seed << ", life " << life;
    }
    commits += job.commits_;
    deaths += job.deaths_in_work_;
    newer += job.newer_than_told_;
  }
  // The test tests something: that many crashes were in the middle of the work, some between the
  // rename and the answer.
  EXPECT_GT(deaths, 2000);
  EXPECT_GT(commits, 2000);
  EXPECT_GT(newer, 20);
  RecordProperty("crashes", deaths);
  RecordProperty("commits", commits);
}

}  // namespace
}  // namespace everstep
