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

// Passes signals on; and as every wait has an end: an agent that is still there some time after the
// second wish to stop is killed.
class Relay {
 public:
  Relay(SignalQueue& signals, const Process& agent) : signals_(signals), agent_(agent) {}

  void PassOn() {
    const TimePoint now = RealClock().Now();
    while (const std::optional<int> signal = signals_.Next()) {
      if (*signal == SIGCHLD) continue;
      agent_.Signal(*signal);
      first_ = std::min(first_, now);
      if (now - first_ >= kSecondWish) kill_at_ = std::min(kill_at_, now + kPatience);
    }
    if (now >= kill_at_) agent_.Signal(SIGKILL);
  }
  Duration NextLook() const {
    return kill_at_ != Deadline::max() ? Duration(std::chrono::milliseconds(100))
                                       : std::chrono::hours(1);
  }

 private:
  static constexpr Duration kSecondWish = std::chrono::seconds(2);
  static constexpr Duration kPatience = std::chrono::seconds(15);

  SignalQueue& signals_;
  const Process& agent_;
  TimePoint first_ = TimePoint::max();
  Deadline kill_at_ = Deadline::max();
};

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
  IgnoreSignal(SIGPIPE);
  IgnoreSignal(SIGXFSZ);  // a file that may not grow is an error of that file
  IgnoreSignal(SIGTTOU);  // the copy is in the background of a terminal
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
  Relay relay(signals, *agent);
  std::optional<int> status;
  while (!status.has_value()) {
    relay.PassOn();
    while (const pid_t pid = ExitedChild()) {
      if (pid == agent->pid()) break;
      ReapChild(pid);
    }
    status = agent->Poll();
    if (status.has_value()) break;
    PollItem items[] = {{signals.fd(), true}, {agent->pidfd(), true}};
    (void)Poll(absl::MakeSpan(items), relay.NextLook());
  }
  if (WasKilled(*status)) {
    WriteAll(2, absl::StrCat("everstep: the supervising process was ", DescribeWaitStatus(*status),
                             "; its processes are told to leave\n"));
    WaitForOrphans(signals, After(RealClock(), orphan_grace));
  }
  KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
  return ExitCodeOfWaitStatus(*status);
}

}  // namespace everstep
