// collective: watching neighbours by pidfd and link.
#include "everstep/collective/watcher.h"

#include <chrono>
#include <utility>

#include "everstep/base/status.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {
// A dying process closes its sockets a moment before its pidfd tells; so long we wait for the
// proof.
constexpr Duration kProofWait = std::chrono::milliseconds(20);
constexpr Duration kLongTime = std::chrono::hours(1);
}  // namespace

void Departures::Set(int rank, int blamed, std::string text) {
  if (Has(rank)) return;
  why_[rank] = {blamed, std::move(text)};
  gone_[rank].store(true, std::memory_order_release);
}

absl::Status Departures::ErrorOf(const View& view, int rank) const {
  const Why& why = why_[rank];
  const std::string reason =
      why.text.empty() ? "left the view" : absl::StrCat("left the view: ", why.text);
  absl::Status error = PeerFailure(absl::StatusCode::kUnavailable, view, rank, reason);
  const bool other =
      why.blamed >= 0 && why.blamed < static_cast<int>(view.members.size()) && why.blamed != rank;
  if (!other) return error;
  // The one it left because of is to blame, not the messenger.
  absl::Status blaming = PeerFailure(absl::StatusCode::kUnavailable, view, why.blamed, "");
  blaming.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { error.SetPayload(url, payload); });
  return error;
}

std::string FarewellText(const absl::Status& why) {
  return std::string(why.message().substr(0, kMaxFarewellBytes));
}

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Start(const View& view,
                                                        std::vector<Watched> watched,
                                                        Failure& failure, Departures& departures,
                                                        std::function<void()> on_departure) {
  std::unique_ptr<Watcher> watcher(new Watcher(view, failure, departures, std::move(on_departure)));
  EV_ASSIGN_OR_RETURN(watcher->stop_, MakeEventFd());
  for (const Watched& w : watched) watcher->peers_.push_back({w, {}, false});
  watcher->thread_ = std::thread([w = watcher.get()] { w->Run(); });
  return watcher;
}

Watcher::~Watcher() {
  if (!thread_.joinable()) return;
  SignalEventFd(stop_.get());
  thread_.join();
}

void Watcher::Run() {
  std::vector<PollItem> items(1 + 2 * peers_.size());
  while (true) {
    items[0].fd = stop_.get();
    items[0].read = true;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const Peer& p = peers_[i];
      PollItem& link = items[1 + 2 * i];
      PollItem& process = items[2 + 2 * i];
      link.fd = p.settled ? -1 : p.watched.socket;
      process.fd = p.settled ? -1 : p.watched.pid_fd;
      link.read = process.read = true;
    }
    const absl::Status polled = Poll(absl::MakeSpan(items), kLongTime);
    if (!polled.ok()) return failure_.Set(polled);
    if (items[0].readable) return;
    for (size_t i = 0; i < peers_.size(); ++i) {
      const bool process_ended = items[2 + 2 * i].readable;
      if (items[1 + 2 * i].readable || process_ended) Look(peers_[i], process_ended);
    }
  }
}

// The link is read first: a farewell was sent before its sender ended.
void Watcher::Look(Peer& peer, bool process_ended) {
  TakeFarewell(peer);
  if (peer.settled) return;
  PollItem process;
  process.fd = peer.watched.pid_fd;
  process.read = true;
  if (!process_ended) {
    // Readable and no farewell: more is to come, or the stream has ended.
    PollItem link;
    link.fd = peer.watched.socket;
    link.read = true;
    if (Poll(absl::MakeSpan(&link, 1), Duration::zero()).ok() && !link.hung_up) return;
    if (process.fd >= 0 && Poll(absl::MakeSpan(&process, 1), kProofWait).ok()) {
      process_ended = process.readable;
    }
  }
  peer.settled = true;
  failure_.Set(PeerFailure(absl::StatusCode::kUnavailable, view_, peer.watched.rank,
                           process_ended ? "died" : "closed its link without a farewell"));
}

void Watcher::TakeFarewell(Peer& peer) {
  std::vector<std::byte>& bytes = peer.bytes;
  while (!peer.settled) {
    const size_t have = bytes.size();
    size_t want = kFrameHeaderBytes;
    Frame frame;
    if (have >= kFrameHeaderBytes) {
      const absl::StatusOr<Frame> header =
          DecodeFrame(absl::MakeConstSpan(bytes).first(kFrameHeaderBytes));
      if (!header.ok() || header->kind != FrameKind::kFarewell || header->view != view_.id ||
          header->bytes > kMaxFarewellBytes) {
        peer.settled = true;
        return failure_.Set(PeerFailure(absl::StatusCode::kUnavailable, view_, peer.watched.rank,
                                        "sent something that is no farewell on its link"));
      }
      frame = *header;
      want += frame.bytes;
      if (have == want) {
        peer.settled = true;
        departures_.Set(peer.watched.rank, frame.owner,
                        std::string(reinterpret_cast<const char*>(bytes.data()) + kFrameHeaderBytes,
                                    frame.bytes));
        return on_departure_();
      }
    }
    bytes.resize(want);
    const absl::StatusOr<Received> got =
        ReceiveSome(peer.watched.socket, absl::MakeSpan(bytes).subspan(have));
    bytes.resize(have + (got.ok() ? got->bytes : 0));
    if (!got.ok() || got->bytes == 0) return;
  }
}

}  // namespace everstep
