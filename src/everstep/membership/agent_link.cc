// membership: an agent's end of the control plane.
#include "everstep/membership/agent_link.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include "everstep/membership/keeper.h"
#include "everstep/membership/translate.h"

namespace everstep {
namespace {

class Link final : public AgentLink {
 public:
  explicit Link(AgentLinkOptions options)
      : options_(std::move(options)),
        clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
        self_(options_.self),
        credentials_(options_.credentials),
        keeper_(options_.address, HooksOf(), clock_) {}

  absl::Status Start() { return keeper_.Start(options_.connect_timeout); }

  ~Link() override { keeper_.End(); }

  void Send(AgentMessage message) override {
    keeper_.Say(ToProto(message), [&] { Keep(message); });
  }

  std::optional<AgentOrder> Next(Deadline deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (deadline > clock_.Now()) {
      arrived_.wait_until(lock, deadline, [&] { return !orders_.empty(); });
    }
    if (orders_.empty()) return std::nullopt;
    AgentOrder order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  void ProveBy(const JobSecret& secret) override {
    std::lock_guard<std::mutex> lock(mutex_);
    credentials_.secret = secret;
  }

  Duration AwayFor() const override { return keeper_.AwayFor(); }

 private:
  using AgentKeeper = Keeper<wire::ToAgent, wire::FromAgent>;

  AgentKeeper::Hooks HooksOf() {
    AgentKeeper::Hooks hooks;
    hooks.open = [this](StreamCallbacks<wire::ToAgent> callbacks) {
      ControlClientOptions client{options_.address, CredentialsNow()};
      return OpenAgentStream(std::move(client), std::move(callbacks));
    };
    hooks.on_open = [this] {
      std::vector<wire::FromAgent> words = {ToProto(AgentMessage(self_))};
      for (const AgentMessage& message : said_) words.push_back(ToProto(message));
      if (checkpoint_.has_value()) {
        CheckpointSeen seen = *checkpoint_;
        seen.age += clock_.Now() - checkpoint_at_;
        words.push_back(ToProto(AgentMessage(std::move(seen))));
      }
      return words;
    };
    hooks.on_message = [this](wire::ToAgent proto) {
      if (auto order = FromProto(proto)) Take(std::move(*order));
    };
    return hooks;
  }

  Credentials CredentialsNow() {
    std::lock_guard<std::mutex> lock(mutex_);
    return credentials_;
  }

  // What has to be said again after a reconnect. Vitals come anew all the time.
  void Keep(const AgentMessage& message) {
    if (const auto* self = std::get_if<Register>(&message)) {
      self_ = *self;
    } else if (const auto* ports = std::get_if<Ports>(&message)) {
      // A claimed task's address is in the cluster that the others were told.
      if (!self_.task) self_.ports = ports->ports;
    } else if (const auto* seen = std::get_if<CheckpointSeen>(&message)) {
      checkpoint_ = *seen;
      checkpoint_at_ = clock_.Now();
    } else if (!std::holds_alternative<Vitals>(message)) {
      said_.push_back(message);
    }
  }

  void Take(AgentOrder order) {
    const bool last = std::holds_alternative<JobEnded>(order);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      // Repeated after a reconnect, as it may not have arrived.
      const auto* spawn = std::get_if<Spawn>(&order);
      if (spawn != nullptr && !spawned_.insert(spawn->incarnation).second) return;
      orders_.push_back(std::move(order));
      arrived_.notify_all();
    }
    // The coordinator takes the end of the stream as the sign that its last order has arrived.
    if (last) keeper_.Retire();
    if (options_.on_arrival) options_.on_arrival();
  }

  const AgentLinkOptions options_;
  const Clock& clock_;

  // Under the keeper's lock.
  Register self_;
  std::vector<AgentMessage> said_;            // a few for each process that ended, so never many
  std::optional<CheckpointSeen> checkpoint_;  // the newest
  TimePoint checkpoint_at_;                   // when it was said: its age grows

  std::mutex mutex_;
  std::condition_variable arrived_;
  Credentials credentials_;
  std::deque<AgentOrder> orders_;
  std::set<Incarnation> spawned_;

  AgentKeeper keeper_;  // last: its threads use the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentLink>> ConnectAgent(AgentLinkOptions options) {
  if (absl::Status s = CheckAddress(options.address, options.credentials); !s.ok()) return s;
  auto link = std::make_unique<Link>(std::move(options));
  if (absl::Status status = link->Start(); !status.ok()) return status;
  return std::unique_ptr<AgentLink>(std::move(link));
}

}  // namespace everstep
