// engine: rules of steps, views, checkpoints and the end, with several engines in one process.
#include "everstep/engine/engine.h"

#include <gtest/gtest.h>

#include "everstep/engine/test_cluster.h"

namespace everstep {
namespace {

using namespace test_world;

uint64_t FinalDigest(int workers, int replicas, Step end, std::optional<Fault> fault = {}) {
  Cluster cluster(workers, replicas);
  cluster.world.fault = fault;
  cluster.Train(end);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(w->status.ok()) << w->status;
    EXPECT_EQ(w->code, 0);
    // Exactly once each, in order.
    std::vector<Step> want;
    for (Step s = 0; s < end; ++s) want.push_back(s);
    EXPECT_EQ(w->applied, want);
  }
  EXPECT_EQ(cluster.coordinator.view_, fault ? 2 : 1);
  EXPECT_EQ(cluster.disk->committed.size(), 1u);
  return cluster.disk->committed[end].digest;
}

TEST(Engine, AnyNumberOfWorkersGivesTheSameBits) {
  for (int replicas : {1, 4, 6}) {
    const uint64_t want = FinalDigest(1, replicas, 50);
    for (int workers = 2; workers <= replicas; ++workers) {
      EXPECT_EQ(FinalDigest(workers, replicas, 50), want) << replicas << " on " << workers;
    }
  }
}

TEST(Engine, AStepCutShortIsRunAgainInTheNextViewWithTheSameBits) {
  const uint64_t want = FinalDigest(1, 6, 20);
  for (Round round : {0, 1, 9}) {
    for (int bucket : {0, 1, 2}) {
      EXPECT_EQ(FinalDigest(3, 6, 20, Fault{1, 1, round, bucket}), want);
    }
  }
}

TEST(Engine, DifferentStatesAreFoundAtTheNextComparison) {
  Cluster cluster(2, 2);
  TestWorker& odd = *cluster.all[1];
  odd.on_step = [&](Step step) {
    if (step == 6) odd.learner.weights()[3] += 1;  // a machine that computed other bits
  };
  cluster.Train(20);
  EXPECT_LE(cluster.all[0]->engine->step(), 9);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(absl::IsInternal(w->status)) << w->status;
  }
  EXPECT_TRUE(cluster.disk->committed.empty());
}

TEST(Engine, WorkersWhoseProgramsMakeDifferentCallsAreRefusedAtTheFirstStep) {
  Cluster cluster(2, 2);
  cluster.Each([&](TestWorker& w) {
    TrainPlan plan;
    plan.source = &w.source;
    plan.end = &w == cluster.all[0].get() ? 10 : 20;  // as with other --epochs
    w.status = w.engine->Train(plan);
    EXPECT_TRUE(absl::IsFailedPrecondition(w.status)) << w.status;
    EXPECT_EQ(w.engine->step(), 0);
    w.code = w.engine->Leave(LeaveReason::kFailed, 78, std::string(w.status.message()));
  });
}

TEST(Engine, AViewWithAnotherNumberOfReplicasIsRefused) {
  World world;
  MiniCoordinator coordinator(1, 4);
  MemoryDisk disk;
  TestWorker worker(world, coordinator, disk, 0, 7, {});
  TrainPlan plan;
  plan.source = &worker.source;
  plan.end = 3;
  EXPECT_TRUE(absl::IsFailedPrecondition(worker.engine->Train(plan)));
  EXPECT_EQ(worker.engine->step(), 0);
}

TEST(Engine, OneToldToLeaveMakesAllStopAfterTheSameStepWithACheckpointOfIt) {
  Cluster cluster(3, 3);
  cluster.all[2]->leave_after = 7;
  cluster.Train(1000);
  const Step at = cluster.all[0]->engine->step();
  EXPECT_EQ(at, 9) << "the wish is heard in the step after it";
  for (auto& w : cluster.all) {
    EXPECT_TRUE(absl::IsCancelled(w->status)) << w->status;
    EXPECT_EQ(w->engine->step(), at);
    EXPECT_EQ(w->code, 143);
  }
  EXPECT_EQ(cluster.disk->committed.count(at), 1u);
}

TEST(Engine, AStopWithAnotherCodeCutsTheStepShort) {
  Cluster cluster(2, 2);
  cluster.coordinator.Tell(Stop{9, {}, "worker:7 failed"});
  cluster.Train(1000);
  for (auto& w : cluster.all) {
    EXPECT_EQ(w->code, 9);
    EXPECT_LT(w->engine->step(), 1000);
  }
}

TEST(Engine, EvaluationSumsOverAllReplicasAndLeavesTheStateAlone) {
  std::vector<double> want;
  for (int workers : {1, 2, 4}) {
    Cluster cluster(workers, 4);
    std::vector<EvaluationSums> got(workers);
    cluster.Each([&](TestWorker& w) {
      const int i = w.engine.get() == cluster.all[0]->engine.get() ? 0 : 1;
      auto sums = w.engine->Evaluate(w.source, 7);
      ASSERT_TRUE(sums.ok()) << sums.status();
      if (i == 0) got[0] = *sums;
      w.code = w.engine->Leave(LeaveReason::kFinished, 0, "");
    });
    EXPECT_EQ(got[0].examples, 42);
    EXPECT_EQ(got[0].sums[1], 28);  // 7 steps of 4 replicas
    EXPECT_EQ(cluster.all[0]->engine->step(), 0);
    if (workers == 1) want = got[0].sums;
    EXPECT_EQ(got[0].sums, want);
  }
}

}  // namespace
}  // namespace everstep
