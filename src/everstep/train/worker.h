// train: Worker, what the API needs of the process it runs in. runtime implements it; tests may
// too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/base/task.h"
#include "everstep/data/batch_source.h"
#include "everstep/data/record_batch_source.h"
#include "everstep/engine/engine.h"
#include "everstep/learner/learner.h"

namespace everstep {

// Fixed for the life of the process; replicas, seed and threads are the job's, equal on all
// workers.
struct WorkerSettings {
  Task task;               // this process's place in the cluster
  int num_workers = 1;     // at the start of the job; a chief is one of them
  bool has_chief = false;  // chief:0 is one of them
  int num_replicas = 1;
  uint64_t seed = 0;
  int threads_per_replica = 1;
  Step checkpoint_every_steps = 0;  // where the program does not say; 0: not by steps
};

class Worker {
 public:
  virtual ~Worker() = default;

  virtual const WorkerSettings& settings() const = 0;

  // Joins the job with `learner` (the worker keeps it alive and drives it). Once per process:
  // kFailedPrecondition the second time. `fingerprint` says what must be equal on all workers.
  virtual absl::StatusOr<Engine*> Join(std::unique_ptr<Learner> learner,
                                       Fingerprint fingerprint) = 0;

  // The batches of `data`.
  virtual absl::StatusOr<std::unique_ptr<BatchSource>> Open(const Dataset& data,
                                                            const BatchOptions& options) = 0;

  // How far training is, for people; cheap, any number of times.
  virtual void ShowProgress(const Scalars& scalars) = 0;
  // A line on standard output.
  virtual void Print(const std::string& line) = 0;

  virtual const Clock& clock() const = 0;

  // The worker that speaks for the job: chief:0 where there is one, else worker:0.
  bool IsChief() const {
    const Task& task = settings().task;
    if (settings().has_chief) return task.type == "chief";
    return task.type == "worker" && task.index == 0;
  }
};

}  // namespace everstep
