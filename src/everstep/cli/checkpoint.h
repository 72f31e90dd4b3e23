// cli: `everstep checkpoint ...`: checkpoints listed, shown and checked. DIR is a job directory, a
// directory of checkpoints, one checkpoint's directory, or the prefix or .index file of a
// TensorFlow checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/base/step.h"
#include "everstep/env/file.h"

namespace everstep {

// TensorFlow's name for its DataType of that number, with a width: "float32", "string".
std::string DTypeName(int32_t dtype);

// The newest checkpoint in a job's directory; its index is whole, its bytes are not verified.
struct CheckpointGlance {
  Step step = 0;
  std::string name;  // of its directory
  std::optional<double> age_seconds;

  std::string Describe() const;  // "step 537 (step-537-h0-v1.2, 15 s old)"
};
// Nothing: there is none, or the directory cannot be read.
std::optional<CheckpointGlance> GlanceAtCheckpoints(FileSystem& fs, const std::string& job);

// The verbs themselves; `json`: for scripts.
absl::Status ListCheckpointsIn(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out);
absl::Status ShowCheckpoint(FileSystem& fs, const std::string& path, bool json, std::ostream& out);
// All checkpoints of a directory, or the one named. kDataLoss when one of them is damaged.
absl::Status VerifyCheckpoints(FileSystem& fs, const std::string& path, bool json,
                               std::ostream& out);
// What differs between two checkpoints; whether nothing of their states does. What is kept beside
// the state (history, view, ...) is told, but does not count. Needs memory for the largest tensor.
absl::StatusOr<bool> DiffCheckpoints(FileSystem& fs, const std::string& a, const std::string& b,
                                     bool json, std::ostream& out);
// What a restart of the job would find, read as a restart reads it. How many good checkpoints there
// are, of the two that are looked for: 0 is kDataLoss.
absl::StatusOr<int> DrillRestart(FileSystem& fs, const std::string& job, bool json,
                                 std::ostream& out);
// One line: the digest of the newest good checkpoint, computed from its bytes.
absl::Status PrintDigest(FileSystem& fs, const std::string& path, bool json, std::ostream& out);

}  // namespace everstep
