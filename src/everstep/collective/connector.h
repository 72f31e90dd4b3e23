// collective: the links of one view: a member dials those of lower rank and waits for those of
// higher rank, then all tell all with whom they share memory. Lives for one Connect.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/view.h"
#include "everstep/collective/acceptor.h"
#include "everstep/collective/arena.h"
#include "everstep/collective/cells.h"
#include "everstep/collective/tree_communicator.h"
#include "everstep/trust/secret.h"

namespace everstep {

constexpr int kMaxMembers = 256;

// The abstract unix socket of a process of the job.
std::string UnixNameOf(const JobSecret& secret, Incarnation incarnation);

class Connector {
 public:
  struct Context {
    const JobSecret& secret;
    Acceptor& acceptor;
    std::shared_ptr<Arena> arena;
    Duration step_limit;  // of one message of a handshake
    int cancel_fd;        // readable once the view is given up
    // Called before a process gets this one's memory; `pid_fd` is the caller's.
    std::function<void(Incarnation, int pid_fd)> exposing;
  };

  Connector(Context context, const View& view, int rank, Deadline deadline)
      : context_(std::move(context)), view_(view), rank_(rank), deadline_(deadline) {}

  // Errors as CommunicatorFactory::Connect.
  absl::StatusOr<CommunicatorParts> Run();

 private:
  absl::Status CheckGoOn(int peer) const;  // else kDeadlineExceeded or kAborted
  absl::Status Dial(int peer);
  absl::StatusOr<UniqueFd> DialOnce(int peer, bool by_unix);
  absl::Status AwaitDialers();
  absl::StatusOr<bool> Welcome(Arrival& arrival);  // false: the dialer is gone
  absl::Status Introduce(int peer, int socket, bool is_unix, PeerLink& link);
  absl::Status ExchangeShares();
  Claim ClaimTo(int peer) const;

  const Context context_;
  const View& view_;
  const int rank_;
  const Deadline deadline_;
  OwnCells cells_;
  CommunicatorParts parts_;
};

}  // namespace everstep
