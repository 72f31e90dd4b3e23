// collective: the thread that notices that a neighbour died, even while the caller sleeps or
// computes. Members of other groups need none: their links are read by the caller.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/view.h"
#include "everstep/collective/failure.h"
#include "everstep/collective/frame.h"
#include "everstep/env/fd.h"

namespace everstep {

// How a member left, by rank. Written once by whoever reads its link, read by any thread.
class Departures {
 public:
  explicit Departures(int members) : gone_(members), why_(members) {}

  // From a farewell's text and blamed rank.
  void Set(int rank, int blamed, std::string text);
  bool Has(int rank) const { return gone_[rank].load(std::memory_order_acquire); }
  // Only where Has(rank): the error for a call that needs the member.
  absl::Status ErrorOf(const View& view, int rank) const;

 private:
  struct Why {
    int blamed = -1;
    std::string text;
  };
  std::vector<std::atomic<bool>> gone_;
  std::vector<Why> why_;
};

// Bytes of a farewell for a link, and the parse of what a link brought.
std::string FarewellText(const absl::Status& why);

class Watcher {
 public:
  struct Watched {
    int rank;
    int socket;  // brings nothing but a farewell
    int pid_fd;  // -1: none
  };
  // On a death sets `failure`; on a farewell marks `departures` and calls `on_departure`. All
  // outlive the watcher, the descriptors too.
  static absl::StatusOr<std::unique_ptr<Watcher>> Start(const View& view,
                                                        std::vector<Watched> watched,
                                                        Failure& failure, Departures& departures,
                                                        std::function<void()> on_departure);
  ~Watcher();  // joins

 private:
  struct Peer {
    Watched watched;
    std::vector<std::byte> bytes;  // received so far
    bool settled = false;
  };
  Watcher(const View& view, Failure& failure, Departures& departures,
          std::function<void()> on_departure)
      : view_(view),
        failure_(failure),
        departures_(departures),
        on_departure_(std::move(on_departure)) {}

  void Run();
  void Look(Peer& peer, bool process_ended);
  void TakeFarewell(Peer& peer);

  const View& view_;
  Failure& failure_;
  Departures& departures_;
  std::function<void()> on_departure_;
  std::vector<Peer> peers_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace everstep
