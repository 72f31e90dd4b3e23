// env: temporary directories.
#include "everstep/env/temp_directory.h"

#include <stdlib.h>

#include <cstdio>

namespace everstep {

TempDirectory::TempDirectory() {
  const char* base = getenv("TMPDIR");
  path_ = JoinPath(base != nullptr && *base != '\0' ? base : "/tmp", "everstep-XXXXXX");
  if (mkdtemp(path_.data()) == nullptr) {
    std::perror(("cannot make " + path_).c_str());
    abort();
  }
}

TempDirectory::~TempDirectory() { (void)RealFileSystem().RemoveTree(path_); }

}  // namespace everstep
