// data: the contract of whatever delivers batches.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "everstep/base/batch.h"
#include "everstep/base/clock.h"
#include "everstep/base/step.h"

namespace everstep {

// Set once by whoever wants a blocked call back; checked by the callee at least every 20 ms.
class Cancel {
 public:
  void Set() { set_.store(true, std::memory_order_release); }
  void Clear() { set_.store(false, std::memory_order_release); }
  bool IsSet() const { return set_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> set_{false};
};

// Random access to the batches of a job: Batch(s, r) depends on (data, seed, s, r) only.
// Get may be called from one thread at a time; Expect from the same thread.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The share of replica `r` in step `step`. Blocks until it is there.
  // kDataLoss (file and offset named), kCancelled, kDeadlineExceeded.
  virtual absl::StatusOr<std::shared_ptr<const Batch>> Get(Step step, int r, const Cancel& cancel,
                                                           Deadline deadline) = 0;

  // A hint for work ahead: soon Get will ask for these steps, replicas [replica_begin,
  // replica_end). Replaces the former hint; changes with the view.
  virtual void Expect(StepRange steps, int replica_begin, int replica_end) = 0;

  virtual int64_t steps_per_epoch() const = 0;
  // Examples of the whole step, over all replicas.
  virtual int64_t GlobalExamples(Step step) const = 0;
  // Identifies the data and how it is read; equal on all workers of a job.
  virtual uint64_t fingerprint() const = 0;
};

}  // namespace everstep
