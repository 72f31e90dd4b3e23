// job: appends lines to incidents.jsonl on a disk that may be full or fail in the middle. Internal
// to the room.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "everstep/env/file.h"

namespace everstep {

// One thread. The only writer of the file.
class IncidentAppender {
 public:
  IncidentAppender(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  // What is there already: its bytes, and whether they end in the middle of a line.
  void SetEnd(int64_t size, bool torn);
  void Add(std::string_view line) { pending_.append(line); }  // with its newline
  bool empty() const { return pending_.empty() || pending_ == "\n"; }

  // Writes and syncs all that was added. After an error the next call goes on where the last one
  // stopped: what came to the file is not written again, except after a failed sync, when nobody
  // can know what is on the disk.
  absl::Status Flush();

 private:
  absl::Status Open();

  FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<WritableFile> file_;
  bool made_ = false;      // its name is durable
  int64_t end_ = 0;        // bytes known to be durable
  std::string pending_;    // what is to follow them
  size_t written_ = 0;     // bytes of it that are in the file
  bool unsynced_ = false;  // the last sync failed
};

}  // namespace everstep
