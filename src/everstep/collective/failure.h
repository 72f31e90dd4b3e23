// collective: the first error of a communicator, seen by all its threads.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "everstep/base/view.h"

namespace everstep {

// "worker:2 (rank 2)".
std::string NameOf(const View& view, int rank);

// `code` blaming member `rank` of the view: its name, then `what`. BlamedPeer() of it is `rank`.
absl::Status PeerFailure(absl::StatusCode code, const View& view, int rank,
                         const std::string& what);

// Keeps the first error it is given. Any thread.
class Failure {
 public:
  // `wake` is called after the first error is set, in the thread that set it.
  explicit Failure(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Set(absl::Status error) noexcept;
  bool any() const noexcept { return any_.load(); }
  absl::Status status() const;  // OK when there is none

 private:
  std::function<void()> wake_;
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  absl::Status first_;
};

}  // namespace everstep
