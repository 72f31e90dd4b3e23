// io: files that are there whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/env/file.h"

namespace everstep {

// Writes under a temporary name beside `path`; Publish makes it `path`, durably, replacing what was
// there. Without Publish nothing stays. One thread. After a crash a file ".NAME.tmp-HEX" may stay.
class AtomicFile {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Open(FileSystem& fs, const std::string& path,
                                                          int mode = 0644);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  WritableFile& file() { return *file_; }
  absl::Status Publish();  // once

 private:
  AtomicFile(FileSystem& fs, std::string path, std::string temporary,
             std::unique_ptr<WritableFile> file);

  FileSystem& fs_;
  const std::string path_, temporary_;
  std::unique_ptr<WritableFile> file_;
  bool published_ = false;
};

// The same in one call.
absl::Status PublishFile(FileSystem& fs, const std::string& path, std::string_view contents,
                         int mode = 0644);

// The directory part of `path`: "." when it has none.
std::string DirectoryOf(const std::string& path);
// What follows the last slash.
std::string BaseName(const std::string& path);

}  // namespace everstep
