// membership: a worker's end of the control plane over the network.
#include "everstep/membership/worker_link.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "everstep/membership/keeper.h"
#include "everstep/membership/translate.h"

namespace everstep {
namespace {

class WorkerLink final : public ControlLink {
 public:
  explicit WorkerLink(WorkerLinkOptions options)
      : options_(std::move(options)),
        clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
        keeper_(options_.address, HooksOf(), clock_) {}

  absl::Status Start() { return keeper_.Start(options_.connect_timeout); }

  ~WorkerLink() override { keeper_.End(); }

  void Send(WorkerMessage message) override {
    // The last values go out before the end that they belong to.
    if (std::holds_alternative<Leaving>(message)) SendBeat();
    const wire::FromWorker proto = ToProto(message);
    keeper_.Say(proto, [&] { Remember(message); });
  }

  std::optional<WorkerOrder> Next(Deadline deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (deadline > clock_.Now()) {
      arrived_.wait_until(lock, deadline, [&] { return !orders_.empty(); });
    }
    if (orders_.empty()) return std::nullopt;
    WorkerOrder order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  void OnInterrupt(std::function<void(const WorkerOrder&)> callback) override {
    // Held while a callback runs, so this waits for one that does.
    std::lock_guard<std::mutex> running(interrupt_mutex_);
    interrupt_ = std::move(callback);
  }

  Duration AwayFor() const override { return keeper_.AwayFor(); }

 private:
  using WorkerKeeper = Keeper<wire::ToWorker, wire::FromWorker>;

  WorkerKeeper::Hooks HooksOf() {
    WorkerKeeper::Hooks hooks;
    const ControlClientOptions client{options_.address, options_.credentials};
    hooks.open = [client](StreamCallbacks<wire::ToWorker> callbacks) {
      return OpenWorkerStream(client, std::move(callbacks));
    };
    hooks.on_open = [this] { return FirstWords(); };
    hooks.on_message = [this](wire::ToWorker proto) {
      if (auto order = FromProto(proto)) Take(std::move(*order));
    };
    hooks.on_beat = [this] { SendBeat(); };
    hooks.beat_interval = options_.beat_interval;
    return hooks;
  }

  // ---- under the keeper's lock ----

  // What a new stream must hear: who this is, and all it said of the newest view it spoke of.
  void Remember(const WorkerMessage& message) {
    if (const auto* hello = std::get_if<Hello>(&message)) {
      hello_ = *hello;
      said_.clear();
    } else if (const auto* lost = std::get_if<LinkLost>(&message)) {
      Keep(lost->view, message);
    } else if (const auto* closed = std::get_if<Closed>(&message)) {
      hello_.history = closed->history;
      Keep(closed->view, message);
    } else if (const auto* synced = std::get_if<Synced>(&message)) {
      Keep(synced->view, message);
    } else if (const auto* leaving = std::get_if<Leaving>(&message)) {
      Keep(leaving->view, message);
    } else if (std::holds_alternative<CheckpointCommitted>(message)) {
      newest_checkpoint_ = message;  // says all that those before it said
    } else if (std::holds_alternative<Note>(message)) {
      notes_.push_back(message);
      if (notes_.size() > kMaxNotes) notes_.pop_front();
    }
  }

  void Keep(ViewId view, const WorkerMessage& message) {
    if (said_view_ < view) said_.clear();
    said_view_ = std::max(said_view_, view);
    if (said_.size() < kMaxKept) said_.push_back(message);
  }

  std::vector<wire::FromWorker> FirstWords() {
    std::vector<wire::FromWorker> words;
    if (hello_.incarnation == 0) return words;  // it has not said who it is yet
    Hello hello = hello_;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      hello.view = committed_;
    }
    if (options_.phases != nullptr && hello.view != ViewId{}) {
      hello.step = options_.phases->Read().step;
      hello.digest = 0;  // of another step than this one: not known
    }
    words.push_back(ToProto(WorkerMessage(std::move(hello))));
    if (newest_checkpoint_) words.push_back(ToProto(*newest_checkpoint_));
    for (const WorkerMessage& note : notes_) words.push_back(ToProto(note));
    for (const WorkerMessage& message : said_) words.push_back(ToProto(message));
    return words;
  }

  // ---- from the stream's threads ----

  void Take(WorkerOrder order) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!IsNew(order)) return;
    }
    if (std::holds_alternative<Close>(order) || std::holds_alternative<Stop>(order)) {
      std::lock_guard<std::mutex> running(interrupt_mutex_);
      if (interrupt_) interrupt_(order);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    orders_.push_back(std::move(order));
    arrived_.notify_all();
  }

  // After a reconnect the coordinator repeats what may not have arrived. Needs the lock.
  bool IsNew(const WorkerOrder& order) {
    if (const auto* welcome = std::get_if<Welcome>(&order)) {
      stale_ = welcome->term < term_;
      const bool fresh = welcome->term > term_;
      term_ = std::max(term_, welcome->term);
      return fresh;
    }
    if (stale_) return false;  // a coordinator of an older term
    if (const auto* prepare = std::get_if<Prepare>(&order))
      return Rises(prepare->view.id, prepared_);
    if (const auto* commit = std::get_if<Commit>(&order)) return Rises(commit->view, committed_);
    if (const auto* close = std::get_if<Close>(&order)) return Rises(close->view, closed_);
    return true;  // Stop: whoever repeats it means it
  }

  static bool Rises(ViewId id, ViewId& newest) {
    if (!(newest < id)) return false;
    newest = id;
    return true;
  }

  // ---- beats ----

  void SendBeat() {
    Beat beat;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      beat.view = committed_;
    }
    if (options_.phases != nullptr) {
      const PhaseBoard::Reading reading = options_.phases->Read();
      beat.step = reading.step;
      beat.phase = NameOf(reading.phase);
      beat.in_phase = reading.in_phase;
    }
    if (options_.waits) beat.waits = options_.waits();
    if (options_.scalars) beat.scalars = options_.scalars();
    keeper_.Say(ToProto(WorkerMessage(std::move(beat))), [] {});
  }

  static constexpr size_t kMaxKept = 64;
  static constexpr size_t kMaxNotes = 8;

  const WorkerLinkOptions options_;
  const Clock& clock_;

  // Under the keeper's lock.
  Hello hello_;
  ViewId said_view_;
  std::vector<WorkerMessage> said_;
  std::optional<WorkerMessage> newest_checkpoint_;
  std::deque<WorkerMessage> notes_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<WorkerOrder> orders_;
  int64_t term_ = 0;
  bool stale_ = false;
  ViewId prepared_, committed_, closed_;  // the newest that were handed on

  std::mutex interrupt_mutex_;
  std::function<void(const WorkerOrder&)> interrupt_;

  WorkerKeeper keeper_;  // last: its threads use the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlLink>> ConnectWorker(WorkerLinkOptions options) {
  if (absl::Status s = CheckAddress(options.address, options.credentials); !s.ok()) return s;
  auto link = std::make_unique<WorkerLink>(std::move(options));
  if (absl::Status status = link->Start(); !status.ok()) return status;
  return std::unique_ptr<ControlLink>(std::move(link));
}

}  // namespace everstep
