// supervise: the guardian.
#include "everstep/supervise/guardian.h"

#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"

namespace everstep {
namespace {

const std::vector<int> kSignals = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};

void PassOn(SignalQueue& signals, const Process& agent) {
  while (const std::optional<int> signal = signals.Next()) {
    if (*signal != SIGCHLD) agent.Signal(*signal);
  }
}

// Waits until the processes that came to us have ended by themselves, at most until `deadline`.
void WaitForOrphans(SignalQueue& signals, Deadline deadline) {
  while (true) {
    while (const pid_t pid = ExitedChild()) ReapChild(pid);
    const TimePoint now = RealClock().Now();
    if (!HasChildren() || now >= deadline) return;
    PollItem item{signals.fd(), true};
    (void)Poll(absl::MakeSpan(&item, 1), deadline - now);
    while (signals.Next().has_value()) {
    }
  }
}

}  // namespace

int RunGuarded(const std::function<int(const GuardedProcess&)>& body, Duration orphan_grace) {
  IgnorePipeSignal();
  BecomeSubreaper();
  // Before the copy is made, so that none is missed on either side.
  SignalQueue signals(kSignals);
  const pid_t guardian = OwnPid();
  absl::StatusOr<Process> agent = Process::Fork([&body, guardian] {
    BecomeSubreaper();
    SignalQueue own(kSignals);
    if (!SetParentDeathSignal(SIGTERM, guardian)) return static_cast<int>(kExitToldToLeave);
    return body({&own, guardian});
  });
  if (!agent.ok()) {
    WriteAll(2, absl::StrCat("everstep: ", agent.status().message(), "\n"));
    return ExitCodeFor(agent.status());
  }
  std::optional<int> status;
  while (!status.has_value()) {
    PassOn(signals, *agent);
    while (const pid_t pid = ExitedChild()) {
      if (pid == agent->pid()) break;
      ReapChild(pid);
    }
    status = agent->Poll();
    if (status.has_value()) break;
    PollItem items[] = {{signals.fd(), true}, {agent->pidfd(), true}};
    (void)Poll(absl::MakeSpan(items), std::chrono::hours(1));
  }
  if (WasKilled(*status)) {
    WriteAll(2, absl::StrCat("everstep: the supervising process ", DescribeWaitStatus(*status),
                             "; its processes are told to leave\n"));
    WaitForOrphans(signals, After(RealClock(), orphan_grace));
  }
  KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
  return ExitCodeOfWaitStatus(*status);
}

}  // namespace everstep
