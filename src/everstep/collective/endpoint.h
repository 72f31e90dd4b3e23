// collective: one process's place in the collectives of a job: its listeners, its gradient memory,
// and the making of a Communicator for each view.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/base/view.h"
#include "everstep/collective/acceptor.h"
#include "everstep/collective/arena.h"
#include "everstep/collective/communicator.h"
#include "everstep/collective/exposures.h"
#include "everstep/env/fd.h"
#include "everstep/trust/secret.h"

namespace everstep {

struct EndpointOptions {
  Incarnation incarnation = 0;            // of this process; not 0
  std::string listen_host = "127.0.0.1";  // strangers beyond this host hear nothing by default
  std::string advertised_host;            // what peers dial; empty: listen_host
  int preferred_port = 0;                 // 0: none
  int first_port = 29710;                 // then the first free one of these
  int last_port = 29799;
  Duration step_limit = std::chrono::seconds(5);  // of one message of a handshake
  // Of bytes that a peer's kernel does not acknowledge: its host is gone. Not below 1 s in earnest:
  // kernels put off acknowledgements by up to 200 ms.
  Duration lost_after = std::chrono::seconds(2);
  AcceptorOptions acceptor;
};

// Prepare, Connect and the destructor: one thread at a time. A communicator may outlive it.
//
// Memory is kept from view to view, so its pages stay warm. It is left for fresh memory when a
// process that had it mapped is not in the next view, said no farewell and has not been seen to
// end within 50 ms: such a process might wake and write. Then partial() and result() move.
class Endpoint : public CommunicatorFactory {
 public:
  // kUnavailable when no port is free; kInvalidArgument for options that cannot be.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Make(const JobSecret& secret,
                                                        const EndpointOptions& options);
  ~Endpoint() override;

  absl::Status Prepare(const ArenaShape& shape) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const View& view, Incarnation self,
                                                        Deadline deadline) override;
  void Abandon(const ViewId& view) noexcept override;
  std::string data_address() const override { return address_; }

 private:
  Endpoint(const JobSecret& secret, const EndpointOptions& options)
      : secret_(secret), options_(options) {}

  absl::Status CheckView(const View& view, Incarnation self) const;
  const JobSecret secret_;
  const EndpointOptions options_;
  std::string address_;
  std::shared_ptr<const ArenaLayout> layout_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<Acceptor> acceptor_;
  std::shared_ptr<Exposures> exposures_ = std::make_shared<Exposures>();  // communicators' too
  UniqueFd cancel_;  // readable while the view being connected to is given up
  std::mutex mutex_;
  ViewId abandoned_;   // and all before it
  ViewId connecting_;  // the newest one
};

}  // namespace everstep
