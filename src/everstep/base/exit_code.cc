// base: Status to exit code.
#include "everstep/base/exit_code.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace everstep {
namespace {
constexpr char kPayload[] = "everstep/exit-code";
}

absl::Status WithExitCode(absl::Status status, int code) {
  if (!status.ok()) status.SetPayload(kPayload, absl::Cord(absl::StrCat(code)));
  return status;
}

int ExitCodeFor(const absl::Status& status) {
  if (auto payload = status.GetPayload(kPayload)) {
    int code = 0;
    if (absl::SimpleAtoi(std::string(*payload), &code)) return code;
  }
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return kExitConfiguration;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
      return kExitBadData;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
      return kExitNotNow;
    case absl::StatusCode::kCancelled:
      return kExitToldToLeave;
    default:
      return kExitOurFault;
  }
}

}  // namespace everstep
