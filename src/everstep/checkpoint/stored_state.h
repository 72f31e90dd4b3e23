// checkpoint: one checkpoint's files, read and checked.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/checkpoint/store.h"
#include "everstep/env/file.h"
#include "everstep/io/bundle_reader.h"

namespace everstep {

// Immutable; any thread. Opens our checkpoints of any version, and those that TensorFlow wrote:
// these have no digest stored. kNotFound; kDataLoss, naming the file, for damage; kUnimplemented,
// naming the format, for one of a later version.
class StoredState {
 public:
  // `prefix` as TensorFlow has it: PREFIX.index, PREFIX.data-00000-of-00001.
  static absl::StatusOr<std::unique_ptr<StoredState>> Open(FileSystem& fs,
                                                           const std::string& prefix);

  // In the byte order of names, without what is not of the state. Ours have the state's own names,
  // TensorFlow's their keys.
  const std::vector<BundleEntry>& tensors() const { return tensors_; }
  // The digest found in the checkpoint; empty when there is none.
  const std::string& stored_digest() const { return stored_digest_; }
  bool is_ours() const { return !stored_digest_.empty(); }
  // What the checkpoint says it is; nothing in version 1 and in TensorFlow's.
  const std::optional<CheckpointId>& id() const { return id_; }
  // The value of the int64 scalar of that name. kNotFound: there is no such tensor.
  absl::StatusOr<int64_t> ReadInt64(std::string_view name) const;

  // FullDigest of the state, computed from the bytes; each CRC is checked, of what is not of the
  // state too.
  absl::StatusOr<std::string> ComputeDigest() const;
  // Every CRC, and that the digest is the stored one, if one is stored.
  absl::Status Verify() const;

  // Whether Restore may fill `state`: it has exactly these tensors, and the same int64 "seed" if it
  // has one. kFailedPrecondition, naming the tensor; kDataLoss when the seed cannot be read.
  absl::Status CheckFits(absl::Span<const TensorSpan> state) const;
  // Fills the memory of `state`, in one pass over the files; then checks every CRC and the digest.
  // Writes nothing when the names, types and shapes do not fit. After another error the memory is
  // undefined.
  absl::Status Restore(absl::Span<const TensorSpan> state) const;

 private:
  StoredState() = default;
  absl::Status AddEntry(const BundleEntry& entry, bool version2);
  absl::Status ReadMeta();
  absl::Status CheckTensors(absl::Span<const TensorSpan> state) const;
  absl::Status CheckRest() const;
  const BundleEntry* Find(std::string_view name) const;  // null when there is none
  absl::Status Compare(const std::string& digest) const;

  std::unique_ptr<BundleReader> bundle_;
  std::vector<BundleEntry> tensors_;
  std::vector<BundleEntry> rest_;  // of ours: the object graph and its like
  std::string stored_digest_;
  std::optional<CheckpointId> id_;
};

}  // namespace everstep
