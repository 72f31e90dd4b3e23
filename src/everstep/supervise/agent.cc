// supervise: the agent.
#include "everstep/supervise/agent.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/process_identity.h"
#include "everstep/job/directory.h"

namespace everstep {
namespace {

// Processes that the coordinator has stopped already, and those of a job that has ended.
constexpr Duration kEndGrace = std::chrono::seconds(2);
constexpr Duration kTick = std::chrono::milliseconds(500);  // for what no descriptor announces
constexpr Duration kWaitingTick = std::chrono::milliseconds(50);
constexpr Duration kSettleTick = std::chrono::milliseconds(20);
constexpr Duration kSavingTick = std::chrono::milliseconds(100);  // after it has settled

}  // namespace

Agent::Agent(AgentOptions options, AgentView* view)
    : options_(std::move(options)),
      view_(view),
      fs_(options_.fs != nullptr ? *options_.fs : RealFileSystem()),
      pump_(
          fs_,
          [view](const Task& task, OutputStream stream, std::string_view line) {
            view->Line(task, stream, line);
          },
          [view](OutputStream stream) { return view->WantsRaw(stream); }),
      stacks_(fs_, [this] { Wake(); }) {
  absl::StatusOr<UniqueFd> wake = MakeEventFd();
  if (wake.ok()) wake_ = *std::move(wake);
}

Agent::~Agent() = default;

void Agent::Wake() { SignalEventFd(wake_.get()); }

AgentResult Agent::Run(AgentLink& link) {
  link_ = &link;
  while (!leaving_ || !children_.empty()) {
    HearSignals();
    TellNews();
    ReapExited();
    ObeyOrders();
    StartWaiting();
    KeepTime();
    if (leaving_ && children_.empty()) break;
    WaitForSomething();
  }
  pump_.Flush(std::chrono::seconds(2));
  return result_;
}

void Agent::WaitForSomething() {
  std::vector<PollItem> items;
  items.push_back({wake_.get(), true});
  if (options_.signals != nullptr) items.push_back({options_.signals->fd(), true});
  if (options_.coordinator != nullptr && !leaving_) {
    items.push_back({options_.coordinator->pidfd(), true});
  }
  Duration wait = kTick;
  if (!waiting_.empty()) wait = std::min(wait, kWaitingTick);
  const TimePoint now = RealClock().Now();
  for (const auto& [incarnation, child] : children_) {
    if (child.settles_at.has_value()) {
      wait = std::min(wait, now < *child.settles_at ? kSettleTick : kSavingTick);
    } else if (!stacks_.IsTaking(incarnation)) {
      items.push_back({child.process.pidfd(), true});
    }
    if (child.kill_at.has_value()) wait = std::min(wait, *child.kill_at - now);
  }
  (void)Poll(absl::MakeSpan(items), wait);
  if (items[0].readable) DrainEventFd(wake_.get());
}

void Agent::HearSignals() {
  if (options_.signals == nullptr) return;
  while (std::optional<int> signal = options_.signals->Next()) {
    if (*signal != SIGCHLD) OnWishToStop(*signal);
  }
}

void Agent::OnWishToStop(int signal) {
  const TimePoint now = RealClock().Now();
  if (options_.parent != 0 && ParentPid() != options_.parent) {
    Leave(kExitToldToLeave, "the process that started this one is gone", options_.orphan_grace);
    return;
  }
  const char* name = signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
  if (!stop_asked_.has_value()) {
    stop_asked_ = now;
    link_->Send(StopRequest{name});
    if (leaving_) return;
    view_->Say(absl::StrCat("stopping on ", name,
                            "; once more to end at once (a second one counts from ",
                            ToSeconds(options_.second_signal_after), " s after the first)"));
    // Nobody else will stop them.
    if (link_->AwayFor() > Duration::zero()) Leave(kExitToldToLeave, name, options_.grace);
  } else if (now - *stop_asked_ >= options_.second_signal_after) {
    Leave(kExitToldToLeave, absl::StrCat(name, " twice"), Duration::zero());
  }
}

void Agent::ReapExited() {
  for (auto it = children_.begin(); it != children_.end();) {
    if (!it->second.process.HasExited() || !Settle(it->first, it->second)) {
      ++it;
      continue;
    }
    // What it has left of its group goes with it, while its number is still its own.
    it->second.process.SignalGroup(SIGKILL);
    watch_->Remove(it->first);
    const int status = it->second.process.Poll().value_or(0);
    OnExit(it->first, it->second, status);
    it = children_.erase(it);
    // Another life may begin: from the newest checkpoint, so it should be whole.
    if (children_.empty() && std::exchange(life_failed_, false) && !leaving_) {
      watch_->VerifyNewest();
    }
  }
  if (options_.coordinator != nullptr && !leaving_ && options_.coordinator->HasExited()) {
    // It may have said that the job has ended, and gone.
    ObeyOrders();
    OnCoordinatorGone(options_.coordinator->Poll().value_or(0));
  }
  // Orphans that came to us; whoever spawned them is gone.
  while (const pid_t pid = ExitedChild()) {
    if (IsKnown(pid)) break;  // seen the next time round
    ReapChild(pid);
  }
}

void Agent::OnCoordinatorGone(int status) {
  if (leaving_) return;  // it has said why
  const std::string what = absl::StrCat("the coordinator ", WIFSIGNALED(status) ? "was " : "",
                                        DescribeWaitStatus(status));
  // Its exit code is the job's: it has ended the job, only its word of it did not come through, to
  // an agent that was stopped for instance.
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    return Leave(code, code == kExitDone ? "" : what, kEndGrace);
  }
  if (!children_.empty()) {
    view_->Say(absl::StrCat(what, "; the workers are told to leave: they finish their step and ",
                            "write a checkpoint (at most ", ToSeconds(options_.grace), " s)"));
  }
  Leave(kExitNotNow, what, options_.grace);
}

void Agent::ObeyOrders() {
  while (std::optional<AgentOrder> order = link_->Next(Deadline())) {
    std::visit([this](const auto& o) { OnOrder(o); }, *order);
  }
}

void Agent::OnOrder(const Kill& kill) {
  const auto it = children_.find(kill.incarnation);
  if (it != children_.end()) TellToLeave(it->second, kill.grace);
  const auto waiting = std::find_if(waiting_.begin(), waiting_.end(), [&kill](const Waiting& one) {
    return one.spawn.incarnation == kill.incarnation;
  });
  if (waiting == waiting_.end()) return;
  link_->Send(Exited{waiting->spawn.task, kill.incarnation, SIGTERM, "", /*oom=*/false, ""});
  waiting_.erase(waiting);
}

void Agent::OnOrder(const TakeStacks& take) {
  const auto it = children_.find(take.incarnation);
  if (it == children_.end()) {
    link_->Send(Stacks{take.incarnation, "it has ended\n", ""});
    return;
  }
  it->second.looked_at = true;
  const std::string& log = it->second.log_path;
  const std::string path = log.empty() ? ""
                                       : absl::StrCat(log.substr(0, log.rfind('/')), "/stacks-",
                                                      take.incarnation, ".txt");
  stacks_.Begin(
      {take.incarnation, it->second.process.pid(), pump_.CaptureOf(take.incarnation), path});
}

void Agent::OnOrder(const JobEnded& end) {
  if (leaving_) return;
  Leave(end.code, end.reason, kEndGrace);
  result_.from_coordinator = true;
}

void Agent::TellToLeave(Child& child, Duration grace) {
  const Deadline kill_at = After(RealClock(), grace);
  if (grace <= Duration::zero()) {
    child.process.SignalGroup(SIGKILL);
  } else if (!child.told) {
    child.process.SignalGroup(SIGTERM);
    child.process.SignalGroup(SIGCONT);  // a stopped one could not hear it
  }
  child.told = true;
  child.kill_at = std::min(child.kill_at.value_or(kill_at), kill_at);
}

void Agent::Leave(int code, std::string reason, Duration grace) {
  if (!leaving_) {
    leaving_ = true;
    result_.code = code;
    result_.reason = std::move(reason);
    waiting_.clear();
  }
  for (auto& [incarnation, child] : children_) TellToLeave(child, grace);
}

void Agent::KeepTime() {
  const TimePoint now = RealClock().Now();
  for (auto& [incarnation, child] : children_) {
    if (!child.kill_at.has_value() || now < *child.kill_at) continue;
    child.process.SignalGroup(SIGKILL);
    child.kill_at.reset();
  }
  if (leaving_) return;
  if (stop_asked_.has_value() && now - *stop_asked_ > options_.grace + options_.stop_margin) {
    Leave(kExitToldToLeave, "the coordinator did not end the job in time", Duration::zero());
    return;
  }
  const Duration away = link_->AwayFor();
  const Duration limit =
      begun_ ? options_.away_limit : std::min(options_.away_limit, options_.away_limit_at_start);
  if (away > limit || (stop_asked_.has_value() && away > kEndGrace)) {
    Leave(stop_asked_.has_value() ? kExitToldToLeave : kExitNotNow,
          absl::StrCat("the coordinator at ", options_.context.coordinator,
                       " has been out of reach for ", static_cast<int>(ToSeconds(away)), " s",
                       begun_ ? "" : " and has given this process no task"),
          options_.grace);
  }
}

}  // namespace everstep
