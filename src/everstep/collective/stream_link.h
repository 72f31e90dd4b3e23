// collective: one link to a member of another group: frames over a stream socket, never blocking.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/collective/frame.h"

namespace everstep {

// A run of floats to be sent in chunks as it becomes available. What the pointers point to outlives
// the job: until `*unsent` has been lowered by one, or the link is gone.
struct SendJob {
  Frame frame;  // without offset and bytes
  const float* data = nullptr;
  int64_t floats = 0;                  // > 0
  const int64_t* available = nullptr;  // how many of them may be sent so far; only rises
  int* unsent = nullptr;
  int64_t sent = 0;
};

// Says where the bytes of a frame go. Errors refuse the frame and end the link.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Room for exactly frame.bytes.
  virtual absl::StatusOr<absl::Span<std::byte>> Begin(int from, const Frame& frame) = 0;
  virtual absl::Status End(int from, const Frame& frame) = 0;  // all bytes are in
};

// One thread. Does not own the socket.
class StreamLink {
 public:
  StreamLink(int peer, int socket, ViewId view) : peer_(peer), socket_(socket), view_(view) {}
  StreamLink(const StreamLink&) = delete;

  int peer() const { return peer_; }
  int socket() const { return socket_; }

  void Queue(const SendJob& job) { jobs_.push_back(job); }
  // A small frame of its own, after what is available already.
  void QueueFrame(Frame frame, absl::Span<const std::byte> bytes);

  // Sends what goes at once; whether anything went. Errors as env/socket.h.
  absl::StatusOr<bool> Flush();
  bool blocked() const { return blocked_; }  // the socket took less than there was
  bool idle() const { return jobs_.empty() && small_.empty() && !sending_; }

  // Takes in what is there, up to a farewell; whether anything was. kUnavailable at the end of a
  // stream without one; else the sink's errors.
  absl::StatusOr<bool> Receive(FrameSink& sink);

  // Whether what was sent has not been acknowledged by the peer's host for `lost_after`, seen over
  // several calls: then the host or the way to it is gone. Pings where nothing else is on its way,
  // so that there is something to acknowledge. Call it while waiting for the peer, then Flush.
  bool LooksLost(TimePoint now, Duration lost_after);

  // Tries to end the stream in order: the rest of a frame begun, then the farewell. Best effort.
  void SendFarewell(const Frame& farewell, const std::string& text);

 private:
  bool PickNext();  // sets up the next frame to send
  absl::StatusOr<bool> SendCurrent();
  void FinishCurrent();
  absl::Status TakeHeader(FrameSink& sink);
  absl::Status EndFrame(FrameSink& sink);
  absl::Status Take(size_t bytes, FrameSink& sink);

  const int peer_;
  const int socket_;
  const ViewId view_;

  std::deque<SendJob> jobs_;
  std::deque<std::vector<std::byte>> small_;  // whole frames
  // The frame being sent: header_, then body_; `out_` bytes of both are out.
  bool sending_ = false;
  bool blocked_ = false;
  FrameHeader header_{};
  absl::Span<const std::byte> body_;
  std::vector<std::byte> small_now_;
  size_t out_ = 0;
  std::optional<size_t> job_now_;  // index in jobs_
  std::optional<TimePoint> suspected_since_;
  std::optional<TimePoint> last_ping_;

  // The frame being received.
  FrameHeader in_header_{};
  size_t in_header_bytes_ = 0;
  bool in_body_ = false;
  Frame in_frame_;
  absl::Span<std::byte> in_place_;
  bool ended_ = false;  // a farewell came: nothing is read any more
};

constexpr int64_t kChunkFloats = 32 * 1024;

}  // namespace everstep
