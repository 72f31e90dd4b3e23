// checkpoint: checkpoints as directories of a file system:
//   DIR/step-1175-h0-v1.1/state.index, state.data-00000-of-00001   TensorFlow's V2 format
//   DIR/.tmp-step-1175-h0-v1.1/                                    saved, not committed
//   DIR/checkpoint                                                 TensorFlow's note of the newest
#pragma once

#include <string>

#include "everstep/checkpoint/store.h"
#include "everstep/env/file.h"

namespace everstep {

class DirectoryStore : public CheckpointStore {
 public:
  // `fs` outlives it. The directory is made when first needed. With `keep` > 0 a Commit removes all
  // but the newest `keep`; a failure to do so is only logged.
  DirectoryStore(FileSystem& fs, std::string directory, int keep = 0);

  // Replaces what an earlier Save of the same id left uncommitted. kResourceExhausted: disk full.
  absl::Status Save(const CheckpointId& id, absl::Span<const TensorSpan> state) override;
  // OK also when a checkpoint of that id with the same digest is there already; kAlreadyExists when
  // it has another one.
  absl::Status Commit(const CheckpointId& id) override;
  std::string PathOf(const CheckpointId& id) const override;

  // Removes what Saves of any id left uncommitted, e.g. after a crash. Only while nobody saves.
  absl::Status RemoveLeftovers();

 private:
  std::string TemporaryPath(const CheckpointId& id) const;
  absl::Status Write(const std::string& path, absl::Span<const TensorSpan> state);
  absl::Status MakeDirectory();
  absl::Status CommitAgain(const CheckpointId& id);
  void NoteNewest(const CheckpointId& id);
  void Retire();

  FileSystem& fs_;
  const std::string directory_;
  const int keep_;
};

}  // namespace everstep
