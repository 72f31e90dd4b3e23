// io: writes a TensorFlow V2 checkpoint, a "bundle": PREFIX.data-00000-of-00001 with the tensors'
// bytes, PREFIX.index with a table of their names, types, shapes, places and CRCs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/tensor_span.h"
#include "everstep/env/file.h"

namespace everstep {

// Add in any order, then Finish. One thread. The bytes go to the data file as they are added; the
// index is written last, so a bundle without index is an unfinished one.
class BundleWriter {
 public:
  // Replaces files of that prefix.
  static absl::StatusOr<std::unique_ptr<BundleWriter>> Open(FileSystem& fs,
                                                            const std::string& prefix);

  // kInvalidArgument: an empty name, a name added before, a negative shape.
  absl::Status Add(const TensorSpan& tensor);
  // A scalar of TensorFlow's string type.
  absl::Status AddString(std::string_view name, std::string_view value);

  // Syncs both files. Their directory is the caller's to sync.
  absl::Status Finish();

 private:
  BundleWriter(FileSystem& fs, std::string prefix, std::unique_ptr<WritableFile> data);
  absl::Status AddEntry(std::string_view name, int32_t dtype, absl::Span<const int64_t> shape,
                        int64_t size, uint32_t masked_crc);

  FileSystem& fs_;
  const std::string prefix_;
  std::unique_ptr<WritableFile> data_;
  int64_t offset_ = 0;
  std::map<std::string, std::string> entries_;  // encoded, in the order of the index
};

// PREFIX.data-00001-of-00004
std::string BundleDataPath(const std::string& prefix, int shard, int num_shards);

}  // namespace everstep
