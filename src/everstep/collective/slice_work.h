// collective: one slice of one bucket of one round, in the hands of its owner or of a delegate.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "everstep/collective/workshop.h"

namespace everstep {

// Never blocks: the communicator calls Advance until done(). Its floats are relative to the slice.
class SliceWork {
 public:
  SliceWork(Workshop& shop, Round round, int bucket, int owner);
  SliceWork(const SliceWork&) = delete;

  int owner() const { return owner_; }
  bool done() const { return finished_ == size_; }

  // Queues what this slice sends on the links (by rank; null inside the group). Sends count in
  // `unsent` until they are out. Once, before the first Advance.
  void QueueSends(const std::vector<StreamLink*>& links, int& unsent);

  // Does what can be done now, at most kStepFloats of it; whether anything was.
  bool Advance();

  // Calls `wait` for each rank that keeps this slice from going on.
  void CollectWaits(const std::function<void(int)>& wait) const;

  // Delegate only: where the next chunk of the result goes; null when it does not fit.
  float* ResultPlace(int64_t offset, int64_t floats);
  void ResultReceived(int64_t floats) { received_ += floats; }

  static constexpr int64_t kStepFloats = 256 * 1024;

 private:
  bool is_owner() const { return owner_ == shop_.plan().rank(); }
  bool GroupIsReady();
  bool AdvanceOwner();
  bool SumGroup();
  bool Spread();
  void CopyToNeighbours(int64_t from, int64_t floats);

  Workshop& shop_;
  const Round round_;
  const int bucket_;
  const int owner_;
  int64_t at_ = 0;    // of the slice, in a whole buffer
  int64_t size_ = 0;  // floats
  bool group_is_ready_ = false;
  int64_t summed_ = 0;    // delegate: of the group's nodes
  int64_t received_ = 0;  // delegate: of the result
  int64_t finished_ = 0;  // of the result, in all of the group's result buffers
  std::vector<const float*> inputs_;
};

}  // namespace everstep
