// engine: Checkpointer, checkpoints written beside training. At a step boundary all members copy
// the state; a thread of each writes its shard; the votes of the rounds that follow tell when all
// shards are there and whether they are of one state; then the committer commits.
//
//   idle --Begin--> writing --nobody writes any more--> comparing --digests equal--> committing
//     ^                 | a shard failed                                                |
//     +-----------------+---------------------------- committed, or the committer failed
//
// The stage follows from verdicts alone, so it is the same on all members.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/checkpoint/store.h"
#include "everstep/collective/communicator.h"
#include "everstep/learner/learner.h"

namespace everstep {

// How one checkpoint ended. `status` is OK on all members or on none; only the member at fault has
// the reason in it.
struct CheckpointOutcome {
  CheckpointId id;
  absl::Status status;
  bool mine = false;  // this member has the reason, or is the committer
  Duration took{};    // from Begin to the verdict that ended it
};

// One thread calls it, the training thread; none of its calls waits for the disk but WaitForThread,
// and the destructor for at most two seconds: a write that hangs longer is left behind with what it
// uses.
class Checkpointer {
 public:
  Checkpointer(std::shared_ptr<CheckpointStore> store, const StateLayout& layout,
               const Clock& clock);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  bool idle() const { return stage_ == Stage::kIdle; }
  // The round whose vote is made next compares the digests of the copies.
  bool compares() const { return stage_ == Stage::kComparing; }

  // Adds what this member has to say to the vote of a round. `vote->digest` is mixed with the
  // copy's when compares().
  void AddTo(Vote* vote) const;
  // The verdict of that round, its digests found equal. The outcome when it ended a checkpoint.
  std::optional<CheckpointOutcome> Hear(const Verdict& verdict);

  // Copies the state (memory of the layout) and begins. Only when idle() and the last verdict had
  // no kWishWriting. Returns how long the copy took.
  Duration Begin(const CheckpointId& id, absl::Span<const std::byte> memory, const View& view,
                 int rank);

  // The view has ended: what was under way is given up.
  void Drop();

  // Waits until this member's thread has nothing to do.
  void WaitForThread(Deadline deadline);
  // For how long the thread has been at its present piece of work; zero when it has none.
  Duration BusyFor() const;

 private:
  enum class Stage { kIdle, kWriting, kComparing, kCommitting };
  struct Hand;  // the thread and what it works on

  void Start(std::function<absl::Status()> work);
  CheckpointOutcome End(absl::Status status, bool mine);

  const std::shared_ptr<CheckpointStore> store_;
  const StateLayout layout_;
  const Clock& clock_;
  std::shared_ptr<Hand> hand_;
  std::thread thread_;
  Stage stage_ = Stage::kIdle;
  CheckpointId id_;
  int num_shards_ = 1;
  bool commits_ = false;  // this member is the committer
  TimePoint began_;
};

}  // namespace everstep
