// checkpoint: which checkpoints a directory holds, and the newest good one. The content is the
// truth: a directory that was renamed still holds what it held.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/checkpoint/store.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/env/file.h"

namespace everstep {

struct CheckpointInfo {
  CheckpointId id;      // as stored inside; by its name, where that cannot be read
  std::string path;     // its directory
  absl::Status opened;  // of its index and sizes; its bytes may still be bad

  std::string prefix() const;  // of its files
};

// The id whose DirectoryName is `name`; nothing for any other name.
std::optional<CheckpointId> ParseCheckpointName(std::string_view name);

// What `stored`, of ours, is: as it says itself; one of version 1 says it by the name of its
// directory `path`.
CheckpointId IdOf(const StoredState& stored, const std::string& path);

// Newest last. Every directory in `directory` that holds a checkpoint of ours or is named like one,
// damaged or not; none whose name begins with a dot. A directory that does not exist holds none.
absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(FileSystem& fs,
                                                            const std::string& directory);

// The newest that `accept` is OK for. Those newer than it, and why not, go to `rejected` if that is
// not null. When one is retired while it is read, this looks again. kNotFound: there is none at
// all; kFailedPrecondition: some were refused with that or with kUnimplemented; kUnavailable: they
// keep vanishing; else kDataLoss.
absl::StatusOr<CheckpointInfo> NewestCheckpoint(
    FileSystem& fs, const std::string& directory,
    absl::FunctionRef<absl::Status(const StoredState&)> accept,
    std::vector<RejectedCheckpoint>* rejected);

// The newest whose every CRC and digest is right.
absl::StatusOr<CheckpointInfo> LatestCheckpoint(
    FileSystem& fs, const std::string& directory,
    std::vector<RejectedCheckpoint>* rejected = nullptr);

// Whether the newest good one there is at `step` or further.
bool HoldsStep(FileSystem& fs, const std::string& directory, Step step);

// What people name a checkpoint by, to the prefix of its files: a prefix, its .index file, a
// checkpoint's directory, a directory of checkpoints or a job directory (these two: the newest good
// one). kNotFound, saying what was looked for.
absl::StatusOr<std::string> FindCheckpoint(FileSystem& fs, const std::string& path);

// The directory of checkpoints in `path`, a job directory or that directory itself; nothing when
// `path` is neither.
std::optional<std::string> CheckpointsDirectory(FileSystem& fs, const std::string& path);

}  // namespace everstep
