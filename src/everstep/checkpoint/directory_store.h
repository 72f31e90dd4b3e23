// checkpoint: checkpoints as directories of a file system:
//   DIR/step-1175-h0-v1.1/state.index, state.data-00000-of-00002, ...   TensorFlow's V2 format
//   DIR/.tmp-step-1175-h0-v1.1/                                    saved, not committed
//   DIR/.old-step-1175-h0-v1.1/                                    being removed
//   DIR/checkpoint                                                 TensorFlow's note of the newest
#pragma once

#include <string>
#include <vector>

#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/retention.h"
#include "everstep/checkpoint/store.h"
#include "everstep/env/file.h"

namespace everstep {

struct DirectoryStoreOptions {
  std::string directory;
  int keep_last = 0;    // the newest so many stay; 0: all
  Step keep_every = 0;  // those of steps that are multiples of it stay; 0: none for that
  std::string only;     // restore this checkpoint (a path or prefix) or fail; empty: the newest
  std::string origin;   // the one to restore where the directory has no good one; empty: none
};

class DirectoryStore : public CheckpointStore {
 public:
  // `fs` outlives it. The directory is made when first needed.
  DirectoryStore(FileSystem& fs, DirectoryStoreOptions options);

  absl::Status SaveShard(const CheckpointId& id, absl::Span<const TensorSpan> state,
                         Shard shard) override;
  absl::Status Commit(const CheckpointId& id, absl::Span<const TensorSpan> state,
                      int num_shards) override;
  void Abandon(const CheckpointId& id) override;
  std::string PathOf(const CheckpointId& id) const override;
  // With `only`, and from `origin`, the history to go on with is one that nothing in the directory
  // has, when that holds anything newer: what is trained from here on is newer than what it
  // replaces.
  absl::StatusOr<RestoredCheckpoint> Restore(absl::Span<const TensorSpan> state,
                                             const Accept& accept = nullptr) override;

  // Removes what saves of any id left uncommitted, and half-removed ones, e.g. after a crash. Only
  // while nobody saves.
  absl::Status RemoveLeftovers();

 private:
  std::string TemporaryPath(const CheckpointId& id) const;
  std::string RetiredPath(const std::string& path) const;
  absl::Status MakeDirectory();
  absl::Status CheckShards(const CheckpointId& id, const std::vector<int64_t>& sizes);
  absl::StatusOr<bool> IsThere(const CheckpointId& id, const std::string& digest);
  void Tidy(const CheckpointId& id, absl::Span<const TensorSpan> state);
  absl::Status WriteNote(const CheckpointId& id, const std::vector<CheckpointInfo>& kept);
  absl::Status Retire(const std::vector<CheckpointInfo>& retired);
  absl::StatusOr<RestoredCheckpoint> RestoreNamed(const std::string& path,
                                                  absl::Span<const TensorSpan> state);

  FileSystem& fs_;
  const DirectoryStoreOptions options_;
};

}  // namespace everstep
