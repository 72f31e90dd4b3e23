// engine: rules of checkpoints: written beside training, agreed on, restored, given to others.
#include <gtest/gtest.h>

#include "everstep/engine/engine.h"
#include "everstep/engine/test_cluster.h"

namespace everstep {
namespace {

using namespace test_world;

uint64_t Undisturbed(int replicas, Step end) {
  Cluster cluster(1, replicas);
  cluster.Train(end);
  return cluster.disk->committed.at(end).digest;
}

std::vector<Step> Steps(const MemoryDisk& disk) {
  std::vector<Step> steps;
  for (const auto& [step, checkpoint] : disk.committed) steps.push_back(step);
  return steps;
}

TEST(EngineCheckpoint, AllWorkersWriteAShardAndOneTellsOfTheCommit) {
  Cluster cluster(3, 3);
  cluster.Train(20, 10);
  EXPECT_EQ(Steps(*cluster.disk), (std::vector<Step>{10, 20}));
  for (const auto& [name, shards] : cluster.disk->shards) EXPECT_EQ(shards.size(), 3u) << name;
  EXPECT_EQ(cluster.coordinator.said_, (std::vector<Step>{10, 20}));
}

TEST(EngineCheckpoint, AFullDiskDoesNotStopTrainingAndTheNextOneSucceedsWhenThereIsRoom) {
  Cluster cluster(2, 2);
  cluster.disk->full = true;
  cluster.all[0]->on_step = [&](Step step) {
    std::lock_guard lock(cluster.disk->mutex);
    if (step == 15) cluster.disk->full = false;
    SleepFor(std::chrono::milliseconds(2));
  };
  cluster.Train(40, 10);
  for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
  EXPECT_EQ(Steps(*cluster.disk), (std::vector<Step>{20, 30, 40}));
  ASSERT_GE(cluster.coordinator.notes_.size(), 1u);
  EXPECT_EQ(cluster.coordinator.notes_[0].kind, "checkpoint_failed");
  EXPECT_EQ(cluster.coordinator.notes_[0].step, 10);
  EXPECT_NE(cluster.coordinator.notes_[0].text.find("disk full"), std::string::npos);
  EXPECT_GE(cluster.disk->abandoned, 1);
}

TEST(EngineCheckpoint, WithoutRoomForTheLastOneTheJobIsNotDone) {
  Cluster cluster(2, 2);
  cluster.disk->full = true;
  cluster.Train(20, 5);
  for (auto& w : cluster.all) {
    EXPECT_EQ(w->engine->step(), 20);
    EXPECT_TRUE(absl::IsResourceExhausted(w->status)) << w->status;
  }
}

TEST(EngineCheckpoint, ADiskThatHangsStopsNoStep) {
  Cluster cluster(2, 2);
  cluster.disk->hangs = true;
  std::thread later;
  TimePoint reached;
  cluster.all[0]->on_step = [&](Step step) {
    if (step == 0) {
      later = std::thread([&] {
        SleepFor(std::chrono::milliseconds(1000));
        std::lock_guard lock(cluster.disk->mutex);
        cluster.disk->hangs = false;
        cluster.disk->changed.notify_all();
      });
    }
    if (step == 49) reached = RealClock().Now();
    SleepFor(std::chrono::milliseconds(5));
  };
  const TimePoint began = RealClock().Now();
  cluster.Train(50, 10);
  later.join();
  EXPECT_LT(reached - began, std::chrono::milliseconds(900)) << "while the disk still hung";
  for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
  EXPECT_EQ(Steps(*cluster.disk), (std::vector<Step>{10, 50}))
      << "those due while one was being written are left out";
  ASSERT_GE(cluster.coordinator.notes_.size(), 1u);
  EXPECT_EQ(cluster.coordinator.notes_[0].kind, "storage_slow");
}

TEST(EngineCheckpoint, CopiesThatDifferAreNeverCommitted) {
  Cluster cluster(2, 2, std::make_shared<MemoryDisk>(), {}, /*digest_every=*/0);
  TestWorker& odd = *cluster.all[1];
  odd.on_step = [&](Step step) {
    if (step == 9) odd.learner.weights()[3] += 1;  // in the copy of step 10, not before
  };
  cluster.Train(1000, 10);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(absl::IsInternal(w->status)) << w->status;
    EXPECT_LT(w->engine->step(), 1000);
  }
  EXPECT_TRUE(cluster.disk->committed.empty());
}

TEST(EngineCheckpoint, ByTimeTheCommitterDecidesForAll) {
  Cluster cluster(2, 2, std::make_shared<MemoryDisk>(), std::chrono::milliseconds(50));
  for (auto& w : cluster.all) {
    w->on_step = [](Step) { SleepFor(std::chrono::milliseconds(5)); };
  }
  cluster.Train(50);
  EXPECT_GE(cluster.disk->committed.size(), 3u);
  EXPECT_LE(cluster.disk->committed.size(), 12u);
}

TEST(EngineCheckpoint, AnotherNumberOfWorkersGoesOnFromItToTheSameBits) {
  const uint64_t want = Undisturbed(4, 60);
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(3, 4, disk).Train(23);
  Cluster(1, 4, disk).Train(41);
  Cluster last(4, 4, disk);
  last.Train(60);
  for (auto& w : last.all) {
    EXPECT_TRUE(w->status.ok()) << w->status;
    EXPECT_EQ(w->applied.front(), 41);
  }
  EXPECT_EQ(disk->committed.at(60).digest, want);
}

TEST(EngineCheckpoint, AWorkerThatCannotReadTheNewestTakesItFromAnother) {
  const uint64_t want = Undisturbed(4, 60);
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(2, 4, disk).Train(40, 20);
  for (int donor : {0, 1, 2}) {
    auto copy = std::make_shared<MemoryDisk>();
    copy->committed = disk->committed;
    Cluster cluster(3, 4, copy);
    for (int w = 0; w < 3; ++w) {
      if (w != donor) cluster.all[w]->store->unreadable = {40};
    }
    cluster.Train(60);
    for (auto& w : cluster.all) {
      EXPECT_TRUE(w->status.ok()) << w->status;
      EXPECT_EQ(w->applied.front(), 40);
    }
    EXPECT_EQ(copy->committed.at(60).digest, want);
    ASSERT_EQ(cluster.coordinator.notes_.size(), 2u);
    EXPECT_EQ(cluster.coordinator.notes_[0].kind, "checkpoint_rejected");
    EXPECT_EQ(cluster.coordinator.notes_[0].step, 40);
  }
}

TEST(EngineCheckpoint, AStateThatDoesNotHaveTheDigestThatWasSaidIsNotTaken) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(2, 4, disk).Train(40, 20);
  Cluster cluster(2, 4, disk);
  cluster.all[1]->store->unreadable = {40};
  cluster.coordinator.lies_once_ = true;
  cluster.Train(60);
  for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
  EXPECT_EQ(cluster.coordinator.view_, 2) << "the first view was not linked";
  EXPECT_EQ(disk->committed.at(60).digest, Undisturbed(4, 60));
}

TEST(EngineCheckpoint, OneThatTakesTheStateOfTheLastStepTrainsNoStepMore) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(1, 2, disk).Train(10, 5);
  Cluster cluster(2, 2, disk);
  cluster.all[1]->store->unreadable = {10};
  cluster.Train(10);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(w->status.ok()) << w->status;
    EXPECT_TRUE(w->applied.empty());
    EXPECT_EQ(w->engine->step(), 10);
  }
}

TEST(EngineCheckpoint, ANewcomerWithoutAnyTakesTheStateFromOneWhoHasOne) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(1, 2, disk).Train(10);
  Cluster cluster(2, 2, disk);
  auto nothing = std::make_shared<MemoryDisk>();
  cluster.all[1]->store->reads = nothing.get();
  cluster.Train(30);
  for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
  EXPECT_EQ(disk->committed.at(30).digest, Undisturbed(2, 30));
}

TEST(EngineCheckpoint, WithCheckpointsButNoneThatIsGoodTheJobDoesNotBeginAnew) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(2, 2, disk).Train(10);
  Cluster cluster(2, 2, disk);
  for (auto& w : cluster.all) w->store->unreadable = {10};
  cluster.Train(30);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(absl::IsDataLoss(w->status)) << w->status;
    EXPECT_TRUE(w->applied.empty());
  }
}

TEST(EngineCheckpoint, AProgramWithOtherDataOrFewerStepsIsRefused) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(2, 2, disk).Train(20);
  Cluster other(1, 2, disk);
  other.all[0]->source.name = 2;
  other.Train(40);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.all[0]->status)) << other.all[0]->status;
  Cluster fewer(2, 2, disk);
  fewer.Train(15);
  for (auto& w : fewer.all) {
    EXPECT_TRUE(absl::IsFailedPrecondition(w->status)) << w->status;
    EXPECT_TRUE(w->applied.empty());
  }
  Cluster more(1, 2, disk);
  more.Train(25);
  EXPECT_TRUE(more.all[0]->status.ok()) << more.all[0]->status;
}

TEST(EngineCheckpoint, OneOfAnotherTrainingIsPassedOverForAnOlderOneOfThis) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(1, 2, disk).Train(10);
  auto other = std::make_shared<MemoryDisk>();
  Cluster foreign(1, 2, other);
  foreign.all[0]->source.name = 2;
  foreign.Train(20);
  disk->committed[20] = other->committed.at(20);
  Cluster cluster(2, 2, disk);
  cluster.Train(30);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(w->status.ok()) << w->status;
    EXPECT_EQ(w->applied.front(), 10);
  }
  EXPECT_EQ(disk->committed.at(30).digest, Undisturbed(2, 30));
  EXPECT_EQ(cluster.coordinator.notes_.size(), 2u);
}

TEST(EngineCheckpoint, TheSecondFitIsComparedWithTheSecondFit) {
  auto disk = std::make_shared<MemoryDisk>();
  const auto fit_twice = [&](Step first, Step second) {
    Cluster cluster(1, 2, disk);
    TestWorker& w = *cluster.all[0];
    HashSource next;
    next.name = 9;
    TrainPlan plan;
    plan.source = &w.source;
    plan.end = first;
    w.status = w.engine->Train(plan);
    plan.source = &next;
    plan.begin = first;
    plan.end = second;
    if (w.status.ok()) w.status = w.engine->Train(plan);
    if (w.status.ok()) w.status = w.engine->Checkpoint();
    w.engine->Leave(LeaveReason::kFinished, 0, "");
    return w.status;
  };
  EXPECT_TRUE(fit_twice(10, 20).ok());
  EXPECT_TRUE(fit_twice(10, 30).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(fit_twice(40, 50))) << "the first one was shorter";
}

TEST(EngineCheckpoint, AFinishedStateIsNotWrittenAgain) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(2, 2, disk).Train(10);
  const std::string before = disk->committed.at(10).id.DirectoryName();
  Cluster cluster(2, 2, disk);
  cluster.Train(10);
  for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
  EXPECT_TRUE(cluster.coordinator.said_.empty());
}

TEST(EngineCheckpoint, ARewindBeginsAHistoryThatIsSavedAtOnce) {
  auto disk = std::make_shared<MemoryDisk>();
  Cluster(1, 2, disk).Train(40, 20);
  Cluster cluster(2, 2, disk);
  for (auto& w : cluster.all) w->store->only = 20;
  cluster.Train(30);
  for (auto& w : cluster.all) EXPECT_EQ(w->applied.front(), 20);
  EXPECT_EQ(disk->committed.at(30).id.history, 1);
  ASSERT_GE(cluster.coordinator.said_.size(), 2u);
  EXPECT_LE(cluster.coordinator.said_[0], 22);
  EXPECT_EQ(disk->committed.at(30).digest, Undisturbed(2, 30));
}

TEST(EngineCheckpoint, OneThatIsBeingWrittenWhenItsViewEndsIsNotCommittedInTheNext) {
  Cluster cluster(2, 2);
  cluster.disk->hangs = true;
  cluster.world.fault = Fault{1, 1, 12, 1};
  cluster.all[0]->on_step = [&](Step step) {
    SleepFor(std::chrono::milliseconds(2));
    if (step != 14) return;
    std::lock_guard lock(cluster.disk->mutex);
    cluster.disk->hangs = false;
    cluster.disk->changed.notify_all();
  };
  cluster.Train(40, 10);
  for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
  EXPECT_EQ(Steps(*cluster.disk), (std::vector<Step>{20, 30, 40}));
}

TEST(EngineCheckpoint, OneCutShortByAViewChangeIsGivenUpAndTheNextOneIsWritten) {
  for (Round round : {10, 11, 12, 13}) {
    Cluster cluster(2, 2);
    cluster.world.fault = Fault{1, 1, round, 1};
    cluster.Train(30, 10);
    for (auto& w : cluster.all) EXPECT_TRUE(w->status.ok()) << w->status;
    EXPECT_EQ(cluster.disk->committed.count(30), 1u);
    EXPECT_EQ(cluster.disk->committed.at(30).digest, Undisturbed(2, 30));
  }
}

}  // namespace
}  // namespace everstep
