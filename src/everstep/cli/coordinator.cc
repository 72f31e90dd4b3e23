// cli: everstep coordinator: the process that decides the views of a job. `everstep run` starts
// one; by hand it serves hosts that bring agents only.
#include <signal.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/cli/command.h"
#include "everstep/cli/coordinator_child.h"
#include "everstep/cli/job_choice.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"
#include "everstep/job/directory_journal.h"
#include "everstep/membership/coordinator.h"
#include "everstep/metrics/log.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

constexpr char kExamples[] =
    R"(  everstep coordinator -n 4 --listen 10.0.0.1:29700 --insecure --job-dir /shared/a
  everstep coordinator --resume /shared/a --listen 10.0.0.1:29700 --insecure
)";

// For the last records of a job, on a disk that may hang.
constexpr Duration kJournalEnd = std::chrono::seconds(3);

struct CoordinatorArguments {
  std::map<std::string, std::string> flags;
  std::string listen = absl::StrCat("127.0.0.1:", kDefaultControlPort);
  std::string resume;
  std::string resolved;     // descriptor to read the run from, whose job directory is there already
  std::string announce_fd;  // where to say the port, or why there is none
};

int DescriptorIn(const std::string& text) {
  int fd = -1;
  return absl::SimpleAtoi(text, &fd) ? fd : -1;
}

absl::StatusOr<JobDirectory> ReadRun(int fd) {
  std::string text;
  char bytes[4096];
  for (ptrdiff_t n; (n = ReadSome(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, n);
  UniqueFd(fd).Reset();
  EV_ASSIGN_OR_RETURN(ResolvedJob run, FromResolvedJson(text, "the run"));
  return JobDirectory::Of(RealFileSystem(), std::move(run));
}

absl::StatusOr<JobDirectory> OpenJob(const CoordinatorArguments& arguments) {
  if (const int fd = DescriptorIn(arguments.resolved); fd >= 0) return ReadRun(fd);
  EV_ASSIGN_OR_RETURN(JobChoice job, ChooseJob(arguments.resume, arguments.flags, {}));
  if (job.resumed.has_value()) return *std::move(job.resumed);
  return JobDirectory::Create(RealFileSystem(), {job.spec, {"coordinator"}, kVersion, ""});
}

// What holds the job directory for this run.
struct HeldJob {
  std::unique_ptr<DirectoryJournal> journal;
  JobSecret secret;
  std::string token;
};

absl::StatusOr<HeldJob> Hold(JobDirectory* job, SignalQueue& signals, int announce) {
  TakeTermOptions options;
  options.grace = job->spec().grace;
  options.on_wait = [announce](const std::string& line, Duration at_most) {
    announce >= 0 ? SayWaiting(announce, line, at_most)
                  : (void)WriteAll(2, absl::StrCat("everstep: ", line, "\n"));
  };
  options.give_up = [&signals] { return signals.Next().has_value(); };
  EV_ASSIGN_OR_RETURN(Term term, TakeTerm(RealFileSystem(), job->path(), options));
  // What a run that was killed was writing. Nobody writes now, or nobody whose run counts.
  DirectoryStoreOptions checkpoints;
  checkpoints.directory = CheckpointsPath(job->path());
  (void)DirectoryStore(RealFileSystem(), checkpoints).RemoveLeftovers();
  HeldJob held{nullptr, JobSecret::Generate(), ""};
  EV_RETURN_IF_ERROR(job->BeginRun(kVersion, held.secret.ToHexForFile()));
  EV_ASSIGN_OR_RETURN(held.token, ReadJobToken(RealFileSystem(), job->path()));
  DirectoryJournalOptions journal;
  journal.warn = [](const std::string& line) { log::Warning("job", "{}", line); };
  EV_ASSIGN_OR_RETURN(held.journal, DirectoryJournal::Open(RealFileSystem(), job->path(),
                                                           std::move(term), std::move(journal)));
  return held;
}

CoordinatorOptions OptionsOf(const JobSpec& spec, const HeldJob& held, const std::string& listen) {
  CoordinatorOptions options{listen, {held.secret, spec.insecure}, {}};
  options.journal = held.journal.get();
  options.job.workers = spec.workers;
  options.job.replicas = spec.replicas;
  options.job.gang = spec.gang;
  options.job.chiefs = spec.chiefs;
  options.job.parameter_servers = spec.parameter_servers;
  options.job.evaluators = spec.evaluators;
  options.job.hang_action = spec.hang_action == "kill" ? HangAction::kKill : HangAction::kWarn;
  options.job.no_checkpoint_after = spec.warn_no_checkpoint;
  options.job.settings = ToSettings(spec);
  options.job.settings["EVERSTEP_JOB_TOKEN"] = held.token;
  options.job.version = kVersion;
  options.job.lost_after = spec.lost_after;
  // Unless somebody has said otherwise.
  if (const auto from = spec.origins.find("lost-after");
      from != spec.origins.end() && from->second != "default") {
    options.job.silent_agent_lost_after = spec.lost_after;
  }
  options.job.grace = spec.grace;
  options.job.term = held.journal->term();
  options.job.first_incident = held.journal->first_incident();
  options.job.max_restarts = spec.max_restarts;
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

void SayWhere(const JobSpec& spec, const std::string& listen, int port) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  WriteAll(2, absl::StrCat("everstep ", kVersion, ": coordinator on ", host, ":", port, ", job ",
                           spec.directory, "\n  everstep agent --coordinator ", host, ":", port,
                           " --slots K --job-dir ", ShellQuoted({spec.directory}),
                           spec.insecure ? " --insecure" : "", " -- PROGRAM [ARGUMENTS]\n"));
}

// Logging, once the job directory is this run's; the terminal belongs to the launcher when there is
// one.
absl::Status BeginLog(const JobSpec& spec, bool launched) {
  log::Level level = log::Level::kWarning;
  log::ParseLevel(spec.log_level, &level);
  if (launched) {
    EV_RETURN_IF_ERROR(RedirectStandardError(JoinPath(spec.directory, "logs/coordinator.log")));
    level = std::min(level, log::Level::kInfo);
  }
  log::Init(level, "coordinator");
  return absl::OkStatus();
}

// Holds the job directory until the job has ended.
absl::StatusOr<JobEnded> Coordinate(const std::string& listen, JobDirectory* job,
                                    SignalQueue& signals, int announce) {
  EV_ASSIGN_OR_RETURN(const HeldJob held, Hold(job, signals, announce));
  const absl::Status status = BeginLog(job->spec(), announce >= 0);
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
      status.ok() ? Coordinator::Start(OptionsOf(job->spec(), held, listen)) : status;
  if (!coordinator.ok()) {
    held.journal->Close(std::nullopt, After(RealClock(), kJournalEnd));
    return coordinator.status();
  }
  const int port = (*coordinator)->port();
  if (announce >= 0) {
    SayListening(announce, port);
    UniqueFd(announce).Reset();
  } else {
    SayWhere(job->spec(), listen, port);
  }
  JobEnded end = WaitForEnd(**coordinator, signals);
  coordinator->reset();
  // The rest of it is what the task printed, which its log has.
  const std::string reason = end.reason.substr(0, end.reason.find("; last lines:\n"));
  held.journal->Close(JobOutcome{end.code, reason, 0, job->program(), ""},
                      After(RealClock(), kJournalEnd));
  job->RemoveSecret(held.secret.ToHexForFile());
  return end;
}

int RunCoordinator(const CoordinatorArguments& arguments) {
  // Before any thread is there.
  SignalQueue signals({SIGTERM, SIGINT, SIGHUP});
  IgnoreSignal(SIGPIPE);
  IgnoreSignal(SIGXFSZ);  // a file that may not grow is an error of that file
  const int announce = DescriptorIn(arguments.announce_fd);
  // To whoever started this process by program, else to the terminal.
  const auto fail = [announce](const absl::Status& status) {
    if (announce < 0) return Fail(status);
    SayFailed(announce, status);
    return ExitCodeFor(status);
  };
  absl::StatusOr<JobDirectory> job = OpenJob(arguments);
  if (!job.ok()) return fail(job.status());
  if (job->finished().has_value()) {
    WriteAll(2, absl::StrCat("everstep: ", FinishedNote(*job), "\n"));
    return kExitDone;
  }
  const absl::StatusOr<JobEnded> end = Coordinate(arguments.listen, &*job, signals, announce);
  if (!end.ok()) {
    job->Abandon();
    return fail(end.status());
  }
  if (announce < 0) {
    WriteAll(2, end->code == kExitDone ? std::string("everstep: done\n")
                                       : absl::StrCat("everstep: the job ended (exit code ",
                                                      end->code, "): ", end->reason, "\n"));
  }
  return end->code;
}

}  // namespace

void AddCoordinator(CLI::App& root, Invocation* invocation) {
  auto arguments = std::make_shared<CoordinatorArguments>();
  CLI::App& verb = AddVerb(root, invocation,
                           {"coordinator", "Coordinate a job to which all hosts come as agents",
                            "Jobs", kExamples, false, nullptr, kExitCodes},
                           [arguments] { return RunCoordinator(*arguments); });
  AddText(verb, "listen", "HOST:PORT", "where to listen (default 127.0.0.1:29700)",
          &arguments->listen);
  AddText(verb, "resume", "DIR", kResumeHelp, &arguments->resume);
  std::vector<std::string> names;
  for (const JobOption& option : JobOptionTable()) {
    if (std::string_view(option.name) != "port") names.push_back(option.name);  // --listen has it
  }
  AddJobOptions(verb, names, &arguments->flags);
  // For `everstep run`.
  verb.add_option("--resolved", arguments->resolved, "")->group("");
  verb.add_option("--announce-fd", arguments->announce_fd, "")->group("");
}

}  // namespace everstep
