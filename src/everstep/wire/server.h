// wire: the coordinator's end of the control plane: a listener for streams of workers and agents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/wire/control.pb.h"
#include "everstep/wire/credentials.h"

namespace everstep {

using SessionId = uint64_t;  // one stream; never reused

// Told of proven sessions only. Calls come from several threads, but one at a time for a session
// and in the order of its messages. They must not block, and must not destroy or shut down the
// server.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  virtual void OnMessage(SessionId session, wire::FromWorker message) = 0;
  virtual void OnMessage(SessionId session, wire::FromAgent message) = 0;
  // The session's last call, exactly once for each proven session, also one that said nothing.
  virtual void OnClosed(SessionId session) = 0;
};

struct ControlServerOptions {
  std::string listen = "127.0.0.1:0";  // "host:port"; port 0: any free one
  Credentials credentials;
  Duration proof_deadline = std::chrono::seconds(5);  // a stream that is not proven by then is cut
  int max_unproven = 64;                              // streams that may be unproven at once
  // Another secret with which streams of agents, but not of workers, may prove themselves; this end
  // then proves itself with the same.
  std::optional<JobSecret> join_secret;
};

class ControlServer {
 public:
  // `handler` must outlive the server.
  // Errors: kUnavailable (the port is in use, or the address is not this host's),
  // kFailedPrecondition (beyond loopback without leave), kInvalidArgument (not an address).
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(ControlServerOptions options,
                                                              ControlHandler* handler);
  virtual ~ControlServer() = default;  // shuts down

  virtual int port() const = 0;
  virtual std::string PeerOf(SessionId session) const = 0;  // "127.0.0.1:41002"; for logs

  // Queue a message; any thread, never blocks. A session that is gone, or of the other kind, is
  // passed over; one that has not taken some thousands of messages is cut.
  virtual void Send(absl::Span<const SessionId> sessions, wire::ToWorker message) = 0;
  virtual void Send(absl::Span<const SessionId> sessions, wire::ToAgent message) = 0;

  // Ends a session after what was sent to it.
  virtual void Close(SessionId session) = 0;

  // Ends all sessions, first letting out what was sent to them, at the latest at `deadline`. No
  // call of the handler runs when it returns, and none follows.
  virtual void Shutdown(Deadline deadline) = 0;
};

}  // namespace everstep
