// env: a file system in memory, for tests and simulation: it forgets what was not synced, and fails
// when told to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "everstep/env/file.h"

namespace everstep {

// The contract of FileSystem, with the durability that POSIX promises and no more: bytes are there
// after Sync of the file, names after SyncDirectory of their directory. No links between
// directories, no modes. Paths are absolute. Any thread.
class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  // The machine stops and starts again: what was not synced is gone. Files open before must not be
  // used after.
  void Crash();
  // The same, but of what was not synced some survives, drawn from `seed`, each name and each
  // file's bytes for itself, files cut short or with holes of zeros: what POSIX allows and journals
  // mostly spare us. A rename survives as a whole or not at all.
  void CrashKeepingSome(uint64_t seed);
  // Operations that change something and succeed before every later one is kUnavailable; -1: all.
  void FailAfter(int operations);
  int changes() const;  // operations that changed something so far

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                               Create create, int mode) override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  bool Exists(const std::string& path) override;
  bool IsDirectory(const std::string& path) override;

 private:
  struct Node;
  class OpenFile;
  class Snapshot;
  using NodePtr = std::shared_ptr<Node>;

  absl::Status Change(const std::string& path);  // counts; fails when it is time to
  NodePtr Find(const std::string& path) const;   // null when there is none
  // The directory that `path` lies in, and its name there.
  absl::StatusOr<NodePtr> Parent(const std::string& path, std::string* name) const;
  static void Revert(Node* node);
  static void KeepSome(Node* node, absl::FunctionRef<uint64_t()> random);
  static void KeepSomeBytes(Node* node, absl::FunctionRef<uint64_t()> random);
  static void KeepSomeNames(Node* node, absl::FunctionRef<uint64_t()> random);
  absl::Status RemoveNode(const std::string& path, Node* parent, const std::string& name);

  mutable std::mutex mu_;
  NodePtr root_;
  int left_ = -1;
  int changes_ = 0;
};

}  // namespace everstep
