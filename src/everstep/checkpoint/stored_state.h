// checkpoint: one checkpoint's files, read and checked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/env/file.h"
#include "everstep/io/bundle_reader.h"

namespace everstep {

// Immutable; any thread. Also opens checkpoints that TensorFlow wrote: these have no digest stored.
// kNotFound; kDataLoss, naming the file, for damage.
class StoredState {
 public:
  // `prefix` as TensorFlow has it: PREFIX.index, PREFIX.data-00000-of-00001.
  static absl::StatusOr<std::unique_ptr<StoredState>> Open(FileSystem& fs,
                                                           const std::string& prefix);

  // In key order, without what is not of the state (the digest, TensorFlow's object graph).
  const std::vector<BundleEntry>& tensors() const { return tensors_; }
  // The digest found in the checkpoint; empty when there is none.
  const std::string& stored_digest() const { return stored_digest_; }

  // FullDigest of the state, computed from the bytes, each CRC checked.
  absl::StatusOr<std::string> ComputeDigest() const;
  // Every CRC, and that the digest is the stored one, if one is stored.
  absl::Status Verify() const;

  // Fills the memory of `state`, which must have exactly these tensors; then checks CRCs and
  // digest. kFailedPrecondition, naming the tensor, when names, types or shapes differ: nothing is
  // written then. After another error the memory is undefined.
  absl::Status Restore(absl::Span<const TensorSpan> state) const;

 private:
  StoredState() = default;
  absl::Status CheckFits(absl::Span<const TensorSpan> state) const;
  absl::Status Compare(const std::string& digest) const;

  std::unique_ptr<BundleReader> bundle_;
  std::vector<BundleEntry> tensors_;
  std::string stored_digest_;
};

// The key under which our checkpoints keep the digest: uint8[16].
extern const char kDigestKey[];

}  // namespace everstep
