// collective: one process's place in the collectives.
#include "everstep/collective/endpoint.h"

#include <algorithm>
#include <utility>

#include "everstep/base/status.h"
#include "everstep/collective/connector.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {
constexpr Duration kExitWait = std::chrono::milliseconds(50);
}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Make(const JobSecret& secret,
                                                         const EndpointOptions& options) {
  if (options.incarnation == 0) {
    return absl::InvalidArgumentError("an endpoint needs the incarnation of its process");
  }
  std::unique_ptr<Endpoint> endpoint(new Endpoint(secret, options));
  // In this order: peers take an open TCP door to mean that the other one is open
  // (Connector::Dial).
  EV_ASSIGN_OR_RETURN(UniqueFd local, ListenAbstract(UnixNameOf(secret, options.incarnation)));
  EV_ASSIGN_OR_RETURN(UniqueFd tcp, ListenTcpInRange(options.listen_host, options.preferred_port,
                                                     options.first_port, options.last_port));
  EV_ASSIGN_OR_RETURN(const int port, PortOf(tcp.get()));
  const std::string& host =
      options.advertised_host.empty() ? options.listen_host : options.advertised_host;
  endpoint->address_ = HostPort{host, port}.ToString();
  EV_ASSIGN_OR_RETURN(endpoint->cancel_, MakeEventFd());
  EV_ASSIGN_OR_RETURN(endpoint->acceptor_, Acceptor::Start(std::move(tcp), std::move(local), secret,
                                                           options.incarnation, options.acceptor));
  return endpoint;
}

Endpoint::~Endpoint() = default;

absl::Status Endpoint::Prepare(const ArenaShape& shape) {
  if (layout_ != nullptr) {
    return absl::FailedPreconditionError("the endpoint's memory is prepared already");
  }
  EV_ASSIGN_OR_RETURN(layout_, ArenaLayout::Make(shape));
  EV_ASSIGN_OR_RETURN(arena_, Arena::Create(layout_));
  return absl::OkStatus();
}

absl::Status Endpoint::CheckView(const View& view, Incarnation self) const {
  if (layout_ == nullptr) {
    return absl::FailedPreconditionError("Prepare the endpoint before it connects");
  }
  const int rank = view.RankOf(self);
  if (self != options_.incarnation || rank < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this process (incarnation ", self, ") is not a member of view ", view.id.ToString()));
  }
  if (view.members.size() > static_cast<size_t>(kMaxMembers)) {
    return absl::InvalidArgumentError(absl::StrCat("a view of ", view.members.size(),
                                                   " members; at most ", kMaxMembers, " can be"));
  }
  int at = 0;
  for (const Member& m : view.members) {
    if (m.replica_begin != at || m.replica_end < at) {
      return absl::InvalidArgumentError(absl::StrCat("the replicas of view ", view.id.ToString(),
                                                     " do not follow each other at ",
                                                     m.task.ToString()));
    }
    at = m.replica_end;
  }
  if (at != view.num_replicas || at == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the members of view ", view.id.ToString(),
                                                   " run ", at, " of ", view.num_replicas,
                                                   " replicas"));
  }
  const Member& me = view.members[rank];
  const size_t parts = MaximalNodes(view.num_replicas, me.replica_begin, me.replica_end).size();
  if (static_cast<int>(parts) > layout_->shape().slots) {
    return absl::InvalidArgumentError(
        absl::StrCat("this member has ", parts, " partial sums but only ", layout_->shape().slots,
                     " partial buffers; size them by MaxSlots(R)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> Endpoint::Connect(const View& view, Incarnation self,
                                                                Deadline deadline) {
  EV_RETURN_IF_ERROR(CheckView(view, self));
  EV_ASSIGN_OR_RETURN(const bool clean, exposures_->CleanFor(view, kExitWait));
  if (!clean) {
    EV_ASSIGN_OR_RETURN(arena_, Arena::Create(layout_));
  }
  acceptor_->RaiseFloor(view.id);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    connecting_ = view.id;
    DrainEventFd(cancel_.get());
    if (!(abandoned_ < view.id)) SignalEventFd(cancel_.get());
  }
  Connector connector(
      {secret_, *acceptor_, arena_, options_.step_limit, cancel_.get(),
       [this](Incarnation incarnation, int pid_fd) { exposures_->Remember(incarnation, pid_fd); }},
      view, view.RankOf(self), deadline);
  absl::StatusOr<CommunicatorParts> parts = connector.Run();
  if (!parts.ok()) return parts.status();
  parts->lost_after = options_.lost_after;
  parts->on_end = [exposures = exposures_, view](const std::vector<int>& departed) {
    for (int rank : departed) exposures->Forget(view.members[rank].incarnation);
  };
  return TreeCommunicator::Make(*std::move(parts), RealClock());
}

void Endpoint::Abandon(const ViewId& view) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  abandoned_ = std::max(abandoned_, view);
  if (!(abandoned_ < connecting_)) SignalEventFd(cancel_.get());
}

}  // namespace everstep
