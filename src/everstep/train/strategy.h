// train: distribution strategies, under tf.distribute's names.
#pragma once

#include "everstep/train/worker.h"

namespace everstep {

class Strategy;

// While it lives, models compiled in this thread belong to its strategy. Scopes nest.
class StrategyScope {
 public:
  explicit StrategyScope(Strategy* strategy);
  ~StrategyScope();
  StrategyScope(const StrategyScope&) = delete;
  StrategyScope& operator=(const StrategyScope&) = delete;

  // The innermost scope's strategy in this thread, or null.
  static Strategy* Current();

 private:
  Strategy* outer_;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Models must be compiled while the returned scope lives: auto scope = strategy.Scope();
  [[nodiscard]] StrategyScope Scope() { return StrategyScope(this); }

  // R: the global batch is shared among this many replicas, however many workers there are.
  int num_replicas_in_sync() const { return worker_.settings().num_replicas; }
  // True on exactly one worker: the one that prints and writes for the job.
  bool IsChief() const { return worker_.IsChief(); }
  Worker& worker() const { return worker_; }

 protected:
  explicit Strategy(Worker& worker) : worker_(worker) {}

 private:
  Worker& worker_;
};

// Synchronous data parallelism: every worker holds the whole state, gradients are summed over all
// replicas each step. With one worker it is the same computation in one process.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  explicit MultiWorkerMirroredStrategy(Worker& worker) : Strategy(worker) {}
};

}  // namespace everstep
