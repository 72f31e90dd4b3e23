// checkpoint: the contract of the place where states are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/step.h"
#include "everstep/base/tensor_span.h"
#include "everstep/base/view.h"

namespace everstep {

// Names a checkpoint: two writers never meet in one name.
struct CheckpointId {
  Step step = 0;
  History history = 0;
  ViewId view;
  // What the steps are steps of, not part of the name: BatchSource::fingerprint of the data that
  // was trained on (0: not known) and the step at which that training began.
  uint64_t data = 0;
  Step fit_begin = 0;

  std::string DirectoryName() const;  // "step-1175-h0-v1.1"
  // By age: a later history is newer whatever its step, for what it replaced was found wrong.
  friend bool operator<(const CheckpointId& a, const CheckpointId& b) {
    if (a.history != b.history) return a.history < b.history;
    return a.step != b.step ? a.step < b.step : a.view < b.view;
  }
  friend bool operator==(const CheckpointId& a, const CheckpointId& b) {
    return a.history == b.history && a.step == b.step && a.view == b.view;
  }
};

// The part of a checkpoint that one writer saves.
struct Shard {
  int index = 0;
  int count = 1;
};

struct RejectedCheckpoint {
  CheckpointId id;  // by its name, where its content could not be read
  std::string path;
  absl::Status why;
};

struct RestoredCheckpoint {
  CheckpointId id;
  History history = 0;  // to go on with
  // Whether a restart would find this very state, in this history: not after going back to an older
  // one, nor when it lies elsewhere.
  bool is_newest = true;
  // Those newer than it, newest first.
  std::vector<RejectedCheckpoint> rejected;
};

// A checkpoint is whole or absent: before Commit nothing of it is visible to Restore. Calls one at
// a time, from any thread. Several processes may share one place: each saves its shards, one
// commits.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Writes and syncs one shard under the checkpoint's temporary name; all that save shards of one
  // id hold equal states. kResourceExhausted: disk full. An error leaves nothing of the shard.
  virtual absl::Status SaveShard(const CheckpointId& id, absl::Span<const TensorSpan> state,
                                 Shard shard) = 0;
  // By one of them, when all shards are saved: checks that they are all there, writes the index,
  // with checksums and digest of `state` (so bytes that differ from it are found when read), and
  // makes the whole visible, atomically and durably; then retires old ones, whose failing is only
  // logged. OK also when a good checkpoint of that id and state is there already; kAlreadyExists
  // when one of another state is. kFailedPrecondition, kDataLoss: a shard is missing, is cut short.
  virtual absl::Status Commit(const CheckpointId& id, absl::Span<const TensorSpan> state,
                              int num_shards) = 0;
  // Gives up what was saved of it and not committed.
  virtual void Abandon(const CheckpointId& id) = 0;
  // Where a committed one lies, for people.
  virtual std::string PathOf(const CheckpointId& id) const = 0;

  // Fills `state` from the newest good checkpoint of this model and seed (the tensor "seed", which
  // `state` holds when this is called) that `accept`, if there is one, is OK for. kNotFound: there
  // is none at all; `state` is untouched. kDataLoss: there are some, none is good.
  // kFailedPrecondition: the good ones are all of another model, seed or version of the format, or
  // not accepted. After an error other than kNotFound the memory is undefined.
  using Accept = std::function<absl::Status(const CheckpointId&)>;
  virtual absl::StatusOr<RestoredCheckpoint> Restore(absl::Span<const TensorSpan> state,
                                                     const Accept& accept = nullptr) = 0;
};

// 64-bit digest of a state: over names, types, shapes and bytes, in key order. Equal states give
// equal digests on every machine.
uint64_t QuickDigest(absl::Span<const TensorSpan> state);

}  // namespace everstep
