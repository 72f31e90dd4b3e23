// data: threads that make batches before they are asked for, in a bounded window.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/batch.h"
#include "everstep/base/clock.h"
#include "everstep/base/step.h"
#include "everstep/data/batch_source.h"

namespace everstep {

// What is made never depends on this class: it only decides when. Take and Expect come from one
// thread at a time.
class WorkAhead {
 public:
  using Result = absl::StatusOr<std::shared_ptr<const Batch>>;
  // Makes one batch. Called from the threads; gives up soon when the Cancel is set.
  using Make = std::function<Result(Step step, int r, const Cancel& cancel)>;

  // At most `depth` batches are made and not yet taken. No threads: Take always finds nothing.
  WorkAhead(int threads, int depth, const Clock& clock, Make make);
  ~WorkAhead();  // waits for the batches being made
  WorkAhead(const WorkAhead&) = delete;
  WorkAhead& operator=(const WorkAhead&) = delete;

  // Replaces the window: steps in order, replicas [begin, end) of each in order.
  void Expect(StepRange steps, int replica_begin, int replica_end);

  // The batch if it is made, waiting if a thread is at it; nothing if no thread has begun it: then
  // the caller makes it itself, so it never waits for a place in the window.
  // kCancelled, kDeadlineExceeded.
  std::optional<Result> Take(Step step, int r, const Cancel& cancel, Deadline deadline);

 private:
  using Key = std::pair<Step, int>;
  struct Slot {
    bool made = false;  // else: being made
    absl::Status status;
    std::shared_ptr<const Batch> batch;
  };

  void Loop();
  // Moves next_ to the next batch of the window that nobody has or makes; false when none is left.
  bool FindNext();
  Key Following(Key key) const;
  bool Inside(Key key) const;
  // Gives back the places of batches of steps gone by: they would hold them for ever.
  void DropBefore(Step step);

  const int depth_;
  const Clock& clock_;
  const Make make_;
  Cancel stopping_;

  std::mutex mu_;
  std::condition_variable work_, done_;
  bool stop_ = false;
  StepRange steps_;
  int replica_begin_ = 0, replica_end_ = 0;
  Key next_{0, 0};
  Step oldest_ = 0;  // batches of steps before it are not kept
  std::map<Key, Slot> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace everstep
