// membership: the coordinator: what streams bring becomes events, what Decide answers goes out.
#include "everstep/membership/coordinator.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "everstep/env/clock.h"
#include "everstep/membership/job_status.h"
#include "everstep/membership/translate.h"
#include "everstep/metrics/log.h"
#include "everstep/wire/server.h"

namespace everstep {
namespace {

constexpr Duration kFarewell = std::chrono::seconds(2);  // for agents to take the end of the job
constexpr Duration kStatusInterval = std::chrono::seconds(1);

// Who speaks on which stream. The newest stream of a worker or agent is its stream; one that it
// left behind may close later without meaning anything.
template <typename Name>
class Directory {
 public:
  void Bind(SessionId session, const Name& name) {
    Release(session);
    if (auto it = session_of_.find(name); it != session_of_.end()) name_of_.erase(it->second);
    session_of_[name] = session;
    name_of_[session] = name;
  }
  const Name* NameOf(SessionId session) const {
    auto it = name_of_.find(session);
    return it == name_of_.end() ? nullptr : &it->second;
  }
  void Release(SessionId session) {
    auto it = name_of_.find(session);
    if (it == name_of_.end()) return;
    session_of_.erase(it->second);
    name_of_.erase(it);
  }
  std::vector<SessionId> SessionsOf(const std::vector<Name>& names) const {
    std::vector<SessionId> sessions;
    for (const Name& name : names) {
      if (auto it = session_of_.find(name); it != session_of_.end()) sessions.push_back(it->second);
    }
    return sessions;
  }
  bool empty() const { return name_of_.empty(); }

 private:
  std::unordered_map<Name, SessionId> session_of_;
  std::unordered_map<SessionId, Name> name_of_;
};

struct Arrival {
  SessionId session = 0;                                                      // 0: from within
  std::variant<WorkerMessage, AgentMessage, StopAsked, std::monostate> what;  // monostate: closed
};

class Loop final : public Coordinator, public ControlHandler {
 public:
  explicit Loop(CoordinatorOptions options)
      : options_(std::move(options)),
        clock_(options_.clock != nullptr ? *options_.clock : RealClock()),
        state_(MakeJob(options_.job)),
        status_(state_.line) {}

  ~Loop() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      quit_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    if (server_ != nullptr) server_->Shutdown(clock_.Now());
  }

  absl::Status Begin() {
    ControlServerOptions server_options{options_.listen, options_.credentials};
    server_options.join_secret = options_.join_secret;
    auto server = ControlServer::Start(std::move(server_options), this);
    if (!server.ok()) return server.status();
    server_ = std::move(*server);
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  int port() const override { return server_->port(); }

  std::optional<JobEnded> WaitForEnd(Deadline deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return end_told_; });
    if (!end_told_) return std::nullopt;
    return end_;
  }

  void RequestStop(std::string reason) override { Arrive({0, StopAsked{std::move(reason)}}); }

  std::string Status() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

  // ---- the server's calls ----

  void OnMessage(SessionId session, wire::FromWorker message) override {
    if (auto m = FromProto(message)) Arrive({session, std::move(*m)});
  }
  void OnMessage(SessionId session, wire::FromAgent message) override {
    if (auto m = FromProto(message)) Arrive({session, std::move(*m)});
  }
  void OnClosed(SessionId session) override { Arrive({session, std::monostate{}}); }

 private:
  void Arrive(Arrival arrival) {
    std::lock_guard<std::mutex> lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    arrived_.notify_one();
  }

  void Run();
  bool MayDecide();
  bool Pause();
  void HearJournal();
  void PublishStatus();
  std::deque<Arrival> TakeArrivals(Deadline deadline, bool* quit);
  void Handle(Arrival& arrival);
  void Feed(const Event& event);
  void Perform(CoordinatorAction& action);
  void Farewell();

  const CoordinatorOptions options_;
  const Clock& clock_;
  std::unique_ptr<ControlServer> server_;

  // The loop thread's alone.
  JobState state_;
  Directory<Incarnation> workers_;
  Directory<std::string> agents_;
  bool over_ = false;
  bool paused_ = false;
  bool superseded_ = false;
  int64_t records_ = 0;  // given to the journal
  int64_t durable_ = 0;  // of them, as far as Decide has been told
  TimePoint next_status_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable changed_;
  std::deque<Arrival> arrivals_;
  std::string status_;
  bool quit_ = false;
  bool end_told_ = false;
  JobEnded end_;

  std::thread thread_;
};

void Loop::Run() {
  TimePoint next_tick = clock_.Now();
  bool quit = false;
  while (!over_) {
    if (!MayDecide()) {
      if (Pause()) return;
      continue;
    }
    std::deque<Arrival> arrivals = TakeArrivals(next_tick, &quit);
    if (quit) return;
    for (Arrival& arrival : arrivals) {
      if (!over_) Handle(arrival);
    }
    HearJournal();
    if (over_ || clock_.Now() < next_tick) continue;
    Feed(Tick{});
    next_tick = clock_.Now() + options_.tick;
    if (clock_.Now() >= next_status_) PublishStatus();
  }
  PublishStatus();
  Farewell();
}

// Another coordinator may hold the job by now when the lease could not be renewed.
bool Loop::MayDecide() {
  if (options_.journal == nullptr) return true;
  if (!superseded_ && options_.journal->superseded()) {
    superseded_ = true;
    Feed(Superseded{});
  }
  const bool may = superseded_ || options_.journal->lease_held();
  if (may == paused_) {
    paused_ = !may;
    may ? log::Info("membership", "the lease of the job is held again")
        : log::Warning("membership",
                       "the lease of the job could not be renewed: nothing is decided until it is; "
                       "see whether the job directory can be written");
  }
  return may;
}

// For the time of a tick; arrivals stay where they are. True: the coordinator goes away.
bool Loop::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_until(lock, clock_.Now() + options_.tick, [&] { return quit_; });
}

void Loop::HearJournal() {
  const int64_t durable = options_.journal != nullptr ? options_.journal->durable() : records_;
  if (over_ || durable <= durable_) return;
  durable_ = durable;
  Feed(Journaled{durable});
}

void Loop::PublishStatus() {
  const TimePoint now = clock_.Now();
  next_status_ = now + kStatusInterval;
  if (options_.journal != nullptr) options_.journal->Publish(StatusOf(now, state_));
}

std::deque<Arrival> Loop::TakeArrivals(Deadline deadline, bool* quit) {
  std::unique_lock<std::mutex> lock(mutex_);
  arrived_.wait_until(lock, deadline, [&] { return quit_ || !arrivals_.empty(); });
  *quit = quit_;
  return std::exchange(arrivals_, {});
}

void Loop::Handle(Arrival& arrival) {
  if (auto* stop = std::get_if<StopAsked>(&arrival.what)) return Feed(*stop);
  if (auto* message = std::get_if<WorkerMessage>(&arrival.what)) {
    if (const auto* hello = std::get_if<Hello>(message)) {
      workers_.Bind(arrival.session, hello->incarnation);
      log::Debug("membership", "hello of {} from {}", hello->task.ToString(),
                 server_->PeerOf(arrival.session));
    }
    // Before its hello a stream is nobody's.
    if (const Incarnation* incarnation = workers_.NameOf(arrival.session)) {
      Feed(WorkerSaid{*incarnation, std::move(*message)});
    }
  } else if (auto* message = std::get_if<AgentMessage>(&arrival.what)) {
    if (const auto* self = std::get_if<Register>(message)) {
      agents_.Bind(arrival.session, self->agent);
    }
    if (const std::string* name = agents_.NameOf(arrival.session)) {
      Feed(AgentSaid{*name, std::move(*message)});
    }
  } else if (const Incarnation* found = workers_.NameOf(arrival.session)) {
    const Incarnation incarnation = *found;
    workers_.Release(arrival.session);
    Feed(WorkerStreamLost{incarnation});
  } else if (const std::string* found = agents_.NameOf(arrival.session)) {
    const std::string name = *found;
    agents_.Release(arrival.session);
    Feed(AgentStreamLost{name});
  }
}

void Loop::Feed(const Event& event) {
  Decision decision = Decide(clock_.Now(), state_, event);
  for (CoordinatorAction& action : decision.actions) Perform(action);
  std::lock_guard<std::mutex> lock(mutex_);
  if (decision.reason == status_) return;
  log::Info("membership", "{}", decision.reason);
  status_ = std::move(decision.reason);
}

void Loop::Perform(CoordinatorAction& action) {
  if (auto* tell = std::get_if<TellWorkers>(&action)) {
    server_->Send(workers_.SessionsOf(tell->to), ToProto(tell->order));
  } else if (auto* tell = std::get_if<TellAgents>(&action)) {
    server_->Send(agents_.SessionsOf(tell->to), ToProto(tell->order));
  } else if (auto* record = std::get_if<Record>(&action)) {
    ++records_;
    if (options_.journal != nullptr) options_.journal->Record(std::move(record->record));
  } else if (auto* line = std::get_if<LogLine>(&action)) {
    line->warning ? log::Warning("membership", "{}", line->text)
                  : log::Info("membership", "{}", line->text);
  } else {
    const auto& end = std::get<EndJob>(action);
    std::lock_guard<std::mutex> lock(mutex_);
    end_ = {end.code, end.reason};
    over_ = true;
  }
}

// An agent ends its stream when it has taken JobEnded: so this knows that it has been told.
void Loop::Farewell() {
  const Deadline deadline = After(clock_, kFarewell);
  bool quit = false;
  while (!agents_.empty() && !quit && clock_.Now() < deadline) {
    for (Arrival& arrival : TakeArrivals(deadline, &quit)) {
      if (std::holds_alternative<std::monostate>(arrival.what)) {
        agents_.Release(arrival.session);
      } else if (const auto* message = std::get_if<AgentMessage>(&arrival.what)) {
        const auto* self = std::get_if<Register>(message);
        if (self == nullptr) continue;
        agents_.Bind(arrival.session, self->agent);  // came, or came back, at the last moment
        server_->Send({arrival.session}, ToProto(AgentOrder(end_)));
      }
    }
  }
  if (!agents_.empty() && !quit) {
    log::Warning("membership", "not all agents have taken the end of the job");
  }
  // Out before WaitForEnd returns: its caller may end the process.
  if (!quit) server_->Shutdown(deadline);
  std::lock_guard<std::mutex> lock(mutex_);
  end_told_ = true;
  changed_.notify_all();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options) {
  if (absl::Status status = CheckJob(options.job); !status.ok()) return status;
  auto loop = std::make_unique<Loop>(std::move(options));
  if (absl::Status status = loop->Begin(); !status.ok()) return status;
  return std::unique_ptr<Coordinator>(std::move(loop));
}

}  // namespace everstep
