// collective: the contract of the collectives of one View. The result of every reduction is defined
// by the tree over replicas (base/tree.h) and the one addition (collective/add.h), whatever the
// route.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/base/step.h"
#include "everstep/base/tree.h"
#include "everstep/base/view.h"

namespace everstep {

// A finished partial sum of this worker: the bucket's floats for the replicas of `node`. Part i of
// a call lies in partial buffer i of the arena, at the bucket's offset.
struct Part {
  TreeNode node;
  absl::Span<const float> data;
};

using Ticket = uint64_t;

// The rank that an error of a Communicator blames, or -1. The error's text names its task too.
int BlamedPeer(const absl::Status& status);

// What a member says at the end of a round.
struct Vote {
  Step step = 0;        // the step it is in
  ViewId prepared;      // newest prepared view it holds; zero when none
  uint32_t wishes = 0;  // bits of Wish
  uint64_t digest = 0;  // of the state, where the caller wants a comparison; else 0
};

// What all members said, the same on all of them.
struct Verdict {
  Step min_step = 0;
  Step max_step = 0;
  ViewId prepared;      // the least of all
  uint32_t wishes = 0;  // OR of all
  bool digests_equal = true;
};

enum Wish : uint32_t {
  kWishLeave = 1,  // a member was told to leave
  kWishCheckpoint = 2,
  kWishFailed = 4,    // a member could not do its part of the checkpoint
  kWishWriting = 8,   // a member is still writing its part
  kWishUnsaved = 16,  // a member knows of no checkpoint of this step
};

// Who waits for whom; read lock-free for heartbeats.
struct PeerWait {
  int peer = -1;  // rank
  Round round = 0;
  int bucket = 0;  // -1: for its vote
};

// One per View. One caller thread, but for Abort and Waiting. The first error ends it: every later
// call returns that error, and the round must be done again under another view.
// Errors: kUnavailable (a peer died or its link broke: the peer's task is named, within 100 ms of
// its death), kDeadlineExceeded (names whom it waited for), kAborted (Abort was called),
// kInvalidArgument (the call does not fit the arena or the view).
class Communicator {
 public:
  virtual ~Communicator() = default;  // quiescent after: no thread of it stores anywhere

  virtual const View& view() const = 0;
  virtual int rank() const = 0;

  // The memory reductions work in; sizes fixed at construction (ArenaShape). Partial buffer i and
  // the result buffer each hold all buckets one after another.
  virtual absl::Span<float> partial(int slot) = 0;
  virtual absl::Span<float> result() = 0;

  // Starts the sum of one bucket over all replicas. `parts` are exactly the maximal nodes of this
  // member's range, in order, part i inside partial(i). The sum appears in result() at the bucket's
  // offset. Buckets of a round are started in ascending order, the same ones on all members. The
  // parts must not change, nor result() be read, until Wait returned.
  virtual absl::StatusOr<Ticket> Reduce(Round round, int bucket, absl::Span<const Part> parts,
                                        Deadline deadline) = 0;
  virtual absl::Status Wait(Ticket ticket, Deadline deadline) = 0;

  // Ends a round: returns once every member has voted, which it does only when all its buckets of
  // the round are reduced.
  virtual absl::StatusOr<Verdict> Conclude(Round round, const Vote& vote, Deadline deadline) = 0;

  // Any thread. Blocked calls return within 10 ms with `why`.
  virtual void Abort(absl::Status why) noexcept = 0;

  virtual std::vector<PeerWait> Waiting() const noexcept = 0;  // any thread
};

// Sizes of the shared gradient memory; equal on all members of a view.
struct ArenaShape {
  std::vector<int64_t> bucket_sizes;  // floats; gradient buckets, then the statistics
  int slots = 1;                      // partial buffers, MaxSlots(R)
};

// Makes the Communicator of a view: links to all other members of it. The engine's seam to the
// room.
class CommunicatorFactory {
 public:
  virtual ~CommunicatorFactory() = default;
  // Sets the sizes; called once, before the first Connect.
  virtual absl::Status Prepare(const ArenaShape& shape) = 0;
  // This process is the member of `view` with incarnation `self`. Errors as Communicator's;
  // kInvalidArgument when `self` is not in the view.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(const View& view, Incarnation self,
                                                                Deadline deadline) = 0;
  // Any thread. A Connect of a view up to `view`, under way or still to come, returns kAborted
  // within 20 ms.
  virtual void Abandon(const ViewId& view) noexcept { static_cast<void>(view); }
  // "host:port" that peers of other hosts reach this process at; known from construction.
  virtual std::string data_address() const = 0;
};

}  // namespace everstep
