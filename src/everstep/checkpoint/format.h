// checkpoint: what our checkpoints hold besides the state's tensors, and under which keys.
//
//   model/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE   the tensor "model/dense/kernel" of the state
//   save_counter/.ATTRIBUTES/VARIABLE_VALUE         int64, the step: TensorFlow's count of saves
//   _CHECKPOINTABLE_OBJECT_GRAPH                    by which TensorFlow's objects find their values
//   everstep/checkpoint                             JSON, what is ours; see CheckpointMeta
//
// Version 1 had tensors under their plain names and, of the rest, only everstep/digest.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/checkpoint/store.h"
#include "everstep/io/bundle_writer.h"

namespace everstep {

extern const char kMetaKey[];         // "everstep/checkpoint"
extern const char kSaveCounterKey[];  // "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
extern const char kDigestKey[];       // of version 1: uint8[16]
constexpr size_t kDigestDigits = 32;

// {"format":"everstep.checkpoint.v2","digest":"<32 hex>","step":7,"history":0,"view":"1.1",
//  "data":"<16 hex>","fit_begin":0}
struct CheckpointMeta {
  std::string digest;  // FullDigest of the state
  CheckpointId id;

  std::string ToJson() const;
  // kDataLoss: not what ToJson writes; kUnimplemented: of a later version, which it names. `where`
  // begins the message.
  static absl::StatusOr<CheckpointMeta> Parse(std::string_view json, const std::string& where);
};

// Adds everything of a checkpoint to `bundle`, which reads the state's memory when it writes. The
// places of all in the bundle do not depend on `digest`, which is 32 hexadecimal digits.
// kInvalidArgument: two tensors of one name, or one of a name that is taken here.
absl::Status AddCheckpoint(const CheckpointId& id, absl::Span<const TensorSpan> state,
                           const std::string& digest, BundleWriter* bundle);

// The path of a checkpoint's files without what follows ".": "state" in its directory.
std::string CheckpointPrefix(const std::string& directory);

}  // namespace everstep
