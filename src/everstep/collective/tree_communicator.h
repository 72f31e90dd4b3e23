// collective: the Communicator: reductions along the tree, in shared memory inside a group and over
// stream links between groups.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/collective/communicator.h"
#include "everstep/collective/failure.h"
#include "everstep/collective/slice_work.h"
#include "everstep/collective/stream_link.h"
#include "everstep/collective/watcher.h"
#include "everstep/collective/workshop.h"
#include "everstep/env/fd.h"

namespace everstep {

// The connection to one other member, made by the endpoint.
struct PeerLink {
  UniqueFd socket;
  UniqueFd pid_fd;                  // of a process of this host; else none
  std::shared_ptr<Arena> arena;     // null unless memory is shared
  std::shared_ptr<CellPage> cells;  // same
  UniqueFd wake;                    // same: the peer's eventfd
};

// What a communicator is made of. Tests give ranks that are threads the same arenas and cells.
struct CommunicatorParts {
  View view;
  int rank = 0;
  std::vector<std::vector<bool>> shares;  // see ReductionPlan
  std::shared_ptr<Arena> arena;
  std::shared_ptr<CellPage> cells;
  UniqueFd wake;                // own eventfd
  std::vector<PeerLink> links;  // by rank; the own one is empty
  // A link to another host is lost when nothing sent is acknowledged for so long.
  Duration lost_after = std::chrono::seconds(2);
  // Called at the end with the ranks that had said farewell by then; may be empty.
  std::function<void(const std::vector<int>& departed)> on_end;
};

class TreeCommunicator : public Communicator, private FrameSink {
 public:
  static absl::StatusOr<std::unique_ptr<Communicator>> Make(CommunicatorParts parts,
                                                            const Clock& clock);
  ~TreeCommunicator() override;

  const View& view() const override { return parts_.view; }
  int rank() const override { return parts_.rank; }
  absl::Span<float> partial(int slot) override;
  absl::Span<float> result() override;
  absl::StatusOr<Ticket> Reduce(Round round, int bucket, absl::Span<const Part> parts,
                                Deadline deadline) override;
  absl::Status Wait(Ticket ticket, Deadline deadline) override;
  absl::StatusOr<Verdict> Conclude(Round round, const Vote& vote, Deadline deadline) override;
  void Abort(absl::Status why) noexcept override;
  std::vector<PeerWait> Waiting() const noexcept override;

  int NumGroupsForTest() const { return static_cast<int>(shop_.plan().groups().size()); }

 private:
  // The reduction of one bucket of one round. Its members do not move while links point to them.
  struct Op {
    Round round = 0;
    int bucket = 0;
    std::deque<SliceWork> slices;  // that this member works on
    std::vector<int> awaited;      // neighbours that work on slices of it, as indices in group()
    int unsent = 0;
    bool own_done = false;  // its slices are done, and so are those of all earlier ops
    bool complete = false;
  };
  struct ReceivedVote {
    int64_t number = -1;  // of the conclusion
    VoteRecord record;
  };

  TreeCommunicator(CommunicatorParts parts, const Clock& clock);
  absl::Status StartWatching();
  absl::Status CheckReduce(Round round, int bucket, absl::Span<const Part> parts) const;
  absl::Status Fail(absl::Status error);

  // One round of work without blocking; whether anything moved.
  bool Progress();
  bool ProgressLinks();
  bool ProgressOp(Op& op, bool earlier_done);
  void RingGroup();

  // Works until `done()`, the first error or the deadline. `waits` tells whom it waits for.
  using Waits = std::function<void(const std::function<void(int, uint64_t)>&)>;
  absl::Status Await(absl::FunctionRef<bool()> done, const Waits& waits, Deadline deadline);
  absl::Status SleepOnce(absl::FunctionRef<bool()> done, const Waits& waits, Deadline deadline);
  absl::Status CheckWaits(const Waits& waits, const std::vector<bool>& departed, Deadline deadline);
  void SleepInPoll(Duration slice);
  void WaitsOfOps(const std::function<void(int, uint64_t)>& wait) const;
  Op* Find(Round round, int bucket);

  // FrameSink.
  absl::StatusOr<absl::Span<std::byte>> Begin(int from, const Frame& frame) override;
  absl::Status End(int from, const Frame& frame) override;
  absl::StatusOr<absl::Span<std::byte>> BeginPartial(int from, const Frame& frame);
  absl::StatusOr<absl::Span<std::byte>> BeginResult(int from, const Frame& frame);

  bool HaveVote(int rank, int64_t number) const;
  const VoteRecord& VoteOf(int rank, int64_t number) const;
  absl::StatusOr<Verdict> Judge(Round round, int64_t number);
  const Neighbour& NeighbourOf(int rank) const;

  const CommunicatorParts parts_;
  const Clock& clock_;
  Failure failure_;
  Departures departures_;
  Workshop shop_;
  std::vector<std::unique_ptr<StreamLink>> links_;  // null inside the group
  std::vector<StreamLink*> link_pointers_;
  bool has_links_ = false;
  int spin_limit_ = 0;

  std::deque<std::unique_ptr<Op>> ops_;  // not complete, or after one that is not
  Ticket popped_ = 0;                    // tickets up to this one are complete and forgotten
  uint64_t last_word_ = 0;               // of the last Reduce or Conclude
  uint64_t buckets_hash_ = 0;            // of the round
  int64_t conclusions_ = 0;
  std::vector<std::array<ReceivedVote, 2>> votes_;  // by rank, of other groups
  std::vector<std::vector<std::byte>> texts_;   // by rank: bytes of a vote or farewell coming in
  std::vector<std::atomic<uint64_t>> waiting_;  // by rank: the word waited for, or 0
  std::unique_ptr<Watcher> watcher_;            // last: ends first
};

}  // namespace everstep
