// collective: the thread that takes connections, lets strangers drop and keeps those of members
// until the endpoint connects to their view.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/collective/handshake.h"
#include "everstep/env/fd.h"

namespace everstep {

struct AcceptorOptions {
  Duration handshake_limit = std::chrono::seconds(5);  // from accept to a valid claim
  int max_pending = 32;  // connections without a valid claim; the oldest is dropped for a new one
  int max_parked = 512;  // with a valid claim, of views not connected to yet; same
};

// A connection whose claim is valid, and not answered yet.
struct Arrival {
  UniqueFd socket;
  bool is_unix = false;
  Nonces nonces;
  ClaimBytes claim_bytes{};
  Claim claim;
};

class Acceptor {
 public:
  // Takes over the listeners. `self`: claims to another incarnation are dropped.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(UniqueFd tcp, UniqueFd unix_listener,
                                                         const JobSecret& secret, Incarnation self,
                                                         const AcceptorOptions& options);
  ~Acceptor();  // joins

  // From now on claims of views before `view` are refused, parked ones too. Any thread.
  void RaiseFloor(const ViewId& view);

  // The newest arrival of `view`, waiting up to `limit`. Any thread.
  std::optional<Arrival> Take(const ViewId& view, Duration limit);

 private:
  struct Pending {
    UniqueFd socket;
    bool is_unix = false;
    Deadline deadline;
    bool greeted = false;          // Hello is in, Challenge is out
    std::vector<std::byte> bytes;  // of the message coming in
    Nonces nonces;
  };

  Acceptor(UniqueFd tcp, UniqueFd unix_listener, const JobSecret& secret, Incarnation self,
           const AcceptorOptions& options);
  void Run();
  void AcceptAll(int listener, bool is_unix);
  bool Advance(Pending& pending);  // false: it is over with it
  bool OnMessage(Pending& pending);
  void Park(Arrival arrival);
  void Refuse(Arrival& arrival);

  UniqueFd tcp_, unix_listener_, stop_;
  const JobSecret secret_;
  const Incarnation self_;
  const AcceptorOptions options_;
  std::list<Pending> pending_;  // the thread's own

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::list<Arrival> parked_;
  ViewId floor_;

  std::thread thread_;
};

}  // namespace everstep
