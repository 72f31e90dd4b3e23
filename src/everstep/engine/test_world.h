// engine: the world of the engine's tests, in one process: collectives that follow the tree's
// definition, a learner and batches that are pure functions, a small coordinator, a store in
// memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/tree.h"
#include "everstep/checkpoint/store.h"
#include "everstep/collective/communicator.h"
#include "everstep/data/batch_source.h"
#include "everstep/learner/learner.h"
#include "everstep/membership/control.h"

namespace everstep::test_world {

// Where and when a communicator of a view fails, once.
struct Fault {
  int64_t view = 0;
  int rank = 0;
  Round round = 0;
  int bucket = 0;
};

// What the members of one view share.
class SharedView {
 public:
  struct Sum {
    std::map<int, std::vector<std::pair<TreeNode, std::vector<float>>>> parts;  // by rank
    std::vector<float> total;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<Round, int>, Sum> sums;
  std::map<Round, std::map<int, Vote>> votes;
  absl::Status broken;
};

class WorldCommunicator : public Communicator {
 public:
  WorldCommunicator(std::shared_ptr<SharedView> shared, View view, int rank, ArenaShape shape,
                    std::optional<Fault> fault)
      : shared_(std::move(shared)), view_(std::move(view)), rank_(rank), fault_(fault) {
    int64_t size = 0;
    for (int64_t bucket : shape.bucket_sizes) {
      offsets_.push_back(size);
      size += bucket;
    }
    sizes_ = shape.bucket_sizes;
    partials_.assign(shape.slots, std::vector<float>(size));
    result_.resize(size);
  }

  const View& view() const override { return view_; }
  int rank() const override { return rank_; }
  absl::Span<float> partial(int slot) override { return absl::MakeSpan(partials_[slot]); }
  absl::Span<float> result() override { return absl::MakeSpan(result_); }

  absl::StatusOr<Ticket> Reduce(Round round, int bucket, absl::Span<const Part> parts,
                                Deadline) override {
    if (fault_ && fault_->rank == rank_ && fault_->round == round && fault_->bucket == bucket) {
      Abort(absl::UnavailableError(absl::StrCat("rank ", rank_, " lost its links")));
    }
    std::lock_guard lock(shared_->mutex);
    if (!shared_->broken.ok()) return shared_->broken;
    SharedView::Sum& sum = shared_->sums[{round, bucket}];
    for (const Part& part : parts) {
      sum.parts[rank_].push_back({part.node, {part.data.begin(), part.data.end()}});
    }
    shared_->changed.notify_all();
    return static_cast<Ticket>(round) * 1000 + bucket;
  }

  absl::Status Wait(Ticket ticket, Deadline) override {
    const int bucket = static_cast<int>(ticket % 1000);
    std::unique_lock lock(shared_->mutex);
    SharedView::Sum& sum = shared_->sums[{static_cast<Round>(ticket / 1000), bucket}];
    shared_->changed.wait(
        lock, [&] { return !shared_->broken.ok() || sum.parts.size() == view_.members.size(); });
    if (!shared_->broken.ok()) return shared_->broken;
    if (sum.total.empty()) Finish(sum);
    std::copy(sum.total.begin(), sum.total.end(), result_.begin() + offsets_[bucket]);
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> Conclude(Round round, const Vote& vote, Deadline) override {
    std::unique_lock lock(shared_->mutex);
    auto& votes = shared_->votes[round];
    votes[rank_] = vote;
    shared_->changed.notify_all();
    shared_->changed.wait(
        lock, [&] { return !shared_->broken.ok() || votes.size() == view_.members.size(); });
    if (votes.size() != view_.members.size()) return shared_->broken;
    Verdict verdict{vote.step, vote.step, {}, 0, true};
    for (const auto& [rank, v] : votes) {
      verdict.min_step = std::min(verdict.min_step, v.step);
      verdict.max_step = std::max(verdict.max_step, v.step);
      verdict.wishes |= v.wishes;
      verdict.digests_equal &= v.digest == vote.digest;
    }
    return verdict;
  }

  void Abort(absl::Status why) noexcept override {
    std::lock_guard lock(shared_->mutex);
    if (shared_->broken.ok()) shared_->broken = why;
    shared_->changed.notify_all();
  }
  std::vector<PeerWait> Waiting() const noexcept override { return {}; }

 private:
  void Finish(SharedView::Sum& sum) {
    std::vector<TreeNode> inputs;
    std::vector<std::vector<float>> slots;
    for (auto& [rank, parts] : sum.parts) {
      for (auto& [node, data] : parts) {
        inputs.push_back(node);
        slots.push_back(data);
      }
    }
    for (const TreeOp& op : PlanFinish(view_.num_replicas, inputs)) {
      for (size_t i = 0; i < slots[op.slot].size(); ++i) slots[op.slot][i] += slots[op.arg][i];
    }
    sum.total = slots[0];
  }

  std::shared_ptr<SharedView> shared_;
  const View view_;
  const int rank_;
  const std::optional<Fault> fault_;
  std::vector<int64_t> offsets_, sizes_;
  std::vector<std::vector<float>> partials_;
  std::vector<float> result_;
};

// The in-process network: members of a view meet here.
class World {
 public:
  std::optional<Fault> fault;

  std::shared_ptr<SharedView> At(ViewId id) {
    std::lock_guard lock(mutex_);
    auto& shared = views_[id.id];
    if (shared == nullptr) shared = std::make_shared<SharedView>();
    return shared;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<SharedView>> views_;
};

class WorldCollectives : public CommunicatorFactory {
 public:
  explicit WorldCollectives(World& world) : world_(world) {}
  absl::Status Prepare(const ArenaShape& shape) override {
    shape_ = shape;
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const View& view, Incarnation self,
                                                        Deadline) override {
    std::optional<Fault> fault;
    if (world_.fault && world_.fault->view == view.id.id) fault = world_.fault;
    return std::make_unique<WorldCommunicator>(world_.At(view.id), view, view.RankOf(self), shape_,
                                               fault);
  }
  std::string data_address() const override { return "nowhere:0"; }

 private:
  World& world_;
  ArenaShape shape_;
};

// Sums of it depend on the order of additions in their last bits.
class ChainLearner : public Learner {
 public:
  static constexpr int kSize = 11;
  ChainLearner() {
    layout_.entries = {{"model/w", DType::kFloat32, {kSize}, 0}, {"step", DType::kInt64, {}, 64}};
    layout_.state_bytes = 128;
    layout_.gradient_size = kSize;
    layout_.buckets = {{0, 4}, {4, 7}};
    layout_.statistics_size = 2;
  }
  const StateLayout& layout() const override { return layout_; }
  absl::Status Bind(StateMemory memory, uint64_t seed) override {
    w_ = reinterpret_cast<float*>(memory.bytes.data());
    step_ = reinterpret_cast<int64_t*>(memory.bytes.data() + 64);
    for (int i = 0; i < kSize; ++i) w_[i] = 1.0f / static_cast<float>(3 + Mix64(seed + i) % 97);
    return absl::OkStatus();
  }
  absl::StatusOr<ReplicaResult> Gradient(Step step, int r, const Batch& batch,
                                         absl::Span<float> gradients,
                                         absl::FunctionRef<void(int)> ready) override {
    const float x = batch.fields[0].as<float>()[0];
    for (int i = 0; i < kSize; ++i) {
      gradients[i] = w_[i] * x / static_cast<float>(1 + r) + static_cast<float>(step % 7) / 3.0f;
      if (i == 3) ready(0);
    }
    ready(1);
    return ReplicaResult{{x, 1.0f}};
  }
  absl::StatusOr<ReplicaResult> Evaluate(const Batch& batch) override {
    return ReplicaResult{{batch.fields[0].as<float>()[0] * w_[0], 1.0f}};
  }
  absl::Status Apply(Step, const Reduced& reduced) override {
    for (int i = 0; i < kSize; ++i) w_[i] -= 0.01f * reduced.gradients[i];
    ++*step_;
    return absl::OkStatus();
  }
  Step step() const override { return *step_; }
  std::vector<std::string> SummaryNames() const override { return {"loss", "count"}; }
  std::vector<double> Summarize(absl::Span<const double> sums, int64_t n) const override {
    return {sums[0] / static_cast<double>(n), sums[1]};
  }
  float* weights() { return w_; }

 private:
  StateLayout layout_;
  float* w_ = nullptr;
  int64_t* step_ = nullptr;
};

class HashSource : public BatchSource {
 public:
  absl::StatusOr<std::shared_ptr<const Batch>> Get(Step step, int r, const Cancel&,
                                                   Deadline) override {
    auto memory = std::make_shared<float>(
        static_cast<float>(HashKey({uint64_t(step), uint64_t(r)}) % 1000) / 7.0f);
    auto batch = std::make_shared<Batch>();
    batch->examples = 1;
    batch->global_examples = 6;
    batch->fields = {{"x", DType::kFloat32, {1}, reinterpret_cast<std::byte*>(memory.get())}};
    batch->memory = memory;
    return batch;
  }
  void Expect(StepRange, int, int) override {}
  int64_t steps_per_epoch() const override { return 10; }
  int64_t GlobalExamples(Step) const override { return 6; }
  uint64_t fingerprint() const override { return name; }

  uint64_t name = 1;
};

// What the stores of all workers have on their shared disk.
struct MemoryDisk {
  struct Checkpoint {
    CheckpointId id;
    std::vector<std::byte> bytes;  // of all tensors, one after another
    uint64_t digest = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::set<int>> shards;  // saved, by checkpoint
  std::map<Step, Checkpoint> committed;
  int abandoned = 0;
  bool full = false;
  bool hangs = false;  // whoever writes waits until it does not
};

class MemoryStore : public CheckpointStore {
 public:
  explicit MemoryStore(MemoryDisk& disk) : disk_(disk) {}

  absl::Status SaveShard(const CheckpointId& id, absl::Span<const TensorSpan>,
                         Shard shard) override {
    std::unique_lock lock(disk_.mutex);
    disk_.changed.wait(lock, [&] { return !disk_.hangs; });
    if (disk_.full) return absl::ResourceExhaustedError("disk full");
    disk_.shards[id.DirectoryName()].insert(shard.index);
    return absl::OkStatus();
  }
  absl::Status Commit(const CheckpointId& id, absl::Span<const TensorSpan> state,
                      int num_shards) override {
    std::unique_lock lock(disk_.mutex);
    disk_.changed.wait(lock, [&] { return !disk_.hangs; });
    if (static_cast<int>(disk_.shards[id.DirectoryName()].size()) != num_shards) {
      return absl::FailedPreconditionError("a shard is missing");
    }
    MemoryDisk::Checkpoint made{id, {}, QuickDigest(state)};
    for (const TensorSpan& tensor : state) {
      made.bytes.insert(made.bytes.end(), tensor.bytes().begin(), tensor.bytes().end());
    }
    disk_.committed[id.step] = std::move(made);
    return absl::OkStatus();
  }
  void Abandon(const CheckpointId&) override {
    std::lock_guard lock(disk_.mutex);
    ++disk_.abandoned;
  }
  std::string PathOf(const CheckpointId& id) const override { return id.DirectoryName(); }

  absl::StatusOr<RestoredCheckpoint> Restore(absl::Span<const TensorSpan> state,
                                             const Accept& accept) override {
    MemoryDisk& disk = reads != nullptr ? *reads : disk_;
    std::lock_guard lock(disk.mutex);
    RestoredCheckpoint restored;
    for (auto it = disk.committed.rbegin(); it != disk.committed.rend(); ++it) {
      const MemoryDisk::Checkpoint& checkpoint = it->second;
      if (only >= 0 && checkpoint.id.step != only) continue;
      if (unreadable.count(checkpoint.id.step) != 0) {
        restored.rejected.push_back({checkpoint.id, "here", absl::DataLossError("rotten")});
        continue;
      }
      const absl::Status accepted = accept ? accept(checkpoint.id) : absl::OkStatus();
      if (!accepted.ok()) {
        restored.rejected.push_back({checkpoint.id, "here", accepted});
        continue;
      }
      const std::byte* from = checkpoint.bytes.data();
      for (const TensorSpan& tensor : state) {
        std::copy_n(from, tensor.num_bytes(), tensor.data);
        from += tensor.num_bytes();
      }
      restored.id = checkpoint.id;
      restored.history = checkpoint.id.history + (only >= 0 ? 1 : 0);
      restored.is_newest = only < 0;
      return restored;
    }
    if (!restored.rejected.empty()) return restored.rejected[0].why;
    return absl::NotFoundError("none");
  }

  std::set<Step> unreadable;    // by this worker
  MemoryDisk* reads = nullptr;  // what it reads instead
  Step only = -1;               // the one to restore

 private:
  MemoryDisk& disk_;
};

// The least coordinator: one view of all; a lost link closes it and makes the next; all leaving:
// stop.
class MiniCoordinator {
 public:
  MiniCoordinator(int workers, int replicas) : workers_(workers), replicas_(replicas) {}

  void Hear(int worker, const WorkerMessage& message) {
    std::lock_guard lock(mutex_);
    if (const auto* hello = std::get_if<Hello>(&message)) {
      at_[worker] = {hello->history, hello->step, hello->digest};
      Arrived(worker, joined_);
    }
    if (const auto* closed = std::get_if<Closed>(&message)) {
      at_[worker] = {closed->history, closed->step, closed->digest};
      Arrived(worker, joined_);
    }
    const bool known = at_.count(worker) != 0;  // nothing counts before hello
    if (const auto* note = std::get_if<Note>(&message); note && known) notes_.push_back(*note);
    if (const auto* done = std::get_if<CheckpointCommitted>(&message)) said_.push_back(done->step);
    if (std::holds_alternative<LinkLost>(message) && !closing_) {
      closing_ = true;
      Tell(Close{{1, view_}, std::get<LinkLost>(message).why});
    }
    if (std::holds_alternative<Synced>(message)) {
      synced_.insert(worker);
      if (synced_.size() == size_t(workers_)) Tell(everstep::Commit{{1, view_}});
    }
    if (std::holds_alternative<Leaving>(message)) {
      leaving_.insert(worker);
      const Leaving& leaving = std::get<Leaving>(message);
      const bool finished = leaving.reason == LeaveReason::kFinished;
      if (!finished || leaving_.size() == size_t(workers_)) {
        Tell(Stop{finished                                 ? 0
                  : leaving.reason == LeaveReason::kFailed ? leaving.exit_code
                                                           : 143,
                  {},
                  leaving.message});
      }
    }
  }
  void Tell(const WorkerOrder& order) {
    for (int w = 0; w < workers_; ++w) {
      orders_[w].push_back(order);
      if (callbacks_[w] &&
          (std::holds_alternative<Close>(order) || std::holds_alternative<Stop>(order))) {
        callbacks_[w](order);
      }
    }
    changed_.notify_all();
  }
  void TellFromOutside(const WorkerOrder& order) {
    std::lock_guard lock(mutex_);
    Tell(order);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::deque<WorkerOrder>> orders_;
  std::map<int, std::function<void(const WorkerOrder&)>> callbacks_;
  int64_t view_ = 0;
  bool lies_once_ = false;  // about the digest of a state that is given
  std::vector<Note> notes_;
  std::vector<Step> said_;  // committed checkpoints

 private:
  void Arrived(int worker, std::set<int>& set) {
    set.insert(worker);
    if (set.size() != size_t(workers_)) return;
    set.clear();
    synced_.clear();
    closing_ = false;
    View view;
    view.id = {1, ++view_};
    view.num_replicas = replicas_;
    const std::vector<int> begins = AssignReplicas(replicas_, workers_);
    for (int w = 0; w < workers_; ++w) {
      view.members.push_back(
          {{"worker", w}, Incarnation(w + 1), "h", "", begins[w], begins[w + 1]});
    }
    // The newest state there is, from the first who holds it.
    StateOrigin origin{-1, 0, 0, -1};
    bool all = true;
    for (int w = 0; w < workers_; ++w) {
      const auto& [history, step, digest] = at_[w];
      all = all && at_[w] == at_[0];
      if (std::make_pair(history, step) > std::make_pair(origin.history, origin.step)) {
        origin = {history, step, digest, w};
      }
    }
    if (all) origin.donor = -1;
    if (!all && std::exchange(lies_once_, false)) origin.digest ^= 1;
    Tell(everstep::Prepare{view, origin});
  }

  const int workers_, replicas_;
  std::map<int, std::tuple<History, Step, uint64_t>> at_;
  bool closing_ = false;
  std::set<int> joined_, synced_, leaving_;
};

class MiniLink : public ControlLink {
 public:
  MiniLink(MiniCoordinator& coordinator, int worker) : coordinator_(coordinator), worker_(worker) {}
  void Send(WorkerMessage message) override { coordinator_.Hear(worker_, message); }
  std::optional<WorkerOrder> Next(Deadline deadline) override {
    std::unique_lock lock(coordinator_.mutex_);
    auto& orders = coordinator_.orders_[worker_];
    coordinator_.changed_.wait_until(lock, deadline, [&] { return !orders.empty(); });
    if (orders.empty()) return std::nullopt;
    WorkerOrder order = orders.front();
    orders.pop_front();
    return order;
  }
  void OnInterrupt(std::function<void(const WorkerOrder&)> callback) override {
    std::lock_guard lock(coordinator_.mutex_);
    coordinator_.callbacks_[worker_] = std::move(callback);
  }
  Duration AwayFor() const override { return {}; }

 private:
  MiniCoordinator& coordinator_;
  const int worker_;
};

}  // namespace everstep::test_world
