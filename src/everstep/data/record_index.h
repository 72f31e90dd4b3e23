// data: where each record of some TFRecord files starts: random access to them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/env/file.h"

namespace everstep {

// Immutable once open; any thread. Keeps its files open.
class RecordIndex {
 public:
  // Indexes `paths`, in that order, as one sequence of records. The places of the records of FILE
  // are kept in FILE.evindex when its directory can be written; a kept one that does not fit FILE's
  // size and samples of its bytes is made anew. kNotFound; kDataLoss, naming file and offset, when
  // lengths are damaged or a file ends early. Payloads are checked when read.
  static absl::StatusOr<std::shared_ptr<const RecordIndex>> Open(
      FileSystem& fs, const std::vector<std::string>& paths, bool keep = true);

  int64_t size() const { return first_.back(); }
  // Identifies the records: over sizes, lengths and samples of the files, not their names.
  uint64_t fingerprint() const { return fingerprint_; }

  // The payload of record `record`, in `*scratch`; header and CRCs are checked. kDataLoss names the
  // file and the offset.
  absl::StatusOr<std::string_view> Read(int64_t record, std::string* scratch) const;

  // "PATH: record 17 (at offset 1234)", counted inside that file.
  std::string Describe(int64_t record) const;

 private:
  struct File {
    std::string path;
    std::unique_ptr<RandomAccessFile> file;
    std::vector<int64_t> offsets;  // of each record, then the end of the last one
  };
  RecordIndex() = default;
  static absl::StatusOr<File> OpenFile(FileSystem& fs, const std::string& path, bool keep,
                                       uint64_t* fingerprint);
  // The file that holds `record`, and which record of that file it is.
  const File& Locate(int64_t record, int64_t* in_file) const;

  std::vector<File> files_;
  std::vector<int64_t> first_ = {0};  // of each file, then the total
  uint64_t fingerprint_ = 0;
};

}  // namespace everstep
