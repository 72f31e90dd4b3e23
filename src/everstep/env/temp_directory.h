// env: a directory for tests that goes away with its object.
#pragma once

#include <string>
#include <string_view>

#include "everstep/env/file.h"

namespace everstep {

class TempDirectory {
 public:
  TempDirectory();  // under $TMPDIR or /tmp; ends the process when it cannot be made
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

}  // namespace everstep
