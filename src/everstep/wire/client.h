// wire: a worker's or an agent's end of one control stream. One try each: who wants to come back
// after a loss opens another, which looks the address up afresh.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/wire/control.pb.h"
#include "everstep/wire/credentials.h"

namespace everstep {

struct ControlClientOptions {
  std::string address;  // "host:port"
  Credentials credentials;
};

// Called from threads of the stream, one at a time. They must not destroy it.
template <typename In>
struct StreamCallbacks {
  std::function<void()> opened;     // both ends have proved themselves
  std::function<void(In)> message;  // after opened
  // Once, last. Never OK: an orderly end is kCancelled. kUnavailable: could not be reached or was
  // lost; kPermissionDenied: the ends hold no secret in common.
  std::function<void(absl::Status)> closed;
};

template <typename Out>
class ControlStream {
 public:
  // Cuts the stream; no callback runs when it returns, and none follows.
  virtual ~ControlStream() = default;
  // Queues a message; any thread, never blocks. What is sent before `opened` goes out after it.
  virtual void Send(Out message) = 0;
  // Says that no more will be sent. The other end then ends the stream.
  virtual void Finish() = 0;
  // Cuts the stream; `closed` follows. Any thread, also inside callbacks.
  virtual void Cancel() = 0;
};

// Never blocks: connecting goes on in the background. Errors as CheckAddress.
absl::StatusOr<std::unique_ptr<ControlStream<wire::FromWorker>>> OpenWorkerStream(
    const ControlClientOptions& options, StreamCallbacks<wire::ToWorker> callbacks);
absl::StatusOr<std::unique_ptr<ControlStream<wire::FromAgent>>> OpenAgentStream(
    const ControlClientOptions& options, StreamCallbacks<wire::ToAgent> callbacks);

}  // namespace everstep
