// engine: several engines in one process, each with all its parts, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "everstep/engine/engine.h"
#include "everstep/engine/test_world.h"
#include "everstep/env/clock.h"

namespace everstep::test_world {

// One worker with all its parts.
struct TestWorker {
  TestWorker(World& world, MiniCoordinator& coordinator, MemoryDisk& disk, int index, int replicas,
             Duration interval = {}, int digest_every = 3)
      : collectives(world),
        control(coordinator, index),
        store(std::make_shared<MemoryStore>(disk)),
        phases(RealClock()) {
    EngineParts parts{&learner, &collectives, &control, store, &RealClock(), &phases, &probe};
    EngineOptions options;
    options.hello.task = {"worker", index};
    options.hello.incarnation = index + 1;
    options.num_replicas = replicas;
    options.seed = 42;
    options.digest_every = digest_every;
    options.checkpoint_attempts = 1;
    options.checkpoint_interval = interval;
    options.slow_storage = std::chrono::milliseconds(100);
    engine = *Engine::Create(parts, options);
  }
  ChainLearner learner;
  WorldCollectives collectives;
  MiniLink control;
  std::shared_ptr<MemoryStore> store;
  PhaseBoard phases;
  Probe probe;
  HashSource source;
  std::unique_ptr<Engine> engine;
  absl::Status status;
  std::vector<Step> applied;
  Step leave_after = -1;
  std::function<void(Step)> on_step;  // after each
  int code = -1;
};

struct Cluster {
  Cluster(int workers, int replicas) : Cluster(workers, replicas, std::make_shared<MemoryDisk>()) {}
  // On a disk that another cluster has written to.
  Cluster(int workers, int replicas, std::shared_ptr<MemoryDisk> on, Duration interval = {},
          int digest_every = 3)
      : disk(std::move(on)), coordinator(workers, replicas) {
    for (int w = 0; w < workers; ++w) {
      all.push_back(std::make_unique<TestWorker>(world, coordinator, *disk, w, replicas, interval,
                                                 digest_every));
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
        if (w.on_step) w.on_step(report.step);
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
  std::shared_ptr<MemoryDisk> disk;
  World world;
  MiniCoordinator coordinator;
  std::vector<std::unique_ptr<TestWorker>> all;
};

}  // namespace everstep::test_world
