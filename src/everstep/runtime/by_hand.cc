// runtime: a process that was started by hand.
#include "everstep/runtime/by_hand.h"

#include <errno.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cluster/interfaces.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"
#include "everstep/env/port.h"
#include "everstep/env/process_tree.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"
#include "everstep/job/resume.h"
#include "everstep/launch/await_coordinator.h"
#include "everstep/launch/begun_job.h"
#include "everstep/launch/coordinate.h"
#include "everstep/launch/host.h"
#include "everstep/launch/job_choice.h"
#include "everstep/launch/own_address.h"
#include "everstep/launch/version.h"
#include "everstep/supervise/guardian.h"
#include "everstep/trust/join_secret.h"
#include "everstep/wire/credentials.h"

namespace everstep {
namespace {

// For the names of this cluster's hosts; a name may be younger than its host.
constexpr Duration kLookUp = std::chrono::seconds(20);
// Of one attempt to be heard by a coordinator that listens.
constexpr Duration kConnect = std::chrono::seconds(3);

int Fail(const absl::Status& status) {
  WriteAll(2, absl::StrCat(program_invocation_short_name, ": ", status.message(), "\n"));
  return ExitCodeFor(status);
}

void Say(const std::string& line) { WriteAll(2, absl::StrCat("everstep: ", line, "\n")); }

absl::Status Misconfigured(const std::string& text) {
  return WithExitCode(absl::FailedPreconditionError(text), kExitConfiguration);
}

// What can be refused before anything is started.
absl::Status CheckPlace(const Place& place) {
  EV_RETURN_IF_ERROR(CheckRole(place));
  const std::string source = NameOf(place.source);
  ProcessEntry self;
  if (ReadProcess(OwnPid(), &self) && self.threads > 1) {
    return Misconfigured(absl::StrCat(
        "this process has ", self.threads, " threads already: by hand (", source,
        ") it makes a copy of itself first, so call RunWorker before anything that starts threads, "
        "or start the job by `everstep run`"));
  }
  return absl::OkStatus();
}

// The first of the trainers, whose process starts the coordinator.
Task FirstTrainer(const ClusterSpec& cluster) {
  return {cluster.NumTasks("chief") > 0 ? "chief" : "worker", 0};
}

bool OnOneHost(const ClusterSpec& cluster) {
  std::string first;
  for (const auto& [type, addresses] : cluster.jobs) {
    for (const std::string& address : addresses) {
      const std::string host = address.substr(0, address.rfind(':'));
      if (!first.empty() && host != first) return false;
      first = host;
    }
  }
  return true;
}

// This process's part, step by step. In the guarded copy.
class Hand {
 public:
  Hand(const Place& place, const GuardedProcess& self) : place_(place), self_(self) {}

  absl::StatusOr<int> Run() {
    EV_RETURN_IF_ERROR(Read());
    if (const std::optional<std::string> note = DoneNote()) {
      Say(*note);
      return static_cast<int>(kExitDone);
    }
    EV_RETURN_IF_ERROR(FindOwnHost());
    if (place_.starts_coordinator) EV_RETURN_IF_ERROR(StartJob());
    return BeIn();
  }

 private:
  // The options, the secret, and whether this may be done in plain text.
  absl::Status Read() {
    std::map<std::string, std::string> flags;
    if (place_.NumTrainers() > 0) flags["workers"] = absl::StrCat(place_.NumTrainers());
    const std::string resume = GetEnvironment("EVERSTEP_RESUME").value_or("");
    if (resume.empty()) {
      EV_ASSIGN_OR_RETURN(JobSpec spec, ResolveJob(flags, GetEnvironment));
      job_ = JobChoice{std::move(spec), CommandLine(), std::nullopt};
    } else if (place_.task.has_value()) {
      absl::StatusOr<JobChoice> job = ChooseJob(resume, flags, CommandLine());
      // Only whoever begins it has to understand it.
      if (!job.ok() && place_.starts_coordinator) return job.status();
      if (job.ok()) job_ = *std::move(job);
    }
    if (!job_.has_value()) {
      EV_ASSIGN_OR_RETURN(JobSpec spec, ResolveJob({}, GetEnvironment));
      job_ = JobChoice{std::move(spec), CommandLine(), std::nullopt};
    }
    EV_ASSIGN_OR_RETURN(coordinator_, HostPort::Parse(place_.coordinator));
    EV_ASSIGN_OR_RETURN(JobSecret secret, ReadJoinSecret(GetEnvironment));
    credentials_ = Credentials{std::move(secret), job_->spec.insecure};
    if (credentials_->insecure || IsLoopback(place_.coordinator)) return absl::OkStatus();
    return Misconfigured(absl::StrCat("the coordinator at ", place_.coordinator,
                                      " is beyond loopback and not encrypted; on a network that "
                                      "you trust set EVERSTEP_INSECURE=1 "
                                      "for all tasks"));
  }

  // Its coordinator would end before the others find it.
  std::optional<std::string> DoneNote() const {
    if (!job_->resumed.has_value() || !job_->resumed->finished().has_value()) return std::nullopt;
    return FinishedNote(*job_->resumed);
  }

  // Where this process's child listens, and the coordinator that it starts.
  absl::Status FindOwnHost() {
    if (place_.cluster.jobs.empty()) return absl::OkStatus();
    EV_ASSIGN_OR_RETURN(const std::string text, place_.cluster.Address(*place_.task));
    EV_ASSIGN_OR_RETURN(own_, HostPort::Parse(text));
    std::optional<std::string> chosen;
    if (GetEnvironment("EVERSTEP_SOCKET_IFNAME").value_or("") != "") {
      EV_ASSIGN_OR_RETURN(const auto one, ChooseAddress(GetEnvironment, ListInterfaces()));
      if (one.has_value()) chosen = one->address;
    }
    absl::StatusOr<std::string> listen = OwnNumber(text);
    // Whoever chooses an interface knows that the address is not this host's own.
    if (!listen.ok() && !absl::IsCancelled(listen.status()) && chosen.has_value()) {
      listen = *chosen;
    }
    EV_ASSIGN_OR_RETURN(listen_, std::move(listen));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> OwnNumber(const std::string& address) const {
    OwnHost own{NameOf(place_.source), *place_.task, address, {}, OnOneHost(place_.cluster)};
    absl::StatusOr<std::vector<std::string>> numbers = LookUp(
        own_.host, After(RealClock(), std::min(kLookUp, JoinDeadline())), self_.signals->fd());
    if (absl::IsAborted(numbers.status())) return absl::CancelledError("told to leave");
    if (!numbers.ok()) {
      return Annotate(numbers.status(), absl::StrCat(own.source, ", own address ", address));
    }
    own.numbers = *std::move(numbers);
    return ListenAddress(own, ListInterfaces());
  }

  absl::Status StartJob() {
    CoordinatorPlan plan;
    plan.listen = {listen_, coordinator_.port};
    plan.dial_host = coordinator_.host;
    plan.cluster = WriteCluster(place_.cluster);
    plan.chiefs = place_.cluster.NumTasks("chief");
    const absl::Status free = CheckPortFree(plan.listen);
    if (absl::IsUnavailable(free)) {
      return WithExitCode(
          absl::UnavailableError(absl::StrCat(
              "port ", coordinator_.port, " on ", listen_,
              " is taken; by another process that was started as ", place_.task->ToString(),
              ", or else choose another by EVERSTEP_PORT on all tasks")),
          kExitNotNow);
    }
    EV_RETURN_IF_ERROR(free);
    JobSpec spec = job_->spec;
    // Of programs of others.
    spec.gang = false;
    spec.chiefs = spec.parameter_servers = spec.evaluators = 0;
    const auto command = [](const std::string&) {
      CoordinatorCommand itself{CommandLine(), CurrentEnvironment()};
      itself.argv[0] = ProgramPath();
      itself.environment[kCoordinateVariable] = absl::StrCat(kRunFd);
      itself.environment[kAnnounceVariable] = absl::StrCat(kAnnounceFd);
      return itself;
    };
    EV_ASSIGN_OR_RETURN(BegunJob begun,
                        BeginJob(plan, command, job_->resumed,
                                 {std::move(spec), CommandLine(), kVersion, ""}, self_.signals));
    begun_.emplace(std::move(begun));
    return absl::OkStatus();
  }

  void SayWhoIAm() const {
    const std::string task = place_.task.has_value() ? place_.task->ToString() : "a task";
    const std::string of =
        place_.NumTrainers() > 0 ? absl::StrCat(" of ", place_.NumTrainers()) : "";
    WriteAll(
        2, absl::StrCat(
               "everstep ", kVersion, ": ", task, of, " by ", NameOf(place_.source),
               ", coordinator ", place_.coordinator,
               begun_.has_value() ? absl::StrCat(" (started), job ", begun_->directory.path()) : "",
               "\n"));
    for (const std::string& note : place_.notes) Say(note);
  }

  // `local`: the address from which it reaches the coordinator.
  absl::StatusOr<HostOptions> OptionsOfHost(const std::string& local) const {
    HostOptions host{CommandLine(), *credentials_};
    host.coordinator = place_.coordinator;
    host.address = local;
    host.port_range = job_->spec.port_range;
    host.grace = job_->spec.grace;
    host.connect_timeout = kConnect;
    host.join_deadline = JoinDeadline();
    host.in_its_place = true;
    if (place_.task.has_value()) host.claim = HostClaim{*place_.task};
    if (!place_.cluster.jobs.empty()) {
      host.address = own_.host;
      host.claim->cluster = WriteCluster(place_.cluster);
      host.claim->port = own_.port;
    } else {
      EV_ASSIGN_OR_RETURN(const auto chosen, ChooseAddress(GetEnvironment, ListInterfaces()));
      if (chosen.has_value()) host.address = chosen->address;
    }
    return host;
  }

  // Waits for the coordinator, and stays until the job has ended.
  absl::StatusOr<int> BeIn() {
    const TimePoint start = RealClock().Now();
    SayWhoIAm();
    AwaitedCoordinator awaited;
    awaited.address = coordinator_;
    // Unless somebody has named it, it is started by whoever has the first task.
    const bool named = GetEnvironment("EVERSTEP_COORDINATOR").value_or("") != "";
    if (!named)
      awaited.who = absl::StrCat("the process of ", FirstTrainer(place_.cluster).ToString());
    awaited.say = Say;
    awaited.at_most = JoinDeadline();
    awaited.since = start;
    Console console(1, 2, RealClock());
    absl::StatusOr<AgentResult> result = absl::UnknownError("not tried");
    do {
      absl::StatusOr<std::string> local = AwaitCoordinator(awaited, self_.signals);
      if (!local.ok()) {
        result = local.status();
        break;
      }
      if (!listen_.empty()) SetEnvironment(kListenHostVariable, listen_);
      absl::StatusOr<HostOptions> host = OptionsOfHost(*local);
      if (!host.ok()) {
        result = host.status();
        break;
      }
      if (begun_.has_value()) host->coordinator_process = &begun_->coordinator.process;
      result = BeAgent(*host, self_, &console);
    } while (MayTryAgain(result.status(), start));
    return End(result, RealClock().Now() - start, &console);
  }

  // The coordinator may have ended between two words, and another one may come.
  bool MayTryAgain(const absl::Status& status, TimePoint start) const {
    return (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) &&
           !begun_.has_value() && RealClock().Now() < start + JoinDeadline();
  }

  Duration JoinDeadline() const { return job_->spec.join_deadline; }

  absl::StatusOr<int> End(const absl::StatusOr<AgentResult>& result, Duration took,
                          Console* console) {
    if (begun_.has_value()) {
      EndJob(&*begun_, result.status(), result.ok() && result->from_coordinator);
    }
    KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
    EV_RETURN_IF_ERROR(result.status());
    const std::string directory =
        begun_.has_value() ? begun_->directory.path() : result->job_directory;
    SayOutcome(*result, directory, took, console);
    if (begun_.has_value() && result->code != kExitDone &&
        HasTrained(RealFileSystem(), directory)) {
      console->Say(absl::StrCat(
          "  to go on with it, start all tasks with EVERSTEP_RESUME=", directory, "\n"));
    }
    return result->code;
  }

  const Place& place_;
  const GuardedProcess& self_;
  std::optional<JobChoice> job_;
  std::optional<Credentials> credentials_;
  HostPort coordinator_, own_;
  std::string listen_;  // a number of this host
  std::optional<BegunJob> begun_;
};

}  // namespace

absl::Status CheckRole(const Place& place) {
  const std::string source = NameOf(place.source);
  if (place.cluster.NumTasks("ps") > 0) {
    return Misconfigured(
        absl::StrCat(source, " names ", place.cluster.NumTasks("ps"),
                     " ps: a program made with Everstep has chief and workers only; leave ps out"));
  }
  if (place.task.has_value() && place.task->type != "chief" && place.task->type != "worker") {
    return Misconfigured(absl::StrCat(source, " says that this process is ", place.task->ToString(),
                                      ": a program made with Everstep has chief and workers only"));
  }
  return absl::OkStatus();
}

int RunByHand(const Place& place) {
  if (const absl::Status status = CheckPlace(place); !status.ok()) return Fail(status);
  return RunGuarded([&place](const GuardedProcess& self) {
    const absl::StatusOr<int> code = Hand(place, self).Run();
    return code.ok() ? *code : Fail(code.status());
  });
}

int RunCoordinatorOfHand() {
  int run = -1, announce = -1;
  const std::string fds[] = {GetEnvironment(kCoordinateVariable).value_or(""),
                             GetEnvironment(kAnnounceVariable).value_or("")};
  if (!absl::SimpleAtoi(fds[0], &run) || !absl::SimpleAtoi(fds[1], &announce)) {
    return Fail(
        Misconfigured(absl::StrCat(kCoordinateVariable, "=", fds[0], " and ", kAnnounceVariable,
                                   "=", fds[1], " are no descriptors; leave them unset")));
  }
  return RunCoordinator([run] { return ReadOrder(run); }, announce,
                        [](const CoordinatorOrder&, int) {});
}

}  // namespace everstep
