// collective: frames over a stream socket.
#include "everstep/collective/stream_link.h"

#include <algorithm>
#include <cstring>

#include "everstep/base/status.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {
// Of one Flush or Receive, so that a fast link keeps nobody from looking at the others.
constexpr size_t kBytesPerCall = 2 << 20;
}  // namespace

void StreamLink::QueueFrame(Frame frame, absl::Span<const std::byte> bytes) {
  frame.view = view_;
  frame.bytes = static_cast<uint32_t>(bytes.size());
  const FrameHeader header = EncodeFrame(frame);
  std::vector<std::byte> whole(header.begin(), header.end());
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  small_.push_back(std::move(whole));
}

bool StreamLink::PickNext() {
  // The oldest job that has something: a later bucket's partials fill the wire while an earlier
  // one's result is not there yet.
  for (size_t i = 0; i < jobs_.size(); ++i) {
    SendJob& job = jobs_[i];
    const int64_t floats = std::min(*job.available - job.sent, kChunkFloats);
    if (floats <= 0) continue;
    Frame frame = job.frame;
    frame.view = view_;
    frame.offset = job.sent;
    frame.bytes = static_cast<uint32_t>(floats * sizeof(float));
    header_ = EncodeFrame(frame);
    body_ = {reinterpret_cast<const std::byte*>(job.data + job.sent), frame.bytes};
    job.sent += floats;
    job_now_ = i;
    sending_ = true;
    out_ = 0;
    return true;
  }
  // A vote is queued when no job is left; a ping goes while jobs wait for data.
  if (small_.empty()) return false;
  small_now_ = std::move(small_.front());
  small_.pop_front();
  std::memcpy(header_.data(), small_now_.data(), kFrameHeaderBytes);
  body_ = absl::MakeConstSpan(small_now_).subspan(kFrameHeaderBytes);
  job_now_.reset();
  sending_ = true;
  out_ = 0;
  return true;
}

absl::StatusOr<bool> StreamLink::SendCurrent() {
  const absl::Span<const std::byte> header =
      absl::MakeConstSpan(header_).subspan(std::min(out_, kFrameHeaderBytes));
  const absl::Span<const std::byte> body =
      body_.subspan(out_ > kFrameHeaderBytes ? out_ - kFrameHeaderBytes : 0);
  EV_ASSIGN_OR_RETURN(const size_t n,
                      header.empty() ? SendSome(socket_, body) : SendSome(socket_, header, body));
  out_ += n;
  blocked_ = n < header.size() + body.size();
  return n > 0;
}

void StreamLink::FinishCurrent() {
  sending_ = false;
  if (!job_now_.has_value()) return;
  SendJob& job = jobs_[*job_now_];
  if (job.sent < job.floats) return;
  --*job.unsent;
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(*job_now_));
}

absl::StatusOr<bool> StreamLink::Flush() {
  bool moved = false;
  blocked_ = false;
  size_t budget = kBytesPerCall;
  while (sending_ || PickNext()) {
    const size_t before = out_;
    EV_ASSIGN_OR_RETURN(const bool some, SendCurrent());
    moved = moved || some;
    if (blocked_) return moved;
    const size_t went = out_ - before;
    FinishCurrent();
    if (went >= budget) return moved;
    budget -= went;
  }
  return moved;
}

absl::Status StreamLink::TakeHeader(FrameSink& sink) {
  EV_ASSIGN_OR_RETURN(in_frame_, DecodeFrame(in_header_));
  if (in_frame_.view != view_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of view ", in_frame_.view.ToString(), " in view ", view_.ToString()));
  }
  in_header_bytes_ = 0;
  EV_ASSIGN_OR_RETURN(in_place_, sink.Begin(peer_, in_frame_));
  in_body_ = true;
  return absl::OkStatus();
}

absl::Status StreamLink::EndFrame(FrameSink& sink) {
  in_body_ = false;
  ended_ = in_frame_.kind == FrameKind::kFarewell;
  return sink.End(peer_, in_frame_);
}

// Accounts for bytes received into in_place_ and then into in_header_.
absl::Status StreamLink::Take(size_t bytes, FrameSink& sink) {
  if (in_body_) {
    const size_t n = std::min(bytes, in_place_.size());
    in_place_.remove_prefix(n);
    bytes -= n;
    if (!in_place_.empty()) return absl::OkStatus();
    EV_RETURN_IF_ERROR(EndFrame(sink));
  }
  in_header_bytes_ += bytes;
  if (in_header_bytes_ < kFrameHeaderBytes) return absl::OkStatus();
  EV_RETURN_IF_ERROR(TakeHeader(sink));
  return in_place_.empty() ? EndFrame(sink) : absl::OkStatus();
}

absl::StatusOr<bool> StreamLink::Receive(FrameSink& sink) {
  bool moved = false;
  for (size_t total = 0; total < kBytesPerCall && !ended_;) {
    const absl::Span<std::byte> body = in_body_ ? in_place_ : absl::Span<std::byte>();
    // The next header comes in with the body before it: one call per chunk.
    const absl::Span<std::byte> header = absl::MakeSpan(in_header_).subspan(in_header_bytes_);
    const size_t wanted = body.size() + header.size();
    EV_ASSIGN_OR_RETURN(const Received got, body.empty() ? ReceiveSome(socket_, header)
                                                         : ReceiveSome(socket_, body, header));
    if (got.end_of_file) return absl::UnavailableError("closed its link");
    if (got.bytes == 0) return moved;
    moved = true;
    total += got.bytes;
    EV_RETURN_IF_ERROR(Take(got.bytes, sink));
    if (got.bytes < wanted && body.empty()) return moved;  // likely nothing more: save a call
  }
  return moved;
}

bool StreamLink::LooksLost(TimePoint now, Duration lost_after) {
  const InFlight flight = InFlightOf(socket_);
  // An idle link's last acknowledgement is old by itself: count from the first look at this flight.
  const bool news =
      suspected_since_.has_value() && now - flight.since_acknowledgement > *suspected_since_;
  if (!flight.any) {
    suspected_since_.reset();
    if (!last_ping_.has_value()) last_ping_ = now;  // the first one after a while of waiting
    if (!sending_ && small_.empty() && now - *last_ping_ >= lost_after / 8) {
      last_ping_ = now;
      Frame ping;
      ping.kind = FrameKind::kPing;
      QueueFrame(ping, {});
    }
  } else if (news || !suspected_since_.has_value()) {
    suspected_since_ = now;
  }
  return suspected_since_.has_value() && now - *suspected_since_ > lost_after;
}

void StreamLink::SendFarewell(const Frame& farewell, const std::string& text) {
  if (sending_) {
    const absl::StatusOr<bool> sent = SendCurrent();
    if (!sent.ok() || blocked_) return;  // the peer sees the stream end inside a frame
    sending_ = false;
  }
  jobs_.clear();
  small_.clear();
  QueueFrame(farewell, {reinterpret_cast<const std::byte*>(text.data()), text.size()});
  Flush().IgnoreError();
}

}  // namespace everstep
