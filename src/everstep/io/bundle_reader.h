// io: reads TensorFlow V2 checkpoints ("bundles") of any number of shards, ours or TensorFlow's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/env/file.h"

namespace everstep {

// One tensor of a bundle.
struct BundleEntry {
  std::string name;
  int32_t dtype = 0;  // TensorFlow's DataType; IsKnownDType says whether it is one of ours
  std::vector<int64_t> shape;
  int shard = 0;
  int64_t offset = 0, size = 0;  // bytes in the shard
  uint32_t crc = 0;              // of the bytes (strings: of what the format says), not masked
  bool sliced = false;           // saved in pieces under keys of their own: no bytes here

  bool is_string() const { return dtype == 7; }
};

// Immutable once open; any thread. kNotFound: no such bundle. kDataLoss: damage, always naming the
// file. kUnimplemented: a big-endian, compressed or newer one.
class BundleReader {
 public:
  // Reads and checks the index, opens the data files and checks that every tensor lies inside.
  // Opening a hostile bundle takes no more memory than its files' size.
  static absl::StatusOr<std::unique_ptr<BundleReader>> Open(FileSystem& fs,
                                                            const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  // In key order; slices (keys that begin with a zero byte) are not among them.
  const std::vector<BundleEntry>& entries() const { return entries_; }
  const BundleEntry* Find(std::string_view name) const;  // null when there is none

  // Fills `out`, entry.size bytes, and checks its CRC. Not for strings and sliced tensors.
  absl::Status Read(const BundleEntry& entry, absl::Span<std::byte> out) const;
  // The elements of a string tensor.
  absl::StatusOr<std::vector<std::string>> ReadStrings(const BundleEntry& entry) const;
  // Reads the bytes piece by piece through `on`, then checks the CRC: `on` may see bad bytes, of
  // which the result then tells.
  absl::Status Stream(const BundleEntry& entry,
                      absl::FunctionRef<void(absl::Span<const std::byte>)> on) const;

  // Checks the CRC of one entry, in bounded memory.
  absl::Status Check(const BundleEntry& entry) const;
  // The same of every entry, slices included.
  absl::Status Verify() const;

 private:
  BundleReader() = default;
  absl::Status ParseHeader(std::string_view value);
  absl::Status ParseEntry(std::string_view key, std::string_view value);
  absl::Status OpenShards(FileSystem& fs);
  absl::Status CheckPlace(const BundleEntry& entry) const;
  absl::Status CheckOverlaps() const;
  absl::Status CheckStrings(const BundleEntry& entry) const;
  absl::Status Damaged(const BundleEntry& entry, std::string_view why) const;

  std::string prefix_;
  int num_shards_ = 0;
  std::vector<std::unique_ptr<RandomAccessFile>> shards_;
  std::vector<BundleEntry> entries_;
  std::vector<BundleEntry> slices_;
};

}  // namespace everstep
