// launch: waiting for the coordinator.
#include "everstep/launch/await_coordinator.h"

#include <signal.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/port.h"

namespace everstep {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(200);  // between two attempts
constexpr Duration kAttempt = std::chrono::seconds(5);

bool ToldToLeave(SignalQueue& signals) {
  while (const std::optional<int> signal = signals.Next()) {
    if (*signal != SIGCHLD) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> AwaitCoordinator(const AwaitedCoordinator& awaited,
                                             SignalQueue* signals) {
  const Deadline deadline = awaited.since.value_or(RealClock().Now()) + awaited.at_most;
  const std::string which =
      absl::StrCat("the coordinator at ", awaited.address.ToString(),
                   awaited.who.empty() ? "" : absl::StrCat(", which ", awaited.who, " starts"));
  TimePoint say_at = After(RealClock(), awaited.say_every);
  absl::Status last = absl::DeadlineExceededError("no answer");
  while (true) {
    const TimePoint now = RealClock().Now();
    const auto dialed = DialTcp(awaited.address, std::min(deadline, now + kAttempt), signals->fd());
    if (dialed.ok()) {
      return LocalAddressTowards(awaited.address, After(RealClock(), kAttempt));
    }
    if (!absl::IsAborted(dialed.status())) last = dialed.status();
    PollItem item{signals->fd(), true};
    if (!absl::IsAborted(dialed.status())) (void)Poll(absl::MakeSpan(&item, 1), kPause);
    if (ToldToLeave(*signals)) {
      return absl::CancelledError(absl::StrCat("told to leave while waiting for ", which));
    }
    if (RealClock().Now() >= deadline) {
      return WithExitCode(
          absl::DeadlineExceededError(absl::StrCat(
              which, awaited.who.empty() ? "" : ",", " was not there within ",
              ToSeconds(awaited.at_most), " s (EVERSTEP_JOIN_DEADLINE); last: ", last.message())),
          kExitNotNow);
    }
    if (RealClock().Now() >= say_at) {
      awaited.say(absl::StrCat("waiting for ", which, "; last: ", last.message()));
      say_at = After(RealClock(), awaited.say_every);
    }
  }
}

}  // namespace everstep
