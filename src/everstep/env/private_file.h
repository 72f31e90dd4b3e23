// env: files that are one user's alone, as secrets are kept in.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace everstep {

struct PrivateFile {
  std::string text;      // the first 64 KiB
  bool own = false;      // it belongs to the user that this process runs as
  int mode = 0;          // permission bits, 0600
  bool is_file = false;  // and no pipe, device or directory
};

// The text and its owner are of one and the same file, whatever others do with the name meanwhile;
// links are followed. Never waits for a pipe's other end. Errors as those of FileSystem.
absl::StatusOr<PrivateFile> ReadPrivateFile(const std::string& path);

// A directory that only this user can enter; OK when something of that name is there. The parent
// must be there. Errors as those of FileSystem.
absl::Status MakePrivateDirectory(const std::string& path);

}  // namespace everstep
