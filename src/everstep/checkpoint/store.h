// checkpoint: the contract of the place where states are kept.
#pragma once

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

  std::string DirectoryName() const;  // "step-1175-h0-v1.1"
};

// A checkpoint is whole or absent. Save first, then Commit: between the two nothing is visible to
// Latest. Calls come from one thread.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Writes and syncs everything of the state under a temporary name. Errors leave nothing visible.
  virtual absl::Status Save(const CheckpointId& id, absl::Span<const TensorSpan> state) = 0;
  // Makes the saved one visible, atomically and durably.
  virtual absl::Status Commit(const CheckpointId& id) = 0;
  // Where a committed one lies, for people.
  virtual std::string PathOf(const CheckpointId& id) const = 0;
};

// 64-bit digest of a state: over names, types, shapes and bytes, in key order. Equal states give
// equal digests on every machine.
uint64_t QuickDigest(absl::Span<const TensorSpan> state);

}  // namespace everstep
