// engine: rules of steps, views, checkpoints and the end, with several engines in one process.
#include "everstep/engine/engine.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "everstep/engine/test_world.h"
#include "everstep/env/clock.h"

namespace everstep {
namespace {

using namespace test_world;

// One worker with all its parts.
struct TestWorker {
  TestWorker(World& world, MiniCoordinator& coordinator, int index, int replicas)
      : collectives(world), control(coordinator, index), phases(RealClock()) {
    EngineParts parts{&learner, &collectives, &control, &store, &RealClock(), &phases, &probe};
    EngineOptions options;
    options.hello.task = {"worker", index};
    options.hello.incarnation = index + 1;
    options.num_replicas = replicas;
    options.seed = 42;
    options.digest_every = 3;
    engine = *Engine::Create(parts, options);
  }
  ChainLearner learner;
  WorldCollectives collectives;
  MiniLink control;
  MemoryStore store;
  PhaseBoard phases;
  Probe probe;
  HashSource source;
  std::unique_ptr<Engine> engine;
  absl::Status status;
  std::vector<Step> applied;
  Step leave_after = -1;
  int code = -1;
};

struct Cluster {
  Cluster(int workers, int replicas) : coordinator(workers, replicas) {
    for (int w = 0; w < workers; ++w) {
      all.push_back(std::make_unique<TestWorker>(world, coordinator, w, replicas));
    }
  }
  void Each(const std::function<void(TestWorker&)>& run) {
    std::vector<std::thread> threads;
    for (auto& worker : all) threads.emplace_back([&, w = worker.get()] { run(*w); });
    for (auto& thread : threads) thread.join();
  }
  void Train(Step end, Step checkpoint_every = 0) {
    Each([&](TestWorker& w) {
      TrainPlan plan;
      plan.source = &w.source;
      plan.end = end;
      plan.checkpoint_every = checkpoint_every;
      plan.after_step = [&w](const StepReport& report) {
        w.applied.push_back(report.step);
        if (report.step == w.leave_after) w.probe.TellToLeave();
      };
      w.status = w.engine->Train(plan);
      if (w.status.ok()) w.status = w.engine->Checkpoint();
      const bool told = absl::IsCancelled(w.status);
      w.code = w.engine->Leave(w.status.ok() ? LeaveReason::kFinished
                               : told        ? LeaveReason::kToldToLeave
                                             : LeaveReason::kFailed,
                               w.status.ok() ? 0
                               : told        ? 143
                                             : 70,
                               std::string(w.status.message()));
    });
  }
  World world;
  MiniCoordinator coordinator;
  std::vector<std::unique_ptr<TestWorker>> all;
};

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
  EXPECT_EQ(cluster.all[0]->store.committed.size(), 1u);
  return cluster.all[0]->store.committed[end];
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
  cluster.all[1]->learner.weights()[3] += 1;  // a machine that computed other bits
  cluster.Train(20);
  for (auto& w : cluster.all) {
    EXPECT_TRUE(absl::IsInternal(w->status)) << w->status;
    EXPECT_TRUE(w->store.committed.empty());
  }
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
  TestWorker worker(world, coordinator, 0, 7);
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
  EXPECT_EQ(cluster.all[0]->store.committed.count(at), 1u);
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

TEST(Engine, CheckpointsWhileTrainingAndGoesOnWhenTheDiskIsFull) {
  Cluster cluster(2, 2);
  cluster.Train(20, 5);
  EXPECT_EQ(cluster.all[0]->store.committed.size(), 4u);
  EXPECT_TRUE(cluster.all[1]->store.committed.empty()) << "only the committer writes";

  Cluster full(2, 2);
  full.all[0]->store.full = true;
  full.Train(20, 5);
  for (auto& w : full.all) {
    EXPECT_EQ(w->engine->step(), 20);
    EXPECT_TRUE(absl::IsResourceExhausted(w->status)) << "the last one must be kept";
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
