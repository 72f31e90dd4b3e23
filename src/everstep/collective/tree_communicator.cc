// collective: the Communicator's calls and its loop. Frames coming in are in
// communicator_frames.cc.
#include "everstep/collective/tree_communicator.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "everstep/base/float_environment.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/collective/vote_codec.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

constexpr Duration kSleepSlice = std::chrono::milliseconds(20);
// Some 10 us of looking at cells, or of asking sockets.
constexpr int kSpinsOnCells = 200;
constexpr int kSpinsOnLinks = 16;
// Then the core is offered to others so often before sleeping: to be woken costs tens of
// microseconds where the core has gone idle, above all in a virtual machine.
constexpr int kYields = 200;
constexpr int kMovesBetweenClockReads = 64;

std::vector<Neighbour> GroupOf(const CommunicatorParts& parts, const ReductionPlan& plan) {
  std::vector<Neighbour> group;
  for (int r = plan.own_group().first; r < plan.own_group().last; ++r) {
    if (r == parts.rank) {
      group.push_back({r, parts.arena, parts.cells, parts.wake.get()});
    } else {
      const PeerLink& link = parts.links[r];
      group.push_back({r, link.arena, link.cells, link.wake.get()});
    }
  }
  return group;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> TreeCommunicator::Make(CommunicatorParts parts,
                                                                     const Clock& clock) {
  std::unique_ptr<TreeCommunicator> made(new TreeCommunicator(std::move(parts), clock));
  EV_RETURN_IF_ERROR(made->StartWatching());
  return std::unique_ptr<Communicator>(std::move(made));
}

TreeCommunicator::TreeCommunicator(CommunicatorParts parts, const Clock& clock)
    : parts_(std::move(parts)),
      clock_(clock),
      failure_([this] { Ring(*parts_.cells, parts_.wake.get()); }),
      departures_(static_cast<int>(parts_.view.members.size())),
      shop_(ReductionPlan(parts_.view, parts_.rank, parts_.shares),
            std::shared_ptr<const ArenaLayout>(parts_.arena, &parts_.arena->layout()),
            GroupOf(parts_, ReductionPlan(parts_.view, parts_.rank, parts_.shares))),
      votes_(parts_.view.members.size()),
      texts_(parts_.view.members.size()),
      waiting_(parts_.view.members.size()) {
  for (int r = 0; r < static_cast<int>(parts_.view.members.size()); ++r) {
    std::unique_ptr<StreamLink> link;
    if (!shop_.plan().InOwnGroup(r)) {
      link = std::make_unique<StreamLink>(r, parts_.links[r].socket.get(), parts_.view.id);
      has_links_ = true;
    }
    link_pointers_.push_back(link.get());
    links_.push_back(std::move(link));
  }
  std::vector<const CellPage*> pages;
  for (const Neighbour& n : shop_.group()) pages.push_back(n.cells.get());
  // Where ranks share cores, who spins keeps from work the very one it waits for.
  if (CountProcessors(pages) >= static_cast<int>(pages.size())) {
    spin_limit_ = has_links_ ? kSpinsOnLinks : kSpinsOnCells;
  }
}

absl::Status TreeCommunicator::StartWatching() {
  std::vector<Watcher::Watched> watched;
  for (const Neighbour& n : shop_.group()) {
    if (n.rank == parts_.rank) continue;
    const PeerLink& link = parts_.links[n.rank];
    watched.push_back({n.rank, link.socket.get(), link.pid_fd.get()});
  }
  if (watched.empty()) return absl::OkStatus();
  EV_ASSIGN_OR_RETURN(watcher_,
                      Watcher::Start(parts_.view, std::move(watched), failure_, departures_,
                                     [this] { Ring(*parts_.cells, parts_.wake.get()); }));
  return absl::OkStatus();
}

TreeCommunicator::~TreeCommunicator() {
  watcher_.reset();
  // Nothing of this object stores into shared memory from here on, which is what a farewell says.
  const absl::Status why = failure_.status();
  Frame farewell;
  farewell.kind = FrameKind::kFarewell;
  farewell.view = parts_.view.id;
  farewell.owner = BlamedPeer(why);
  const std::string text = FarewellText(why);
  std::vector<int> departed;
  for (int r = 0; r < static_cast<int>(links_.size()); ++r) {
    if (r == parts_.rank) continue;
    if (departures_.Has(r)) {
      departed.push_back(r);
      continue;
    }
    StreamLink plain(r, parts_.links[r].socket.get(), parts_.view.id);
    (links_[r] != nullptr ? *links_[r] : plain).SendFarewell(farewell, text);
  }
  if (parts_.on_end) parts_.on_end(departed);
}

absl::Span<float> TreeCommunicator::partial(int slot) {
  return {parts_.arena->partial(slot), static_cast<size_t>(shop_.layout().floats())};
}

absl::Span<float> TreeCommunicator::result() {
  return {parts_.arena->result(), static_cast<size_t>(shop_.layout().floats())};
}

absl::Status TreeCommunicator::Fail(absl::Status error) {
  failure_.Set(std::move(error));
  return failure_.status();
}

void TreeCommunicator::Abort(absl::Status why) noexcept {
  failure_.Set(why.ok() ? absl::AbortedError("the collective was aborted") : std::move(why));
}

std::vector<PeerWait> TreeCommunicator::Waiting() const noexcept {
  std::vector<PeerWait> waits;
  for (size_t r = 0; r < waiting_.size(); ++r) {
    const uint64_t word = waiting_[r].load();
    if (word == 0) continue;
    const int bucket = BucketOf(word) == kVoteBucket ? -1 : BucketOf(word);
    waits.push_back({static_cast<int>(r), RoundOf(word), bucket});
  }
  return waits;
}

absl::Status TreeCommunicator::CheckReduce(Round round, int bucket,
                                           absl::Span<const Part> parts) const {
  const ArenaLayout& layout = shop_.layout();
  if (round < 0 || bucket < 0 || bucket >= layout.num_buckets()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no bucket ", bucket, " of round ",
                                                   round, " (", layout.num_buckets(), " buckets)"));
  }
  const bool fresh = last_word_ == 0 || BucketOf(last_word_) == kVoteBucket;
  if (WordOf(round, bucket) <= last_word_ || (!fresh && RoundOf(last_word_) != round)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket ", bucket, " of round ", round, " comes out of order, after bucket ",
                     BucketOf(last_word_), " of round ", RoundOf(last_word_)));
  }
  const std::vector<TreeNode>& nodes = shop_.plan().parts_of(parts_.rank);
  bool fits =
      parts.size() == nodes.size() && static_cast<int>(nodes.size()) <= layout.shape().slots;
  for (size_t i = 0; fits && i < parts.size(); ++i) {
    const float* place = parts_.arena->partial(static_cast<int>(i)) + layout.offset_of(bucket);
    fits = parts[i].node == nodes[i] && parts[i].data.data() == place &&
           static_cast<int64_t>(parts[i].data.size()) == layout.size_of(bucket);
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("the parts of bucket ", bucket, " are not this member's ", nodes.size(),
                     " maximal nodes, part i in partial buffer i at the bucket's offset"));
  }
  return CheckFloatEnvironment();
}

absl::StatusOr<Ticket> TreeCommunicator::Reduce(Round round, int bucket,
                                                absl::Span<const Part> parts, Deadline) {
  if (failure_.any()) return failure_.status();
  const absl::Status fits = CheckReduce(round, bucket, parts);
  if (!fits.ok()) return Fail(fits);
  const uint64_t word = WordOf(round, bucket);
  if (last_word_ == 0 || RoundOf(last_word_) != round) buckets_hash_ = 0;
  buckets_hash_ = HashKey({buckets_hash_, static_cast<uint64_t>(bucket)});
  last_word_ = word;

  auto op = std::make_unique<Op>();
  op->round = round;
  op->bucket = bucket;
  const ReductionPlan& plan = shop_.plan();
  const int own_group = plan.group_of(parts_.rank);
  for (int owner = 0; owner < plan.num_members(); ++owner) {
    if (plan.SliceOf(shop_.layout().size_of(bucket), bucket, owner).size == 0) continue;
    const int worker = plan.DelegateOf(owner, own_group);
    if (worker == parts_.rank) {
      op->slices.emplace_back(shop_, round, bucket, owner);
    } else {
      op->awaited.push_back(worker - plan.own_group().first);
    }
  }
  // The own slice's result first: it goes out before partials of this bucket once it is there.
  for (const bool own : {true, false}) {
    for (SliceWork& slice : op->slices) {
      if ((slice.owner() == parts_.rank) == own) slice.QueueSends(link_pointers_, op->unsent);
    }
  }
  ops_.push_back(std::move(op));
  const Ticket ticket = popped_ + ops_.size();
  parts_.cells->ready.store(word);
  RingGroup();
  Progress();
  if (failure_.any()) return failure_.status();
  return ticket;
}

absl::Status TreeCommunicator::Wait(Ticket ticket, Deadline deadline) {
  if (failure_.any()) return failure_.status();
  if (ticket == 0 || ticket > popped_ + ops_.size()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("there is no ticket ", ticket)));
  }
  return Await([&] { return ticket <= popped_ || ops_[ticket - popped_ - 1]->complete; },
               [this](const auto& wait) { WaitsOfOps(wait); }, deadline);
}

bool TreeCommunicator::Progress() {
  bool moved = has_links_ && ProgressLinks();
  bool earlier_done = true;
  for (const std::unique_ptr<Op>& op : ops_) {
    moved = ProgressOp(*op, earlier_done) || moved;
    earlier_done = earlier_done && op->own_done;
  }
  while (!ops_.empty() && ops_.front()->complete) {
    ops_.pop_front();
    ++popped_;
  }
  return moved;
}

bool TreeCommunicator::ProgressLinks() {
  bool moved = false;
  for (StreamLink* link : link_pointers_) {
    if (link == nullptr || departures_.Has(link->peer())) continue;
    absl::StatusOr<bool> some = link->Receive(*this);
    if (some.ok() && !departures_.Has(link->peer())) {
      moved = moved || *some;
      some = link->Flush();
    }
    if (!some.ok()) {
      failure_.Set(PeerFailure(absl::StatusCode::kUnavailable, parts_.view, link->peer(),
                               std::string(some.status().message())));
      return true;
    }
    moved = moved || *some;
  }
  return moved;
}

bool TreeCommunicator::ProgressOp(Op& op, bool earlier_done) {
  if (op.complete) return false;
  bool moved = false;
  bool slices_done = true;
  for (SliceWork& slice : op.slices) {
    moved = slice.Advance() || moved;
    slices_done = slices_done && slice.done();
  }
  const uint64_t word = WordOf(op.round, op.bucket);
  if (!op.own_done && slices_done && earlier_done) {
    op.own_done = true;
    parts_.cells->done.store(word);
    RingGroup();
    moved = true;
  }
  if (!op.own_done || op.unsent > 0) return moved;
  for (int index : op.awaited) {
    if (shop_.group()[index].cells->done.load() < word) return moved;
  }
  op.complete = true;
  return true;
}

void TreeCommunicator::RingGroup() {
  for (const Neighbour& n : shop_.group()) {
    if (n.rank != parts_.rank) Ring(*n.cells, n.wake_fd);
  }
}

absl::Status TreeCommunicator::Await(absl::FunctionRef<bool()> done, const Waits& waits,
                                     Deadline deadline) {
  int spins = 0, moves = 0;
  absl::Status status;
  bool slept = false;
  while (status.ok()) {
    if (failure_.any()) {
      status = failure_.status();
      break;
    }
    const bool moved = Progress();
    if (done()) break;
    if (moved) {
      spins = 0;
      // A trickle of progress does not put off the deadline.
      if (++moves % kMovesBetweenClockReads == 0 && clock_.Now() >= deadline) {
        status = CheckWaits(waits, std::vector<bool>(links_.size()), deadline);
      }
    } else if (spins < spin_limit_) {
      ++spins;
      _mm_pause();
    } else if (spins < spin_limit_ + kYields) {
      ++spins;
      std::this_thread::yield();
    } else {
      status = SleepOnce(done, waits, deadline);
      slept = true;
    }
  }
  if (slept) {
    for (std::atomic<uint64_t>& word : waiting_) word.store(0);
  }
  return status;
}

absl::Status TreeCommunicator::SleepOnce(absl::FunctionRef<bool()> done, const Waits& waits,
                                         Deadline deadline) {
  CellPage& own = *parts_.cells;
  own.asleep.store(has_links_ ? kInPoll : kOnFutex);
  const uint32_t bell = own.bell.load();
  // Who departed before this look at the cells has stored all it ever will.
  std::vector<bool> departed(links_.size());
  for (size_t r = 0; r < departed.size(); ++r) departed[r] = departures_.Has(static_cast<int>(r));
  absl::Status status;
  if (!Progress() && !done() && !failure_.any()) {
    status = CheckWaits(waits, departed, deadline);
    const Duration slice = std::min<Duration>(kSleepSlice, deadline - clock_.Now());
    if (status.ok() && has_links_) {
      SleepInPoll(slice);
    } else if (status.ok()) {
      FutexWait(own.bell, bell, slice);
    }
  }
  own.asleep.store(kAwake);
  return status;
}

void TreeCommunicator::SleepInPoll(Duration slice) {
  std::vector<PollItem> items(1);
  items[0].fd = parts_.wake.get();
  items[0].read = true;
  for (const StreamLink* link : link_pointers_) {
    if (link == nullptr || departures_.Has(link->peer())) continue;
    PollItem item;
    item.fd = link->socket();
    item.read = true;
    item.write = link->blocked();
    items.push_back(item);
  }
  const absl::Status polled = Poll(absl::MakeSpan(items), slice);
  if (!polled.ok()) failure_.Set(polled);
  if (items[0].readable) DrainEventFd(parts_.wake.get());
  const TimePoint now = clock_.Now();
  for (StreamLink* link : link_pointers_) {
    if (link == nullptr || !link->LooksLost(now, parts_.lost_after)) continue;
    failure_.Set(PeerFailure(absl::StatusCode::kUnavailable, parts_.view, link->peer(),
                             "acknowledges nothing: its host or the network to it is gone"));
  }
}

// Publishes whom the caller waits for; fails on the deadline, or where one of them has left.
absl::Status TreeCommunicator::CheckWaits(const Waits& waits, const std::vector<bool>& departed,
                                          Deadline deadline) {
  std::vector<uint64_t> words(links_.size());
  waits([&](int rank, uint64_t word) {
    if (words[rank] == 0) words[rank] = word;
  });
  std::string names;
  uint64_t first_word = 0;
  int first = -1;
  for (int r = 0; r < static_cast<int>(words.size()); ++r) {
    waiting_[r].store(words[r]);
    if (words[r] == 0) continue;
    if (departed[r]) return Fail(departures_.ErrorOf(parts_.view, r));
    absl::StrAppend(&names, names.empty() ? "" : ", ", NameOf(parts_.view, r));
    if (first < 0) first = r;
    if (first_word == 0 || words[r] < first_word) first_word = words[r];
  }
  if (clock_.Now() < deadline) return absl::OkStatus();
  const std::string where =
      first < 0 ? "nobody"
                : absl::StrCat(names, " in round ", RoundOf(first_word),
                               BucketOf(first_word) == kVoteBucket
                                   ? std::string(", for its vote")
                                   : absl::StrCat(", bucket ", BucketOf(first_word)));
  absl::Status error = absl::DeadlineExceededError(
      absl::StrCat("the collective's deadline passed; waited for ", where));
  if (first >= 0) {
    const absl::Status blame = PeerFailure(absl::StatusCode::kUnavailable, parts_.view, first, "");
    blame.ForEachPayload(
        [&](absl::string_view url, const absl::Cord& payload) { error.SetPayload(url, payload); });
  }
  return Fail(std::move(error));
}

void TreeCommunicator::WaitsOfOps(const std::function<void(int, uint64_t)>& wait) const {
  for (const std::unique_ptr<Op>& op : ops_) {
    if (op->complete) continue;
    const uint64_t word = WordOf(op->round, op->bucket);
    bool slices_done = true;
    for (const SliceWork& slice : op->slices) {
      slice.CollectWaits([&](int rank) { wait(rank, word); });
      slices_done = slices_done && slice.done();
    }
    if (!slices_done) continue;
    for (int index : op->awaited) {
      const Neighbour& n = shop_.group()[index];
      if (n.cells->done.load() < word) wait(n.rank, word);
    }
    if (op->unsent == 0) continue;
    for (const StreamLink* link : link_pointers_) {
      if (link != nullptr && !link->idle()) wait(link->peer(), word);
    }
  }
}

TreeCommunicator::Op* TreeCommunicator::Find(Round round, int bucket) {
  for (const std::unique_ptr<Op>& op : ops_) {
    if (op->round == round && op->bucket == bucket) return op.get();
  }
  return nullptr;
}

const Neighbour& TreeCommunicator::NeighbourOf(int rank) const {
  return shop_.group()[rank - shop_.plan().own_group().first];
}

}  // namespace everstep
