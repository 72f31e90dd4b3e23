// launch: the coordinator's process.
#include "everstep/launch/coordinate.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/directory_store.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "everstep/env/pipe.h"
#include "everstep/env/process.h"
#include "everstep/job/directory_journal.h"
#include "everstep/job/last_seen.h"
#include "everstep/launch/job_choice.h"
#include "everstep/launch/version.h"
#include "everstep/membership/coordinator.h"
#include "everstep/metrics/log.h"
#include "everstep/trust/join_secret.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

// For the last records of a job, on a disk that may hang.
constexpr Duration kJournalEnd = std::chrono::seconds(3);

// What holds the job directory for this run.
struct HeldJob {
  std::unique_ptr<DirectoryJournal> journal;
  JobSecret secret;
  std::string token;
};

// What processes that were killed were writing. When a run begins or has ended nobody writes, or
// nobody whose run counts.
void RemoveHalfCheckpoints(const std::string& job) {
  DirectoryStoreOptions checkpoints;
  checkpoints.directory = CheckpointsPath(job);
  (void)DirectoryStore(RealFileSystem(), checkpoints).RemoveLeftovers();
}

absl::StatusOr<HeldJob> Hold(JobDirectory* job, SignalQueue& signals, int announce) {
  TakeTermOptions options;
  options.grace = job->spec().grace;
  options.on_wait = [announce](const std::string& line, Duration at_most) {
    announce >= 0 ? SayWaiting(announce, line, at_most)
                  : (void)WriteAll(2, absl::StrCat("everstep: ", line, "\n"));
  };
  options.give_up = [&signals] { return signals.Next().has_value(); };
  EV_ASSIGN_OR_RETURN(Term term, TakeTerm(RealFileSystem(), job->path(), options));
  RemoveHalfCheckpoints(job->path());
  HeldJob held{nullptr, JobSecret::Generate(), ""};
  EV_RETURN_IF_ERROR(job->BeginRun(kVersion, held.secret.ToHexForFile()));
  EV_ASSIGN_OR_RETURN(held.token, ReadJobToken(RealFileSystem(), job->path()));
  DirectoryJournalOptions journal;
  journal.warn = [](const std::string& line) { log::Warning("job", "{}", line); };
  journal.tidy = [path = job->path()] { RemoveHalfCheckpoints(path); };
  EV_ASSIGN_OR_RETURN(held.journal, DirectoryJournal::Open(RealFileSystem(), job->path(),
                                                           std::move(term), std::move(journal)));
  return held;
}

CoordinatorOptions OptionsOf(const CoordinatorOrder& order, const HeldJob& held) {
  const JobSpec& spec = order.job.spec();
  CoordinatorOptions options{order.listen, {held.secret, spec.insecure}, {}};
  // Of agents that whoever is this user starts by hand. Without one they cannot be.
  const absl::StatusOr<JobSecret> join = ReadJoinSecret(GetEnvironment);
  if (join.ok()) {
    options.join_secret = *join;
  } else {
    log::Info("launch", "no process can join by hand: {}", std::string(join.status().message()));
  }
  options.journal = held.journal.get();
  options.job.cluster = order.cluster;
  options.job.workers = spec.workers - order.chiefs;
  options.job.replicas = spec.replicas;
  options.job.gang = spec.gang;
  options.job.chiefs = spec.chiefs + order.chiefs;
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
  options.job.agents_deadline = spec.join_deadline;
  options.job.last_seen = LastSeenOf(RealFileSystem(), spec.directory);
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
absl::StatusOr<JobEnded> Coordinate(CoordinatorOrder* order, SignalQueue& signals, int announce,
                                    const std::function<void(int port)>& listening) {
  JobDirectory* const job = &order->job;
  EV_ASSIGN_OR_RETURN(const HeldJob held, Hold(job, signals, announce));
  const absl::Status status = BeginLog(job->spec(), announce >= 0);
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
      status.ok() ? Coordinator::Start(OptionsOf(*order, held)) : status;
  if (!coordinator.ok()) {
    held.journal->Close(std::nullopt, After(RealClock(), kJournalEnd));
    return coordinator.status();
  }
  const int port = (*coordinator)->port();
  if (announce >= 0) {
    SayListening(announce, port);
    UniqueFd(announce).Reset();
  } else {
    listening(port);
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

}  // namespace

int RunCoordinator(const std::function<absl::StatusOr<CoordinatorOrder>()>& read, int announce,
                   const std::function<void(const CoordinatorOrder&, int port)>& listening) {
  // Before any thread is there.
  SignalQueue signals({SIGTERM, SIGINT, SIGHUP});
  IgnoreSignal(SIGPIPE);
  IgnoreSignal(SIGXFSZ);  // a file that may not grow is an error of that file
  // To whoever started this process by program, else to the terminal.
  const auto fail = [announce](const absl::Status& status) {
    announce >= 0 ? SayFailed(announce, status)
                  : (void)WriteAll(2, absl::StrCat("everstep: ", status.message(), "\n"));
    return ExitCodeFor(status);
  };
  absl::StatusOr<CoordinatorOrder> order = read();
  if (!order.ok()) return fail(order.status());
  if (order->job.finished().has_value()) {
    WriteAll(2, absl::StrCat("everstep: ", FinishedNote(order->job), "\n"));
    return kExitDone;
  }
  const absl::StatusOr<JobEnded> end =
      Coordinate(&*order, signals, announce, [&](int port) { listening(*order, port); });
  if (!end.ok()) {
    order->job.Abandon();
    return fail(end.status());
  }
  if (announce < 0) {
    WriteAll(2, end->code == kExitDone ? std::string("everstep: done\n")
                                       : absl::StrCat("everstep: the job ended (exit code ",
                                                      end->code, "): ", end->reason, "\n"));
  }
  return end->code;
}

}  // namespace everstep
