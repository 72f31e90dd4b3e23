// cli: `everstep checkpoint ...`: checkpoints listed, shown and checked. DIR is a job directory, a
// directory of checkpoints, one checkpoint's directory, or the prefix or .index file of a
// TensorFlow checkpoint.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "everstep/env/file.h"

namespace everstep {

// The verbs themselves; `json`: for scripts.
absl::Status ListCheckpointsIn(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out);
absl::Status ShowCheckpoint(FileSystem& fs, const std::string& path, bool json, std::ostream& out);
// All checkpoints of a directory, or the one named. kDataLoss when one of them is damaged.
absl::Status VerifyCheckpoints(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out);
// One line: the digest of the newest good checkpoint, computed from its bytes.
absl::Status PrintDigest(FileSystem& fs, const std::string& path, bool json, std::ostream& out);

}  // namespace everstep
