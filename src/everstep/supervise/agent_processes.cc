// supervise: the agent: the life of one process, from its order to the news of its end.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/other_process.h"
#include "everstep/env/poll.h"
#include "everstep/env/process_identity.h"
#include "everstep/job/directory.h"
#include "everstep/supervise/agent.h"

namespace everstep {
namespace {

// For the last lines of a process that has ended; the news of its end must not wait for a slow
// terminal.
constexpr Duration kTailPatience = std::chrono::milliseconds(50);
// For the helpers of a process that has ended to end by themselves, as good ones do.
constexpr Duration kSettling = std::chrono::milliseconds(300);
// Who succeeds sooner than that and leaves a process behind has put itself into the background.
constexpr Duration kMoments = std::chrono::seconds(3);
constexpr size_t kMaxNamed = 5;       // processes that are named
constexpr size_t kMaxArguments = 80;  // bytes of what one was started with

int StatusOfSpawnError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return 127 << 8;  // as shells have it
    case absl::StatusCode::kPermissionDenied:
      return 126 << 8;
    default:
      return ExitCodeFor(status) << 8;
  }
}

// The port that the task has in its cluster; 0: none.
int OwnPort(const Spawn& spawn) {
  const absl::StatusOr<std::string> address = spawn.cluster.Address(spawn.task);
  const absl::StatusOr<HostPort> parsed =
      address.ok() ? HostPort::Parse(*address) : address.status();
  return parsed.ok() ? parsed->port : 0;
}

// "1234 (python3 helper.py)"
std::string Describe(const ProcessEntry& entry) {
  std::string arguments = absl::StrJoin(ArgumentsOf(entry.pid), " ");
  if (arguments.size() > kMaxArguments) arguments = arguments.substr(0, kMaxArguments) + "...";
  return absl::StrCat(entry.pid, arguments.empty() ? "" : absl::StrCat(" (", arguments, ")"));
}

std::string Describe(const std::vector<ProcessEntry>& processes) {
  std::string text =
      processes.size() == 1 ? "process" : absl::StrCat(processes.size(), " processes:");
  for (size_t i = 0; i < processes.size() && i < kMaxNamed; ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", Describe(processes[i]));
  }
  return processes.size() > kMaxNamed ? text + ", ..." : text;
}

// Unless its number is another's by now.
void SignalSame(const ProcessEntry& entry, int signal) {
  const absl::StatusOr<UniqueFd> fd = OpenPidFd(entry.pid);
  ProcessEntry same;
  if (!fd.ok() || !ReadProcess(entry.pid, &same) || same.start_time != entry.start_time) return;
  SignalPidFd(fd->get(), signal);
}

}  // namespace

void Agent::OnOrder(const Spawn& spawn) {
  const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [&spawn](const Waiting& one) {
    return one.spawn.incarnation == spawn.incarnation;
  });
  if (leaving_ || waits || children_.count(spawn.incarnation) != 0) return;
  waiting_.push_back({spawn, {}});
}

void Agent::StartWaiting() {
  // The next life begins from a checkpoint that may turn out to be damaged: people should know
  // then.
  if (watch_ != nullptr && watch_->Verifying()) return;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    absl::Status status;
    if (!PortIsFree(*it, &status)) {
      ++it;
      continue;
    }
    const Spawn spawn = std::move(it->spawn);
    it = waiting_.erase(it);
    if (status.ok()) status = StartProcess(spawn);
    if (!status.ok()) NotStarted(spawn, status);
  }
}

bool Agent::PortIsFree(Waiting& waiting, absl::Status* status) const {
  const int port = OwnPort(waiting.spawn);
  // As TensorFlow listens, whatever the address in the cluster is.
  if (port == 0 || !absl::IsUnavailable(CheckPortFree({"0.0.0.0", port}))) return true;
  const TimePoint now = RealClock().Now();
  if (!waiting.port_until.has_value()) waiting.port_until = now + options_.port_patience;
  if (now < *waiting.port_until) return false;
  *status = WithExitCode(
      absl::UnavailableError(absl::StrCat("port ", port, " is taken by another process")),
      kExitNotNow);
  return true;
}

void Agent::NotStarted(const Spawn& spawn, const absl::Status& status) {
  const std::string text = absl::StrCat(status.message(), "\n");
  TellPorts();
  link_->Send(Exited{spawn.task, spawn.incarnation, StatusOfSpawnError(status), text,
                     /*oom=*/false, /*log=*/""});
  result_.failures.push_back({spawn.task, StatusOfSpawnError(status), text, ""});
}

void Agent::ExpectProcess(Incarnation incarnation, const std::string& job,
                          std::map<std::string, std::string>* environment) {
  if (watch_ == nullptr) {
    watch_ = std::make_unique<Watch>(WatchOptions{job, options_.watch_interval, &fs_},
                                     [this] { Wake(); });
  }
  const Watch::Endpoint endpoint = watch_->Expect(incarnation);
  if (endpoint.heartbeat.empty()) return;
  (*environment)["EVERSTEP_HEARTBEAT"] = endpoint.heartbeat;
  // Behind the user's own, who may have a module of that name.
  std::string& path = (*environment)["PYTHONPATH"];
  absl::StrAppend(&path, path.empty() ? "" : ":", endpoint.python_path);
}

absl::Status Agent::StartProcess(const Spawn& spawn) {
  SpawnOptions options;
  options.argv = options_.program;
  options.executable = options_.executable;
  EV_ASSIGN_OR_RETURN(options.environment, ChildEnvironment(spawn, options_.context));
  options.pipe_output = true;
  // If this process is killed, its children are told to leave; they may have work to save.
  const bool at_once = options_.orphan_grace <= Duration::zero();
  options.parent_death_signal = at_once ? SIGKILL : SIGTERM;
  const auto directory = options.environment.find("EVERSTEP_JOB_DIR");
  const std::string job =
      directory == options.environment.end() ? std::string() : directory->second;
  ExpectProcess(spawn.incarnation, job, &options.environment);
  const std::optional<int64_t> oom_kills = options_.oom_kills ? options_.oom_kills() : OomKills();
  absl::StatusOr<Process> process = Process::Spawn(options);
  if (!process.ok()) {
    watch_->Remove(spawn.incarnation);
    return process.status();
  }
  view_->Begins(spawn);
  result_.job_directory = job;
  LogPaths logs;
  if (!job.empty()) logs.log = LogPath(job, spawn.task, spawn.incarnation);
  const auto debug = spawn.settings.find("EVERSTEP_DEBUG_LIBS");
  if (!job.empty() && debug != spawn.settings.end() && debug->second == "1") {
    logs.libraries = absl::StrCat(logs.log.substr(0, logs.log.rfind('.')), ".libs.log");
  }
  Child child{spawn.task, *std::move(process), logs.log, OwnPort(spawn), RealClock().Now()};
  child.oom_kills = oom_kills;
  watch_->Add(spawn, child.process.pid());
  pump_.Add(spawn.task, spawn.incarnation, std::move(child.process.out()),
            std::move(child.process.err()), std::move(logs),
            [watch = watch_.get(), incarnation = spawn.incarnation](size_t bytes) {
              watch->SawOutput(incarnation, bytes);
            });
  result_.logs[spawn.task] = child.log_path;
  begun_ = true;
  children_.emplace(spawn.incarnation, std::move(child));
  return absl::OkStatus();
}

Agent::Remains Agent::LeftBy(Incarnation incarnation, Child& child) const {
  Remains remains;
  const pid_t self = OwnPid();
  std::vector<pid_t> its;
  const std::vector<ProcessEntry> all = ListProcesses([&](const ProcessEntry& orphan) {
    // Whoever outlives the one that started it is ours, as we are a subreaper.
    if (orphan.parent != self || IsKnown(orphan.pid)) return;
    if (orphan.group == child.process.pid()) return its.push_back(orphan.pid);
    const std::optional<std::string> mark = VariableOf(orphan.pid, "EVERSTEP_INCARNATION");
    if (mark == absl::StrCat(incarnation)) return its.push_back(orphan.pid);
    // It may have ended since it was listed, and what it started came too late for the list; or it
    // is within exec. The next list will tell.
    if (!mark.has_value() && child.unmarked.emplace(orphan.pid, orphan.start_time).second) {
      remains.unclear = true;
    }
  });
  for (const pid_t orphan : its) {
    for (const ProcessEntry& entry : TreeOf(orphan, all)) {
      if (entry.lives()) remains.left.push_back(entry);
    }
  }
  return remains;
}

// One that this agent started, or the coordinator.
bool Agent::IsKnown(pid_t pid) const {
  if (options_.coordinator != nullptr && pid == options_.coordinator->pid()) return true;
  return std::any_of(children_.begin(), children_.end(),
                     [pid](const auto& entry) { return entry.second.process.pid() == pid; });
}

// A shell dies of SIGTERM while the program that it wraps still saves its work.
bool Agent::MaySave(Child& child, const std::vector<ProcessEntry>& left) {
  if (!child.told || !child.kill_at.has_value() || RealClock().Now() >= *child.kill_at) {
    return false;
  }
  for (const ProcessEntry& entry : left) {
    // Its group has heard it already. What others have started is theirs to tell, as long as they
    // live.
    if (entry.group == child.process.pid() || entry.parent != OwnPid()) continue;
    if (!child.told_to_leave.emplace(entry.pid, entry.start_time).second) continue;
    SignalSame(entry, SIGTERM);
    SignalSame(entry, SIGCONT);
  }
  return true;
}

bool Agent::Settle(Incarnation incarnation, Child& child) {
  if (stacks_.IsTaking(incarnation)) return false;
  const auto [left, unclear] = LeftBy(incarnation, child);
  const TimePoint now = RealClock().Now();
  if (left.empty() && !unclear) return true;
  if (!child.settles_at.has_value()) child.settles_at = now + kSettling;
  if (left.empty()) return now >= *child.settles_at + kMoments;
  if (MaySave(child, left)) return false;
  if (!child.told && now < *child.settles_at) return false;
  if (!child.told) child.left = Describe(left);
  for (const ProcessEntry& entry : left) SignalSame(entry, SIGKILL);
  return true;
}

void Agent::OnExit(Incarnation incarnation, Child& child, int status) {
  std::string tail = pump_.Finish(incarnation, kTailPatience);
  const bool printed = !tail.empty();
  const TimePoint now = RealClock().Now();
  if (!child.left.empty()) {
    const bool daemon = status == 0 && now - child.started < kMoments + kSettling;
    const std::string what =
        daemon ? absl::StrCat("the program put itself into the background (", child.left,
                              ") and ended, which looks like success; run it in the foreground: "
                              "without & and without a ",
                              "daemon option")
               : absl::StrCat(child.task.ToString(), " has ended and left behind ", child.left,
                              ", now killed");
    if (daemon) {
      absl::StrAppend(&tail, "everstep: ", what, "\n");
      status = kExitConfiguration << 8;
    } else {
      view_->Say(what);
    }
  }
  life_failed_ = life_failed_ || status != 0;
  TellPorts();
  // One that printed nothing has no log.
  link_->Send(Exited{child.task, incarnation, status, tail, KilledForMemory(child, status),
                     printed ? child.log_path : std::string()});
  if (status == 0 || child.told || stop_asked_.has_value() || leaving_) return;
  result_.failures.push_back({child.task, status, std::move(tail), child.log_path});
}

// The kernel counts its kills in the whole control group. It kills by SIGKILL, so a rise of the
// count while a child lived that died of that is taken for the child's; each kill for one child.
bool Agent::KilledForMemory(const Child& child, int status) {
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL || child.told) return false;
  const std::optional<int64_t> now = options_.oom_kills ? options_.oom_kills() : OomKills();
  if (!now.has_value() || !child.oom_kills.has_value()) return false;
  const int64_t before = std::max(*child.oom_kills, oom_kills_told_.value_or(0));
  if (*now <= before) return false;
  oom_kills_told_ = before + 1;
  return true;
}

void Agent::TellNews() {
  for (Stacks& stacks : stacks_.Take()) link_->Send(std::move(stacks));
  if (watch_ == nullptr) return;
  for (AgentMessage& message : watch_->Take()) {
    const auto* vitals = std::get_if<Vitals>(&message);
    const auto child = vitals == nullptr ? children_.end() : children_.find(vitals->incarnation);
    // It stands still by our own doing.
    if (child != children_.end() && child->second.looked_at) continue;
    link_->Send(std::move(message));
  }
  for (Note& note : watch_->TakeNotes()) link_->Send(std::move(note));
}

void Agent::TellPorts() {
  if (options_.ports == nullptr) return;
  std::set<int> in_use;
  for (const auto& [incarnation, child] : children_) {
    if (!child.process.HasExited()) in_use.insert(child.port);
  }
  if (options_.ports->ReplaceBusy(in_use)) link_->Send(Ports{options_.ports->ports()});
}

}  // namespace everstep
