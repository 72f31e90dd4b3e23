// checkpoint: the directory store, reading: the newest good one, or the one that is wanted.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/format.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/io/bytes.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

// What of `state` a checkpoint must fit to: it keeps the seed from being overwritten by one
// checkpoint that turns out to be bad and then compared with the next.
class Wanted {
 public:
  explicit Wanted(absl::Span<const TensorSpan> state) : tensors_(state.begin(), state.end()) {
    for (TensorSpan& tensor : tensors_) {
      if (tensor.name != "seed") continue;
      seed_ = AsText(tensor.bytes());
      tensor.data = AsWritableBytes(&seed_).data();
    }
  }
  Wanted(const Wanted&) = delete;
  Wanted& operator=(const Wanted&) = delete;
  absl::Span<const TensorSpan> tensors() const { return tensors_; }

 private:
  std::string seed_;
  std::vector<TensorSpan> tensors_;
};

absl::Status Fill(const StoredState& stored, const Wanted& wanted,
                  absl::Span<const TensorSpan> state) {
  EV_RETURN_IF_ERROR(stored.CheckFits(wanted.tensors()));
  return stored.Restore(state);
}

// Not kNotFound, which would mean that the job begins anew.
absl::Status UsersToChange(const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsUnimplemented(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

}  // namespace

absl::StatusOr<RestoredCheckpoint> DirectoryStore::Restore(absl::Span<const TensorSpan> state) {
  if (!options_.only.empty()) return RestoreOnly(state);
  const Wanted wanted(state);
  RestoredCheckpoint restored;
  EV_ASSIGN_OR_RETURN(const CheckpointInfo newest,
                      NewestCheckpoint(
                          fs_, options_.directory,
                          [&](const StoredState& stored) { return Fill(stored, wanted, state); },
                          &restored.rejected));
  restored.id = newest.id;
  restored.history = newest.id.history;
  return restored;
}

absl::StatusOr<RestoredCheckpoint> DirectoryStore::RestoreOnly(absl::Span<const TensorSpan> state) {
  const absl::StatusOr<std::string> prefix = FindCheckpoint(fs_, options_.only);
  if (!prefix.ok()) return UsersToChange(prefix.status());
  const auto stored = StoredState::Open(fs_, *prefix);
  if (!stored.ok()) return UsersToChange(stored.status());
  if (!(*stored)->is_ours()) {
    return absl::FailedPreconditionError(
        absl::StrCat(*prefix, ": not a checkpoint of Everstep; name one that it wrote"));
  }
  const Wanted wanted(state);
  EV_RETURN_IF_ERROR(Fill(**stored, wanted, state));
  RestoredCheckpoint restored;
  restored.id = IdOf(**stored, DirectoryOf(*prefix));
  restored.history = restored.id.history;
  EV_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> all,
                      ListCheckpoints(fs_, options_.directory));
  // Sorted by age, and of ages the history counts first.
  if (!all.empty() && restored.id < all.back().id) restored.history = all.back().id.history + 1;
  return restored;
}

}  // namespace everstep
