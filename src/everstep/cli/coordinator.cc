// cli: everstep coordinator: the process that decides the views of a job. `everstep run` starts
// one; by hand it serves hosts that bring agents only.
#include <signal.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"
#include "everstep/membership/coordinator.h"
#include "everstep/metrics/log.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

constexpr char kExamples[] =
    R"(  everstep coordinator -n 4 --listen 10.0.0.1:29700 --insecure --job-dir /shared/a
)";

struct CoordinatorArguments {
  std::map<std::string, std::string> flags;
  std::string listen = absl::StrCat("127.0.0.1:", kDefaultControlPort);
  bool resolved = false;    // the job directory is made already
  std::string announce_fd;  // where to say the port, or why there is none
};

struct CoordinatorJob {
  JobSpec spec;
  std::optional<JobDirectory> made;  // by this process
  JobSecret secret;
};

absl::StatusOr<CoordinatorJob> OpenJob(const CoordinatorArguments& arguments) {
  if (!arguments.resolved) {
    CoordinatorJob job{{}, std::nullopt, JobSecret::Generate()};
    EV_ASSIGN_OR_RETURN(job.spec, ResolveJob(arguments.flags, GetEnvironment));
    EV_ASSIGN_OR_RETURN(
        job.made,
        JobDirectory::Create(RealFileSystem(),
                             {job.spec, {"coordinator"}, kVersion, job.secret.ToHexForFile()}));
    job.spec = job.made->spec();
    return job;
  }
  const auto directory = arguments.flags.find("job-dir");
  if (directory == arguments.flags.end()) return UsageError("--resolved needs --job-dir");
  const std::string path = ResolvedPath(directory->second);
  EV_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(RealFileSystem(), path));
  EV_ASSIGN_OR_RETURN(ResolvedJob resolved, FromResolvedJson(text, path));
  EV_ASSIGN_OR_RETURN(const std::string hex,
                      ReadWholeFile(RealFileSystem(), SecretPath(directory->second)));
  EV_ASSIGN_OR_RETURN(JobSecret secret, JobSecret::FromHex(hex));
  return CoordinatorJob{std::move(resolved.spec), std::nullopt, std::move(secret)};
}

CoordinatorOptions OptionsOf(const CoordinatorJob& job, const std::string& listen) {
  CoordinatorOptions options{listen, {job.secret, job.spec.insecure}, {}};
  options.job.workers = job.spec.workers;
  options.job.replicas = job.spec.replicas;
  options.job.settings = ToSettings(job.spec);
  options.job.version = kVersion;
  options.job.lost_after = job.spec.lost_after;
  options.job.grace = job.spec.grace;
  return options;
}

// Until the end of the job. A signal is a wish to end it; the second one, 2 s or more later, ends
// this process.
JobEnded WaitForEnd(Coordinator& coordinator, SignalQueue& signals) {
  std::optional<TimePoint> asked;
  while (true) {
    while (const std::optional<int> signal = signals.Next()) {
      const TimePoint now = RealClock().Now();
      if (asked.has_value() && now - *asked >= std::chrono::seconds(2)) {
        return {kExitToldToLeave, "told to stop twice"};
      }
      if (!asked.has_value()) asked = now;
      coordinator.RequestStop(*signal == SIGINT ? "SIGINT" : "SIGTERM");
    }
    std::optional<JobEnded> end =
        coordinator.WaitForEnd(After(RealClock(), std::chrono::milliseconds(100)));
    if (end.has_value()) return *std::move(end);
  }
}

int RunCoordinator(const CoordinatorArguments& arguments) {
  // Before any thread is there.
  SignalQueue signals({SIGTERM, SIGINT, SIGHUP});
  IgnoreSignal(SIGPIPE);
  int announce = -1;
  if (!absl::SimpleAtoi(arguments.announce_fd, &announce)) announce = -1;
  // To whoever started this process by program, else to the terminal.
  auto fail = [announce](const absl::Status& status) {
    if (announce < 0) return Fail(status);
    WriteAll(announce, absl::StrCat(ExitCodeFor(status), " ",
                                    absl::StrReplaceAll(status.message(), {{"\n", " "}}), "\n"));
    return ExitCodeFor(status);
  };
  absl::StatusOr<CoordinatorJob> job = OpenJob(arguments);
  if (!job.ok()) return fail(job.status());
  log::Level level = log::Level::kWarning;
  log::ParseLevel(job->spec.log_level, &level);
  if (announce >= 0) {
    // The terminal belongs to the launcher.
    const absl::Status status =
        RedirectStandardError(JoinPath(job->spec.directory, "logs/coordinator.log"));
    if (!status.ok()) return fail(status);
    level = std::min(level, log::Level::kInfo);
  }
  log::Init(level, "coordinator");
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
      Coordinator::Start(OptionsOf(*job, arguments.listen));
  if (!coordinator.ok()) {
    if (job->made.has_value()) job->made->Abandon();
    return fail(coordinator.status());
  }
  const int port = (*coordinator)->port();
  if (announce >= 0) {
    WriteAll(announce, absl::StrCat(port, "\n"));
    UniqueFd(announce).Reset();
  } else {
    const std::string host = arguments.listen.substr(0, arguments.listen.rfind(':'));
    WriteAll(2, absl::StrCat("everstep ", kVersion, ": coordinator on ", host, ":", port, ", job ",
                             job->spec.directory, "\n  everstep agent --coordinator ", host, ":",
                             port, " --slots K --job-dir ", ShellQuoted({job->spec.directory}),
                             job->spec.insecure ? " --insecure" : "", " -- PROGRAM [ARGUMENTS]\n"));
  }
  const JobEnded end = WaitForEnd(**coordinator, signals);
  coordinator->reset();
  if (job->made.has_value()) job->made->RemoveSecret();
  if (announce < 0) {
    WriteAll(2, end.code == kExitDone ? std::string("everstep: done\n")
                                      : absl::StrCat("everstep: the job ended (exit code ",
                                                     end.code, "): ", end.reason, "\n"));
  }
  return end.code;
}

}  // namespace

void AddCoordinator(CLI::App& root, Invocation* invocation) {
  auto arguments = std::make_shared<CoordinatorArguments>();
  CLI::App& verb = AddVerb(
      root, invocation,
      {"coordinator", "Coordinate a job to which all hosts come as agents", "Jobs", kExamples},
      [arguments] { return RunCoordinator(*arguments); });
  AddText(verb, "listen", "HOST:PORT", "where to listen (default 127.0.0.1:29700)",
          &arguments->listen);
  AddJobOptions(verb,
                {"workers", "replicas", "seed", "job-dir", "threads-per-replica", "cpu-baseline",
                 "port-range", "lost-after", "grace-seconds", "log-level", "insecure"},
                &arguments->flags);
  // For `everstep run`.
  verb.add_flag("--resolved", arguments->resolved, "")->group("");
  verb.add_option("--announce-fd", arguments->announce_fd, "")->group("");
}

}  // namespace everstep
