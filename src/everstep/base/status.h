// base: Status helpers. Errors travel as absl::Status; no exception crosses a room.
//
// What the codes mean to whoever decides (engine for a worker, supervise for a process):
//   kUnavailable, kAborted, kDeadlineExceeded   drop the communicator, take the next view, redo the
//   step kDataLoss                                   the bytes are bad; another source, else exit
//   65 kInvalidArgument, kFailedPrecondition       the user must change something; exit 78 (2 for
//   usage) kCancelled                                  told to leave; exit 143 kInternal our fault;
//   exit 70
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace everstep {

// `status` with "context: " before its message; payloads are kept. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), absl::StrCat(absl::string_view(context.data(), context.size()),
                                                  ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& value) { result.SetPayload(url, value); });
  return result;
}

}  // namespace everstep

#define EV_CONCAT_INNER_(a, b) a##b
#define EV_CONCAT_(a, b) EV_CONCAT_INNER_(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define EV_RETURN_IF_ERROR(expr)             \
  do {                                       \
    absl::Status ev_status_ = (expr);        \
    if (!ev_status_.ok()) return ev_status_; \
  } while (false)

// EV_ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's status.
#define EV_ASSIGN_OR_RETURN(lhs, expr) EV_ASSIGN_OR_RETURN_(EV_CONCAT_(ev_or_, __LINE__), lhs, expr)
#define EV_ASSIGN_OR_RETURN_(var, lhs, expr) \
  auto var = (expr);                         \
  if (!var.ok()) return var.status();        \
  lhs = std::move(var).value()
