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
#include "everstep/io/publish.h"

namespace everstep {
namespace {

// One that fits has the seed that `state` holds, so even one that turns out to be bad leaves the
// seed as it is for the next to be held against.
absl::Status Fill(const StoredState& stored, absl::Span<const TensorSpan> state) {
  EV_RETURN_IF_ERROR(stored.CheckFits(state));
  return stored.Restore(state);
}

// Not kNotFound, which would mean that the job begins anew.
absl::Status UsersToChange(const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsUnimplemented(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

}  // namespace

absl::StatusOr<RestoredCheckpoint> DirectoryStore::Restore(absl::Span<const TensorSpan> state,
                                                           const Accept& accept) {
  if (!options_.only.empty()) return RestoreNamed(options_.only, state);
  RestoredCheckpoint restored;
  const auto fill = [&](const StoredState& stored) {
    if (accept && stored.id().has_value()) EV_RETURN_IF_ERROR(accept(*stored.id()));
    return Fill(stored, state);
  };
  const absl::StatusOr<CheckpointInfo> newest =
      NewestCheckpoint(fs_, options_.directory, fill, &restored.rejected);
  if (newest.ok()) {
    restored.id = newest->id;
    restored.history = newest->id.history;
    return restored;
  }
  const bool none_is_good = absl::IsNotFound(newest.status()) ||
                            absl::IsDataLoss(newest.status()) ||
                            absl::IsFailedPrecondition(newest.status());
  if (!none_is_good || options_.origin.empty()) return newest.status();
  EV_ASSIGN_OR_RETURN(RestoredCheckpoint begun, RestoreNamed(options_.origin, state));
  begun.rejected = std::move(restored.rejected);
  return begun;
}

absl::StatusOr<RestoredCheckpoint> DirectoryStore::RestoreNamed(
    const std::string& path, absl::Span<const TensorSpan> state) {
  const absl::StatusOr<std::string> prefix = FindCheckpoint(fs_, path);
  if (!prefix.ok()) return UsersToChange(prefix.status());
  const auto stored = StoredState::Open(fs_, *prefix);
  if (!stored.ok()) return UsersToChange(stored.status());
  if (!(*stored)->is_ours()) {
    return absl::FailedPreconditionError(
        absl::StrCat(*prefix, ": not a checkpoint of Everstep; name one that it wrote"));
  }
  EV_RETURN_IF_ERROR(Fill(**stored, state));
  RestoredCheckpoint restored;
  restored.id = IdOf(**stored, DirectoryOf(*prefix));
  restored.history = restored.id.history;
  EV_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> all,
                      ListCheckpoints(fs_, options_.directory));
  // Sorted by age, and of ages the history counts first.
  if (!all.empty() && restored.id < all.back().id) restored.history = all.back().id.history + 1;
  const auto is_it = [&](const CheckpointInfo& info) {
    return AbsolutePath(info.prefix()) == AbsolutePath(*prefix);
  };
  // Another job's: this one may train on what it likes.
  if (std::none_of(all.begin(), all.end(), is_it)) restored.id.data = 0;
  restored.is_newest = !all.empty() && AbsolutePath(all.back().prefix()) == AbsolutePath(*prefix);
  return restored;
}

}  // namespace everstep
