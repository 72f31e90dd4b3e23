// wire: ControlServer over gRPC's callback API.
#include "everstep/wire/server.h"

#include <condition_variable>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "everstep/metrics/log.h"
#include "everstep/wire/control.grpc.pb.h"
#include "everstep/wire/server_session.h"

namespace everstep {
namespace {

using WorkerSession = Session<wire::FromWorker, wire::ToWorker, StreamKind::kWorker>;
using AgentSession = Session<wire::FromAgent, wire::ToAgent, StreamKind::kAgent>;

// "ipv4:127.0.0.1:41002" and "ipv6:%5B::1%5D:41002", as gRPC names peers.
std::string PeerText(const std::string& peer) {
  absl::string_view text = peer;
  absl::ConsumePrefix(&text, "ipv4:");
  absl::ConsumePrefix(&text, "ipv6:");
  return std::string(text);
}

// Refuses a stream that never became a session.
template <typename In, typename Out>
class Refusal final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit Refusal(const absl::Status& why) { this->Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

class Server final : public ControlServer,
                     public SessionOwner,
                     public wire::Control::CallbackService {
 public:
  Server(ControlServerOptions options, ControlHandler* handler)
      : options_(std::move(options)), handler_(handler) {}

  ~Server() override { Shutdown(RealClock().Now()); }

  absl::Status Listen();

  int port() const override { return port_; }

  std::string PeerOf(SessionId session) const override {
    auto found = Find(session);
    return found == nullptr ? "a stream that is gone" : found->peer;
  }

  void Send(absl::Span<const SessionId> sessions, wire::ToWorker message) override {
    SendTo(sessions, std::make_shared<const wire::ToWorker>(std::move(message)));
  }
  void Send(absl::Span<const SessionId> sessions, wire::ToAgent message) override {
    SendTo(sessions, std::make_shared<const wire::ToAgent>(std::move(message)));
  }

  void Close(SessionId session) override {
    if (auto found = Find(session)) found->CloseAfterSent(absl::OkStatus());
  }

  void Shutdown(Deadline deadline) override;

  // ---- gRPC's calls ----

  grpc::ServerBidiReactor<wire::FromWorker, wire::ToWorker>* Worker(
      grpc::CallbackServerContext* context) override {
    return Accept<WorkerSession, wire::FromWorker, wire::ToWorker>(context);
  }
  grpc::ServerBidiReactor<wire::FromAgent, wire::ToAgent>* Agent(
      grpc::CallbackServerContext* context) override {
    return Accept<AgentSession, wire::FromAgent, wire::ToAgent>(context);
  }

  // ---- its sessions' calls ----

  void Refused(const std::string& peer, const absl::Status& why) override;

  void Gone(SessionId id, bool was_proven) override {
    if (was_proven) handler_->OnClosed(id);
    std::lock_guard<std::mutex> lock(mutex_);
    sessions_.erase(id);
    changed_.notify_all();
  }

 private:
  template <typename SessionType, typename In, typename Out>
  grpc::ServerBidiReactor<In, Out>* Accept(grpc::CallbackServerContext* context);

  template <typename Message>
  void SendTo(absl::Span<const SessionId> ids, const std::shared_ptr<const Message>& message) {
    for (SessionId id : ids) {
      if (auto session = Find(id)) session->Send(message);
    }
  }

  std::shared_ptr<SessionBase> Find(SessionId id) const {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = sessions_.find(id);
    return it == sessions_.end() ? nullptr : it->second;
  }

  std::vector<std::shared_ptr<SessionBase>> All() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<SessionBase>> all;
    for (const auto& [id, session] : sessions_) all.push_back(session);
    return all;
  }

  // Cuts streams that do not prove themselves in time.
  void Watch();

  const ControlServerOptions options_;
  ControlHandler* const handler_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::thread watcher_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<SessionId, std::shared_ptr<SessionBase>> sessions_;
  SessionId next_id_ = 1;
  bool stopping_ = false;
  TimePoint last_refusal_told_;
  int refusals_untold_ = 0;
};

absl::Status Server::Listen() {
  TakeOverGrpcLog();
  grpc::ServerBuilder builder;
  // With SO_REUSEPORT, gRPC's default, two coordinators would share a port and each see half.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveTimeMs / 2);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 8);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
  builder.SetMaxReceiveMessageSize(kMaxBytesFromClients);
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  GrpcErrorCapture errors;
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    server_.reset();
    const bool in_use = absl::StrContains(errors.text(), "in use");
    return absl::UnavailableError(absl::StrCat(
        "cannot listen at ", options_.listen, ": ",
        in_use ? "port in use; end the other program or choose another port"
               : "the address is not this host's or may not be used; choose another address"));
  }
  watcher_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

template <typename SessionType, typename In, typename Out>
grpc::ServerBidiReactor<In, Out>* Server::Accept(grpc::CallbackServerContext* context) {
  const std::string peer = PeerText(context->peer());
  int unproven = 0;
  for (const auto& session : All()) unproven += session->proven() ? 0 : 1;
  if (unproven >= options_.max_unproven) {
    const absl::Status why = absl::ResourceExhaustedError("too many streams wait to be proven");
    Refused(peer, why);
    return new Refusal<In, Out>(why);
  }
  const JobSecret* join = options_.join_secret ? &*options_.join_secret : nullptr;
  auto session =
      std::make_shared<SessionType>(context, options_.credentials.secret, join, handler_, this);
  session->peer = peer;
  session->since = RealClock().Now();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return new Refusal<In, Out>(absl::UnavailableError("the coordinator is ending"));
    session->id = next_id_++;
    sessions_[session->id] = session;
  }
  SessionType* raw = session.get();
  raw->Begin(std::move(session));
  return raw;
}

// A scanner must not fill the disk with our log.
void Server::Refused(const std::string& peer, const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  const TimePoint now = RealClock().Now();
  if (last_refusal_told_ != TimePoint() && now - last_refusal_told_ < std::chrono::seconds(1)) {
    ++refusals_untold_;
    return;
  }
  last_refusal_told_ = now;
  log::Warning("wire", "dropped a control stream from {}: {}{}", peer, std::string(why.message()),
               refusals_untold_ > 0 ? absl::StrCat(" (and ", refusals_untold_, " more before)")
                                    : std::string());
  refusals_untold_ = 0;
}

void Server::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(
        lock, std::min<Duration>(options_.proof_deadline / 4, std::chrono::milliseconds(500)));
    lock.unlock();
    const TimePoint now = RealClock().Now();
    for (const auto& session : All()) {
      if (session->proven() || now - session->since < options_.proof_deadline) continue;
      Refused(session->peer, absl::DeadlineExceededError("it did not prove itself in time"));
      session->Cut();
    }
    lock.lock();
  }
}

void Server::Shutdown(Deadline deadline) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (server_ == nullptr) return;
  for (const auto& session : All()) session->CloseAfterSent(absl::OkStatus());
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return sessions_.empty(); });
  }
  for (const auto& session : All()) session->Cut();
  // All that is left is cut already; this lets gRPC see it.
  server_->Shutdown(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(100, GPR_TIMESPAN)));
  server_->Wait();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return sessions_.empty(); });
  }
  server_.reset();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(ControlServerOptions options,
                                                                    ControlHandler* handler) {
  if (absl::Status status = CheckAddress(options.listen, options.credentials); !status.ok()) {
    return status;
  }
  auto server = std::make_unique<Server>(std::move(options), handler);
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return std::unique_ptr<ControlServer>(std::move(server));
}

}  // namespace everstep
