// engine: Probe, what threads beside the training thread may see and do of the engine: the
// heartbeat reads the scalars and who waits for whom, an interrupt aborts the running round.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "everstep/collective/communicator.h"
#include "everstep/data/batch_source.h"
#include "everstep/membership/messages.h"

namespace everstep {

class Probe {
 public:
  Scalars scalars() const {
    std::lock_guard lock(mutex_);
    return scalars_;
  }
  void SetScalars(Scalars scalars) {
    std::lock_guard lock(mutex_);
    scalars_ = std::move(scalars);
  }

  // Ranks that the running round waits for.
  std::vector<int> Waits() const {
    std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    if (communicator_ != nullptr) {
      for (const PeerWait& wait : communicator_->Waiting()) ranks.push_back(wait.peer);
    }
    return ranks;
  }

  // Set by a signal (through the flag) or by an order; the engine leaves at the next step boundary.
  void TellToLeave() { told_to_leave_.store(true, std::memory_order_relaxed); }
  bool ToldToLeave() const { return told_to_leave_.load(std::memory_order_relaxed); }
  std::atomic<bool>* leave_flag() { return &told_to_leave_; }

  // Cuts the running round, or the linking of `view` or an older one, short.
  void Interrupt(const ViewId& view, const absl::Status& why) {
    std::lock_guard lock(mutex_);
    input_.Set();
    if (factory_ != nullptr) factory_->Abandon(view);
    if (communicator_ != nullptr && !(view < communicator_->view().id)) communicator_->Abort(why);
  }

  // The engine's side. What makes communicators, once:
  void SetFactory(CommunicatorFactory* factory) {
    std::lock_guard lock(mutex_);
    factory_ = factory;
  }
  // The communicator of the running view, or null before it goes.
  void SetCommunicator(Communicator* communicator) {
    std::lock_guard lock(mutex_);
    communicator_ = communicator;
    if (communicator != nullptr)
      input_.Clear();  // an interrupt was meant for a view before this one
  }
  const Cancel& input_cancel() const { return input_; }

 private:
  mutable std::mutex mutex_;
  Scalars scalars_;
  CommunicatorFactory* factory_ = nullptr;
  Communicator* communicator_ = nullptr;
  Cancel input_;
  std::atomic<bool> told_to_leave_{false};
};

}  // namespace everstep
