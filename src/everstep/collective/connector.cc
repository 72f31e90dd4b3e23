// collective: the links of one view.
#include "everstep/collective/connector.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(10);   // how often to look whether to give up
constexpr Duration kPause = std::chrono::milliseconds(10);  // between attempts to dial
constexpr size_t kMaskBytes = kMaxMembers / 8;

}  // namespace

std::string UnixNameOf(const JobSecret& secret, Incarnation incarnation) {
  return absl::StrCat("everstep-", PublicNameOf(secret, "data plane"), "-", absl::Hex(incarnation));
}

absl::StatusOr<CommunicatorParts> Connector::Run() {
  EV_ASSIGN_OR_RETURN(cells_, MakeCells());
  EV_ASSIGN_OR_RETURN(parts_.wake, MakeEventFd());
  parts_.view = view_;
  parts_.rank = rank_;
  parts_.arena = context_.arena;
  parts_.cells = cells_.page;
  parts_.links.resize(view_.members.size());
  for (int peer = 0; peer < rank_; ++peer) EV_RETURN_IF_ERROR(Dial(peer));
  EV_RETURN_IF_ERROR(AwaitDialers());
  EV_RETURN_IF_ERROR(ExchangeShares());
  return std::move(parts_);
}

absl::Status Connector::CheckGoOn(int peer) const {
  PollItem cancel;
  cancel.fd = context_.cancel_fd;
  cancel.read = true;
  EV_RETURN_IF_ERROR(Poll(absl::MakeSpan(&cancel, 1), Duration::zero()));
  if (cancel.readable) {
    return absl::AbortedError(absl::StrCat("view ", view_.id.ToString(), " was given up"));
  }
  if (RealClock().Now() < deadline_) return absl::OkStatus();
  return PeerFailure(absl::StatusCode::kDeadlineExceeded, view_, peer,
                     absl::StrCat("did not connect in view ", view_.id.ToString(), " in time"));
}

Claim Connector::ClaimTo(int peer) const {
  return {view_.id, rank_, peer, view_.members[rank_].incarnation, view_.members[peer].incarnation};
}

absl::StatusOr<UniqueFd> Connector::DialOnce(int peer, bool by_unix) {
  const Deadline soon = std::min(deadline_, After(RealClock(), context_.step_limit));
  if (by_unix) {
    return DialAbstract(UnixNameOf(context_.secret, view_.members[peer].incarnation), soon);
  }
  EV_ASSIGN_OR_RETURN(const HostPort address, HostPort::Parse(view_.members[peer].data_address));
  EV_ASSIGN_OR_RETURN(UniqueFd socket, DialTcp(address, soon, context_.cancel_fd));
  EV_RETURN_IF_ERROR(SetNoDelay(socket.get()));
  return socket;
}

absl::Status Connector::Dial(int peer) {
  const bool same_host = view_.members[peer].host == view_.members[rank_].host;
  absl::Status last;
  UniqueFd process;
  for (int attempt = 0;; ++attempt) {
    const absl::Status go_on = CheckGoOn(peer);
    if (!go_on.ok()) {
      return last.ok() ? go_on : Annotate(go_on, absl::StrCat("last attempt: ", last.message()));
    }
    if (attempt > 0) SleepFor(kPause);
    // An abstract socket that nobody listens on may be one of another network namespace, or its
    // process is only starting: but once its TCP door is open, the other one has been.
    bool by_unix = same_host;
    absl::StatusOr<UniqueFd> socket = DialOnce(peer, by_unix);
    if (!socket.ok() && by_unix) {
      absl::StatusOr<UniqueFd> tcp = DialOnce(peer, /*by_unix=*/false);
      if (tcp.ok()) socket = DialOnce(peer, /*by_unix=*/true);
      by_unix = socket.ok();
      if (!by_unix) socket = std::move(tcp);
    }
    if (!socket.ok()) {
      if (absl::IsInvalidArgument(socket.status())) return socket.status();
      last = socket.status();
      if (process.valid() && HasExited(process.get())) {
        return PeerFailure(absl::StatusCode::kUnavailable, view_, peer, "died");
      }
      continue;
    }
    PeerLink link;
    last = IntroduceAsDialer(socket->get(), context_.secret, ClaimTo(peer), context_.step_limit,
                             deadline_, context_.cancel_fd);
    if (absl::IsFailedPrecondition(last)) {
      return PeerFailure(absl::StatusCode::kUnavailable, view_, peer, std::string(last.message()));
    }
    if (last.ok()) last = Introduce(peer, socket->get(), by_unix, link);
    if (absl::IsInvalidArgument(last)) return last;
    if (last.ok()) {
      link.socket = *std::move(socket);
      parts_.links[peer] = std::move(link);
      return absl::OkStatus();
    }
    if (by_unix) {
      const absl::StatusOr<int> pid = PeerPid(socket->get());
      absl::StatusOr<UniqueFd> fd = pid.ok() ? OpenPidFd(*pid) : pid.status();
      if (fd.ok()) process = *std::move(fd);
    }
  }
}

absl::Status Connector::AwaitDialers() {
  int missing = static_cast<int>(view_.members.size()) - rank_ - 1;
  while (missing > 0) {
    std::optional<Arrival> arrival = context_.acceptor.Take(view_.id, kLook);
    if (arrival.has_value()) {
      const int from = arrival->claim.from_rank;
      if (from > rank_ && from < static_cast<int>(view_.members.size()) &&
          arrival->claim.to_rank == rank_ &&
          arrival->claim.from == view_.members[from].incarnation) {
        const bool again =
            parts_.links[from].socket.valid();  // it dialed anew: the old one is dead
        EV_ASSIGN_OR_RETURN(const bool linked, Welcome(*arrival));
        if (linked && !again) --missing;
      }
      continue;
    }
    for (int peer = rank_ + 1; peer < static_cast<int>(view_.members.size()); ++peer) {
      if (!parts_.links[peer].socket.valid()) {
        EV_RETURN_IF_ERROR(CheckGoOn(peer));
        break;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Connector::Welcome(Arrival& arrival) {
  const int peer = arrival.claim.from_rank;
  const Deadline soon = std::min(deadline_, After(RealClock(), context_.step_limit));
  const AnswerBytes answer = EncodeAnswer(context_.secret, arrival.nonces, arrival.claim_bytes,
                                          /*welcome=*/true, view_.id);
  if (!SendAll(arrival.socket.get(), answer, soon, context_.cancel_fd).ok()) return false;
  if (!arrival.is_unix && !SetNoDelay(arrival.socket.get()).ok()) return false;
  PeerLink link;
  const absl::Status introduced = Introduce(peer, arrival.socket.get(), arrival.is_unix, link);
  if (absl::IsInvalidArgument(introduced)) return introduced;
  if (!introduced.ok()) return false;
  link.socket = std::move(arrival.socket);
  parts_.links[peer] = std::move(link);
  return true;
}

absl::Status Connector::Introduce(int peer, int socket, bool is_unix, PeerLink& link) {
  const Deadline soon = std::min(deadline_, After(RealClock(), context_.step_limit));
  const ArenaLayout& layout = context_.arena->layout();
  Introduction mine{layout.fingerprint(), layout.bytes(), false};
  if (is_unix && view_.members[peer].host == view_.members[rank_].host) {
    // Memory is shared only with a process whose death this one will be told of.
    const absl::StatusOr<int> pid = PeerPid(socket);
    absl::StatusOr<UniqueFd> process = pid.ok() ? OpenPidFd(*pid) : pid.status();
    if (process.ok()) link.pid_fd = *std::move(process);
    mine.shares = link.pid_fd.valid();
  }
  const IntroductionBytes bytes = EncodeIntroduction(mine);
  IntroductionBytes theirs_bytes;
  std::vector<UniqueFd> fds;
  if (is_unix) {
    // Who may not have the memory gets eventfds in its place.
    const int wake = parts_.wake.get();
    if (mine.shares) context_.exposing(view_.members[peer].incarnation, link.pid_fd.get());
    const int own_fds[kIntroductionFds] = {mine.shares ? context_.arena->fd() : wake,
                                           mine.shares ? cells_.fd.get() : wake, wake};
    EV_RETURN_IF_ERROR(SendWithFds(socket, bytes, own_fds, soon, context_.cancel_fd));
    EV_ASSIGN_OR_RETURN(fds, ReceiveWithFds(socket, absl::MakeSpan(theirs_bytes), kIntroductionFds,
                                            soon, context_.cancel_fd));
  } else {
    EV_RETURN_IF_ERROR(SendAll(socket, bytes, soon, context_.cancel_fd));
    EV_RETURN_IF_ERROR(ReceiveAll(socket, absl::MakeSpan(theirs_bytes), soon, context_.cancel_fd));
  }
  const Introduction theirs = DecodeIntroduction(theirs_bytes);
  if (theirs.fingerprint != mine.fingerprint || theirs.memory_bytes != mine.memory_bytes) {
    return PeerFailure(absl::StatusCode::kInvalidArgument, view_, peer,
                       "has gradient buckets of other sizes: it runs another program or other "
                       "settings; start all members alike");
  }
  if (!mine.shares || !theirs.shares) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<Arena>> arena = Arena::MapNeighbour(
      std::move(fds[0]), std::shared_ptr<const ArenaLayout>(context_.arena, &layout));
  absl::StatusOr<std::shared_ptr<CellPage>> cells = MapCells(std::move(fds[1]));
  // What cannot be mapped is not shared; the link then carries frames.
  if (!arena.ok() || !cells.ok()) return absl::OkStatus();
  link.arena = *std::move(arena);
  link.cells = *std::move(cells);
  link.wake = std::move(fds[2]);
  return absl::OkStatus();
}

absl::Status Connector::ExchangeShares() {
  const int members = static_cast<int>(view_.members.size());
  parts_.shares.assign(members, std::vector<bool>(members));
  std::array<std::byte, kMaskBytes> mask{};
  for (int peer = 0; peer < members; ++peer) {
    if (parts_.links[peer].arena == nullptr) continue;
    parts_.shares[rank_][peer] = true;
    mask[peer / 8] |= std::byte{1} << (peer % 8);
  }
  const auto broken = [&](int peer, const absl::Status& why) {
    return PeerFailure(absl::StatusCode::kUnavailable, view_, peer,
                       absl::StrCat("was lost while connecting: ", why.message()));
  };
  for (int peer = 0; peer < members; ++peer) {
    if (peer == rank_) continue;
    const Deadline soon = std::min(deadline_, After(RealClock(), context_.step_limit));
    const absl::Status sent =
        SendAll(parts_.links[peer].socket.get(), mask, soon, context_.cancel_fd);
    if (!sent.ok()) return broken(peer, sent);
  }
  for (int peer = 0; peer < members; ++peer) {
    if (peer == rank_) continue;
    // The peer may still wait for others: this has until the deadline.
    std::array<std::byte, kMaskBytes> theirs;
    const absl::Status got = ReceiveAll(parts_.links[peer].socket.get(), absl::MakeSpan(theirs),
                                        deadline_, context_.cancel_fd);
    EV_RETURN_IF_ERROR(CheckGoOn(peer));
    if (!got.ok()) return broken(peer, got);
    for (int other = 0; other < members; ++other) {
      parts_.shares[peer][other] =
          (theirs[other / 8] >> (other % 8) & std::byte{1}) != std::byte{0};
    }
  }
  return absl::OkStatus();
}

}  // namespace everstep
