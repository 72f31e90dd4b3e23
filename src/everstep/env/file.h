// env: files and directories behind an interface, so that tests can lose what was not synced, fill
// the disk or make a write hang.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace everstep {

// One writer. Nothing is durable before Sync returned OK. The destructor closes without syncing.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::Span<const std::byte> bytes) = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;  // once; reports late write errors

  absl::Status Append(std::string_view text) {
    return Append(
        absl::Span<const std::byte>(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  }
};

// Reads at any offset, from any threads at once.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  virtual int64_t size() const = 0;  // at opening
  // Fills `out` from `offset`; kDataLoss when the file ends before.
  virtual absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const = 0;
};

// Paths are host paths. Errors name the path and the system's reason: kNotFound, kAlreadyExists,
// kPermissionDenied, kResourceExhausted (disk full), kUnavailable (the rest). Any thread.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // kTruncate replaces what was there; kExclusive is kAlreadyExists when something is.
  enum class Create { kTruncate, kExclusive, kAppend };
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                                       Create create,
                                                                       int mode = 0644) = 0;
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path) = 0;

  virtual absl::Status CreateDirectories(const std::string& path) = 0;  // and parents; OK if there
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;  // sorted
  // The same with what they are, as far as that costs no look at each.
  struct Entry {
    enum class Kind { kUnknown, kDirectory, kLink, kOther };
    std::string name;
    Kind kind = Kind::kUnknown;
  };
  virtual absl::StatusOr<std::vector<Entry>> ListEntries(const std::string& directory);
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;  // exclusive
  virtual absl::Status Remove(const std::string& path) = 0;  // a file or an empty directory
  virtual absl::Status RemoveTree(const std::string& path) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  virtual bool IsDirectory(const std::string& path) = 0;
  // When the file was last written, in seconds since 1970 by its machine's wall clock: for people
  // to read, nothing may depend on it. kUnimplemented where that is not kept.
  virtual absl::StatusOr<double> ModifiedAt(const std::string& path);
};

FileSystem& RealFileSystem();  // lives for the whole program

// The whole of a file.
absl::StatusOr<std::string> ReadWholeFile(FileSystem& fs, const std::string& path);

// "dir/name" whatever slashes are there already.
std::string JoinPath(std::string_view directory, std::string_view name);

// Absolute form of `path`, seen from the working directory; nothing needs to exist.
std::string AbsolutePath(const std::string& path);

// Makes `path` the working directory of this process. Before any thread is there.
absl::Status ChangeDirectory(const std::string& path);

}  // namespace everstep
