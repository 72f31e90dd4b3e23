// checkpoint: which checkpoints a directory holds, and the newest good one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/checkpoint/store.h"
#include "everstep/env/file.h"

namespace everstep {

struct CheckpointInfo {
  CheckpointId id;
  std::string path;  // its directory

  std::string prefix() const;  // of its files
};

// The id whose DirectoryName is `name`; nothing for any other name.
std::optional<CheckpointId> ParseCheckpointName(std::string_view name);

// Newest last. A later history is newer whatever its step: what it replaced was found wrong. A
// directory that does not exist holds none.
absl::StatusOr<std::vector<CheckpointInfo>> ListCheckpoints(FileSystem& fs,
                                                            const std::string& directory);

struct RejectedCheckpoint {
  CheckpointInfo checkpoint;
  absl::Status why;
};

// The newest whose every CRC and digest is right. Those newer than it, and why not, go to
// `rejected` if that is not null. kNotFound: none at all; kDataLoss: none is good.
absl::StatusOr<CheckpointInfo> LatestCheckpoint(
    FileSystem& fs, const std::string& directory,
    std::vector<RejectedCheckpoint>* rejected = nullptr);

// What people name a checkpoint by, to the prefix of its files: a prefix, its .index file, a
// checkpoint's directory, a directory of checkpoints or a job directory (these two: the newest good
// one). kNotFound, saying what was looked for.
absl::StatusOr<std::string> FindCheckpoint(FileSystem& fs, const std::string& path);

// The directory of checkpoints in `path`, a job directory or that directory itself; nothing when
// `path` is neither.
std::optional<std::string> CheckpointsDirectory(FileSystem& fs, const std::string& path);

}  // namespace everstep
