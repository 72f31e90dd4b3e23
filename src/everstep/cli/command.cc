// cli: ends of verbs.
#include "everstep/cli/command.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"

namespace everstep {

int Finish(const absl::Status& status) {
  if (!status.ok()) {
    std::string line = absl::StrCat("everstep: ", status.message());
    for (char& c : line) {
      if (c == '\n' || c == '\r') c = ' ';
    }
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  return ExitCodeFor(status);
}

absl::Status AsBadData(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
      return WithExitCode(status, kExitBadData);
    default:
      return status;
  }
}

}  // namespace everstep
