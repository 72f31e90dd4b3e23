// launch: starting the coordinator's process.
#include "everstep/launch/coordinator_child.h"

#include <signal.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"
#include "everstep/job/resolved.h"

namespace everstep {
namespace {

constexpr Duration kStart = std::chrono::seconds(20);

// The next line, without its end.
absl::StatusOr<std::string> ReadLine(int fd, Deadline deadline, SignalQueue* signals,
                                     std::string* buffer) {
  while (true) {
    if (const size_t end = buffer->find('\n'); end != std::string::npos) {
      std::string line = buffer->substr(0, end);
      buffer->erase(0, end + 1);
      return line;
    }
    PollItem items[] = {{fd, true}, {signals->fd(), true}};
    const Duration left = deadline - RealClock().Now();
    EV_RETURN_IF_ERROR(Poll(absl::MakeSpan(items), left));
    while (const std::optional<int> signal = signals->Next()) {
      if (*signal != SIGCHLD) return absl::CancelledError("told to leave before the job began");
    }
    if (!items[0].readable && left <= Duration::zero()) {
      return absl::DeadlineExceededError("the coordinator did not start in time; see its log");
    }
    char bytes[4096];
    const ptrdiff_t n = items[0].readable ? ReadSome(fd, bytes, sizeof bytes) : 0;
    if (items[0].readable && n <= 0) {
      return absl::InternalError("the coordinator ended at its start");
    }
    buffer->append(bytes, n);
  }
}

// The port.
absl::StatusOr<int> Announcement(int fd, SignalQueue* signals) {
  Deadline deadline = After(RealClock(), kStart);
  std::string buffer;
  while (true) {
    EV_ASSIGN_OR_RETURN(const std::string line, ReadLine(fd, deadline, signals, &buffer));
    int port = 0;
    if (absl::SimpleAtoi(line, &port)) return port;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    int first = 0, second = 0;
    if (parts.size() == 3 && parts[0] == "wait" && absl::SimpleAtoi(parts[1], &second)) {
      WriteAll(2, absl::StrCat("everstep: ", parts[2], "\n"));
      deadline += std::chrono::seconds(second);
    } else if (parts.size() == 3 && absl::SimpleAtoi(parts[0], &first) &&
               absl::SimpleAtoi(parts[1], &second)) {
      return WithExitCode(absl::Status(static_cast<absl::StatusCode>(second), parts[2]), first);
    } else {
      return absl::InternalError(absl::StrCat("the coordinator said '", line, "' at its start"));
    }
  }
}

absl::StatusOr<CoordinatorChild> StartAt(const HostPort& listen, const CoordinatorPlan& plan,
                                         const CoordinatorCommand& command, const JobDirectory& job,
                                         SignalQueue* signals) {
  EV_ASSIGN_OR_RETURN(Pipe announce, MakePipe());
  EV_ASSIGN_OR_RETURN(Pipe run, MakePipe());
  SpawnOptions options;
  options.argv = command.argv;
  options.environment = command.environment;
  options.descriptors = {{announce.write.get(), kAnnounceFd}, {run.read.get(), kRunFd}};
  options.parent_death_signal = SIGKILL;  // it has nothing to finish
  EV_ASSIGN_OR_RETURN(Process process, Process::Spawn(options));
  announce.write.Reset();
  run.read.Reset();
  WriteAll(run.write.get(), absl::StrCat(listen.ToString(), "\n", plan.chiefs, "\n", plan.cluster,
                                         "\n", ToResolvedJson(job.run())));
  run.write.Reset();
  EV_ASSIGN_OR_RETURN(const int port, Announcement(announce.read.get(), signals));
  return CoordinatorChild{std::move(process), HostPort{plan.dial_host, port}.ToString()};
}

}  // namespace

absl::StatusOr<CoordinatorChild> StartCoordinator(const CoordinatorPlan& plan,
                                                  const CoordinatorCommand& command,
                                                  const JobDirectory& job, SignalQueue* signals) {
  auto started = StartAt(plan.listen, plan, command, job, signals);
  // Another job may have taken the port since it was looked at.
  if (started.ok() || !plan.any_port || !absl::IsUnavailable(started.status()) ||
      plan.listen.port == 0) {
    return started;
  }
  return StartAt({plan.listen.host, 0}, plan, command, job, signals);
}

absl::StatusOr<CoordinatorOrder> ReadOrder(int fd) {
  std::string text;
  char bytes[4096];
  for (ptrdiff_t n; (n = ReadSome(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, n);
  UniqueFd(fd).Reset();
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 3));
  int chiefs = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[1], &chiefs)) {
    return absl::InternalError("the coordinator was not told what to coordinate");
  }
  EV_ASSIGN_OR_RETURN(ResolvedJob run, FromResolvedJson(parts[3], "the run"));
  return CoordinatorOrder{JobDirectory::Of(RealFileSystem(), std::move(run)), parts[0], parts[2],
                          chiefs};
}

void SayWaiting(int fd, const std::string& text, Duration at_most) {
  const auto seconds = static_cast<int64_t>(std::ceil(ToSeconds(at_most)));
  WriteAll(fd, absl::StrCat("wait ", seconds, " ", text, "\n"));
}

void SayFailed(int fd, const absl::Status& status) {
  WriteAll(fd, absl::StrCat(ExitCodeFor(status), " ", static_cast<int>(status.code()), " ",
                            absl::StrReplaceAll(status.message(), {{"\n", " "}}), "\n"));
}

void SayListening(int fd, int port) { WriteAll(fd, absl::StrCat(port, "\n")); }

}  // namespace everstep
