// collective: taking connections.
#include "everstep/collective/acceptor.h"

#include <algorithm>
#include <utility>

#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {
// After accept failed for want of descriptors: time for some to be closed.
constexpr Duration kBreather = std::chrono::milliseconds(50);
constexpr Duration kLongTime = std::chrono::hours(1);
constexpr int kAcceptsAtOnce = 16;
}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(UniqueFd tcp, UniqueFd unix_listener,
                                                          const JobSecret& secret, Incarnation self,
                                                          const AcceptorOptions& options) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(tcp), std::move(unix_listener), secret, self, options));
  EV_ASSIGN_OR_RETURN(acceptor->stop_, MakeEventFd());
  acceptor->thread_ = std::thread([a = acceptor.get()] { a->Run(); });
  return acceptor;
}

Acceptor::Acceptor(UniqueFd tcp, UniqueFd unix_listener, const JobSecret& secret, Incarnation self,
                   const AcceptorOptions& options)
    : tcp_(std::move(tcp)),
      unix_listener_(std::move(unix_listener)),
      secret_(secret),
      self_(self),
      options_(options) {}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  SignalEventFd(stop_.get());
  thread_.join();
}

void Acceptor::Run() {
  while (true) {
    std::vector<PollItem> items(3 + pending_.size());
    items[0].fd = stop_.get();
    items[1].fd = tcp_.get();
    items[2].fd = unix_listener_.get();
    Deadline wake = RealClock().Now() + kLongTime;
    size_t i = 3;
    for (const Pending& p : pending_) {
      items[i++].fd = p.socket.get();
      wake = std::min(wake, p.deadline);
    }
    for (PollItem& item : items) item.read = true;
    if (!Poll(absl::MakeSpan(items), wake - RealClock().Now()).ok()) SleepFor(kBreather);
    if (items[0].readable) return;

    const TimePoint now = RealClock().Now();
    i = 3;
    for (auto p = pending_.begin(); p != pending_.end(); ++i) {
      const bool keep = now < p->deadline && (!items[i].readable || Advance(*p));
      p = keep ? std::next(p) : pending_.erase(p);
    }
    if (items[1].readable) AcceptAll(tcp_.get(), /*is_unix=*/false);
    if (items[2].readable) AcceptAll(unix_listener_.get(), /*is_unix=*/true);
  }
}

void Acceptor::AcceptAll(int listener, bool is_unix) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    absl::StatusOr<std::optional<UniqueFd>> socket = Accept(listener);
    if (!socket.ok()) return SleepFor(kBreather);
    if (!socket->has_value()) return;
    // A stranger who opens many connections pushes out strangers: members need milliseconds.
    if (static_cast<int>(pending_.size()) >= options_.max_pending) pending_.pop_front();
    Pending pending;
    pending.socket = *std::move(*socket);
    pending.is_unix = is_unix;
    pending.deadline = After(RealClock(), options_.handshake_limit);
    pending_.push_back(std::move(pending));
  }
}

bool Acceptor::Advance(Pending& pending) {
  while (true) {
    const size_t want = pending.greeted ? kClaimBytes : kHelloBytes;
    const size_t have = pending.bytes.size();
    pending.bytes.resize(want);
    const absl::StatusOr<Received> got =
        ReceiveSome(pending.socket.get(), absl::MakeSpan(pending.bytes).subspan(have));
    if (!got.ok() || got->end_of_file) return false;
    pending.bytes.resize(have + got->bytes);
    if (got->bytes == 0) return true;
    if (pending.bytes.size() == want && !OnMessage(pending)) return false;
  }
}

bool Acceptor::OnMessage(Pending& pending) {
  if (!pending.greeted) {
    if (!DecodeHello(pending.bytes, pending.nonces.dialer)) return false;
    pending.nonces.listener = MakeNonce();
    const HelloBytes challenge = EncodeHello(pending.nonces.listener);
    const absl::StatusOr<size_t> sent = SendSome(pending.socket.get(), challenge);
    pending.greeted = true;
    pending.bytes.clear();
    return sent.ok() && *sent == challenge.size();  // a fresh connection has room for it
  }
  Arrival arrival;
  std::copy(pending.bytes.begin(), pending.bytes.end(), arrival.claim_bytes.begin());
  if (!DecodeClaim(secret_, pending.nonces, arrival.claim_bytes, arrival.claim)) return false;
  if (arrival.claim.to != self_) return false;
  arrival.socket = std::move(pending.socket);
  arrival.is_unix = pending.is_unix;
  arrival.nonces = pending.nonces;
  Park(std::move(arrival));
  return false;  // no longer pending
}

void Acceptor::Park(Arrival arrival) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (arrival.claim.view < floor_) return Refuse(arrival);
  if (static_cast<int>(parked_.size()) >= options_.max_parked) parked_.pop_front();
  parked_.push_back(std::move(arrival));
  arrived_.notify_all();
}

// Needs mutex_.
void Acceptor::Refuse(Arrival& arrival) {
  const AnswerBytes answer =
      EncodeAnswer(secret_, arrival.nonces, arrival.claim_bytes, /*welcome=*/false, floor_);
  SendSome(arrival.socket.get(), answer).IgnoreError();
  arrival.socket.Reset();
}

void Acceptor::RaiseFloor(const ViewId& view) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (view < floor_) return;
  floor_ = view;
  for (auto a = parked_.begin(); a != parked_.end();) {
    if (a->claim.view < floor_) {
      Refuse(*a);
      a = parked_.erase(a);
    } else {
      ++a;
    }
  }
}

std::optional<Arrival> Acceptor::Take(const ViewId& view, Duration limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::optional<Arrival> taken;
  const auto take = [&] {
    for (auto a = parked_.rbegin(); a != parked_.rend(); ++a) {
      if (a->claim.view != view) continue;
      taken = std::move(*a);
      parked_.erase(std::next(a).base());
      return true;
    }
    return false;
  };
  arrived_.wait_for(lock, limit, take);
  return taken;
}

}  // namespace everstep
