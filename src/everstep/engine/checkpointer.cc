// engine: Checkpointer.
#include "everstep/engine/checkpointer.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "everstep/base/keyed_random.h"

namespace everstep {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

}  // namespace

// Shared with the thread, which may outlive the Checkpointer when a disk hangs.
struct Checkpointer::Hand {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<absl::Status()> work;  // null: none waits
  bool busy = false;
  bool quit = false;
  absl::Status status;  // of the last work
  uint64_t digest = 0;  // of the copy
  TimePoint since;      // when busy
  // The copy. Touched by the training thread only while nothing is busy.
  std::vector<std::byte> copy;
  std::vector<TensorSpan> tensors;

  static void Run(const std::shared_ptr<Hand>& hand) {
    std::unique_lock lock(hand->mutex);
    while (true) {
      hand->changed.wait(lock, [&] { return hand->quit || hand->work != nullptr; });
      if (hand->quit) return;
      const std::function<absl::Status()> work = std::exchange(hand->work, nullptr);
      lock.unlock();
      absl::Status status = work();
      lock.lock();
      hand->status = std::move(status);
      hand->busy = false;
      hand->changed.notify_all();
    }
  }
};

Checkpointer::Checkpointer(std::shared_ptr<CheckpointStore> store, const StateLayout& layout,
                           const Clock& clock)
    : store_(std::move(store)), layout_(layout), clock_(clock), hand_(std::make_shared<Hand>()) {}

Checkpointer::~Checkpointer() {
  WaitForThread(After(clock_, kPatience));
  bool stuck;
  {
    std::lock_guard lock(hand_->mutex);
    hand_->quit = true;
    stuck = hand_->busy;
    hand_->changed.notify_all();
  }
  if (!thread_.joinable()) return;
  stuck ? thread_.detach() : thread_.join();
}

void Checkpointer::Start(std::function<absl::Status()> work) {
  if (!thread_.joinable()) thread_ = std::thread([hand = hand_] { Hand::Run(hand); });
  std::lock_guard lock(hand_->mutex);
  hand_->work = std::move(work);
  hand_->busy = true;
  hand_->since = clock_.Now();
  hand_->changed.notify_all();
}

void Checkpointer::WaitForThread(Deadline deadline) {
  std::unique_lock lock(hand_->mutex);
  hand_->changed.wait_until(lock, deadline, [&] { return !hand_->busy; });
}

Duration Checkpointer::BusyFor() const {
  std::lock_guard lock(hand_->mutex);
  return hand_->busy ? clock_.Now() - hand_->since : Duration(0);
}

Duration Checkpointer::Begin(const CheckpointId& id, absl::Span<const std::byte> memory,
                             const View& view, int rank) {
  began_ = clock_.Now();
  Hand& hand = *hand_;
  if (hand.copy.empty()) {
    hand.copy.resize(memory.size());
    hand.tensors = StateTensors(layout_, absl::MakeSpan(hand.copy));
  }
  std::memcpy(hand.copy.data(), memory.data(), memory.size());
  const Duration took = clock_.Now() - began_;
  stage_ = Stage::kWriting;
  id_ = id;
  num_shards_ = static_cast<int>(view.members.size());
  commits_ = rank == view.committer;
  Start([hand = hand_, store = store_, id, shard = Shard{rank, num_shards_}] {
    const uint64_t digest = QuickDigest(hand->tensors);
    {
      std::lock_guard lock(hand->mutex);
      hand->digest = digest;
    }
    return store->SaveShard(id, hand->tensors, shard);
  });
  return took;
}

void Checkpointer::AddTo(Vote* vote) const {
  std::lock_guard lock(hand_->mutex);
  if (hand_->busy) vote->wishes |= kWishWriting;
  const bool ended = stage_ == Stage::kWriting || (stage_ == Stage::kCommitting && commits_);
  if (ended && !hand_->busy && !hand_->status.ok()) vote->wishes |= kWishFailed;
  if (stage_ == Stage::kComparing) vote->digest = HashKey({vote->digest, hand_->digest});
}

std::optional<CheckpointOutcome> Checkpointer::Hear(const Verdict& verdict) {
  if (stage_ == Stage::kIdle) return std::nullopt;
  if (stage_ == Stage::kComparing) {
    stage_ = Stage::kCommitting;
    if (commits_) {
      Start([hand = hand_, store = store_, id = id_, shards = num_shards_] {
        return store->Commit(id, hand->tensors, shards);
      });
    }
    return std::nullopt;
  }
  if ((verdict.wishes & kWishWriting) != 0) return std::nullopt;
  if ((verdict.wishes & kWishFailed) != 0) {
    absl::Status own;
    if (stage_ == Stage::kWriting || commits_) {
      std::lock_guard lock(hand_->mutex);
      own = hand_->status;
    }
    const bool mine = !own.ok();
    return End(mine ? own : absl::UnavailableError("another worker could not write its part"),
               mine);
  }
  if (stage_ == Stage::kWriting) {
    stage_ = Stage::kComparing;
    return std::nullopt;
  }
  return End(absl::OkStatus(), commits_);
}

CheckpointOutcome Checkpointer::End(absl::Status status, bool mine) {
  stage_ = Stage::kIdle;
  if (!status.ok()) {
    Start([store = store_, id = id_] {
      store->Abandon(id);
      return absl::OkStatus();
    });
  }
  return {id_, std::move(status), mine, clock_.Now() - began_};
}

void Checkpointer::Drop() { stage_ = Stage::kIdle; }

}  // namespace everstep
