// cli: everstep run: a whole job from this terminal: the coordinator as a process of its own, and
// the agent of this host.
#include <signal.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/base/tree.h"
#include "everstep/cli/command.h"
#include "everstep/cli/host.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"
#include "everstep/env/port.h"
#include "everstep/job/directory.h"
#include "everstep/observe/start_block.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

constexpr int kAnnounceFd = 3;  // of the coordinator
constexpr Duration kCoordinatorStart = std::chrono::seconds(20);
constexpr Duration kCoordinatorEnd = std::chrono::seconds(4);

constexpr char kExamples[] = R"(  everstep run -n 4 -- ./train --epochs 10
  everstep run -n 2 -- python3 train.py
  everstep run -n 3 --replicas 12 --seed 7 --job-dir runs/a -- ./train
Two hosts that share a file system, two workers on each:
  a$ everstep run -n 4 --slots 2 --listen 10.0.0.1:29700 --insecure --job-dir /shared/a -- ./train
  b$ everstep agent --coordinator 10.0.0.1:29700 --slots 2 --job-dir /shared/a --insecure -- ./train
)";

struct RunArguments {
  std::map<std::string, std::string> flags;
  std::string slots, listen, address;
};

struct RunPlan {
  JobSpec spec;
  std::vector<std::string> program;
  HostPort listen;        // port 0: any
  bool any_port = false;  // will do, as only this host needs to know it
  std::string dial_host;  // of the coordinator, for everyone
  int slots = 1;
};

// Where the coordinator listens; what can be refused is refused before anything is made.
absl::Status PlanListening(const RunArguments& arguments, RunPlan* plan) {
  const JobSpec& spec = plan->spec;
  plan->listen = {"127.0.0.1", spec.port.value_or(kDefaultControlPort)};
  if (!arguments.listen.empty()) {
    if (spec.port.has_value()) {
      return UsageError("--listen has the port already; leave --port out");
    }
    absl::StatusOr<HostPort> listen = HostPort::Parse(arguments.listen);
    if (!listen.ok()) return UsageError(absl::StrCat("--listen ", listen.status().message()));
    plan->listen = *listen;
  }
  Credentials credentials{JobSecret::Generate(), spec.insecure};
  EV_RETURN_IF_ERROR(CheckAddress(plan->listen.ToString(), credentials));
  plan->dial_host = arguments.address.empty() ? plan->listen.host : arguments.address;
  if (plan->dial_host == "0.0.0.0" || plan->dial_host == "::") {
    return UsageError(absl::StrCat("--listen ", arguments.listen, " says nothing of where other ",
                                   "hosts reach this one; add --address, e.g. --address 10.0.0.1"));
  }
  plan->any_port = arguments.listen.empty() && !spec.port.has_value();
  const absl::Status free = CheckPortFree(plan->listen);
  if (free.ok()) return free;
  if (plan->any_port) {
    plan->listen.port = 0;
    return absl::OkStatus();
  }
  return WithExitCode(
      absl::Status(free.code(), absl::StrCat(free.message(), "; choose another by ",
                                             arguments.listen.empty() ? "--port" : "--listen")),
      kExitNotNow);
}

absl::StatusOr<RunPlan> MakePlan(const RunArguments& arguments,
                                 const std::vector<std::string>& program) {
  RunPlan plan;
  EV_ASSIGN_OR_RETURN(plan.spec, ResolveJob(arguments.flags, GetEnvironment));
  plan.program = program;
  plan.slots = plan.spec.workers;
  if (!arguments.slots.empty()) {
    EV_ASSIGN_OR_RETURN(plan.slots, ReadNumber("--slots", arguments.slots, 1, 100000));
  }
  EV_RETURN_IF_ERROR(CheckProgram(program));
  EV_RETURN_IF_ERROR(CheckBaseline(plan.spec.cpu_baseline, ProcessorCapability()));
  EV_RETURN_IF_ERROR(PlanListening(arguments, &plan));
  return plan;
}

struct RunningCoordinator {
  Process process;
  std::string address;  // "host:port"
};

// The line that the coordinator says when it listens, or when it cannot.
absl::StatusOr<std::string> Announcement(int fd) {
  const Deadline deadline = After(RealClock(), kCoordinatorStart);
  std::string line;
  while (!absl::EndsWith(line, "\n")) {
    PollItem item{fd, true};
    const Duration left = deadline - RealClock().Now();
    EV_RETURN_IF_ERROR(Poll(absl::MakeSpan(&item, 1), left));
    if (!item.readable && left <= Duration::zero()) {
      return absl::DeadlineExceededError("the coordinator did not start in time; see its log");
    }
    char buffer[4096];
    const ptrdiff_t n = item.readable ? ReadSome(fd, buffer, sizeof buffer) : 0;
    if (item.readable && n <= 0) return absl::InternalError("the coordinator ended at its start");
    line.append(buffer, n);
  }
  line.pop_back();
  return line;
}

absl::StatusOr<RunningCoordinator> StartCoordinatorAt(const HostPort& listen, const RunPlan& plan,
                                                      const JobDirectory& job) {
  EV_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  SpawnOptions options;
  options.argv = {ProgramPath(),     "coordinator",   "--resolved",
                  "--job-dir",       job.path(),      "--listen",
                  listen.ToString(), "--announce-fd", absl::StrCat(kAnnounceFd)};
  options.environment = CurrentEnvironment();
  options.descriptors = {{pipe.write.get(), kAnnounceFd}};
  options.parent_death_signal = SIGKILL;  // it has nothing to finish
  EV_ASSIGN_OR_RETURN(Process process, Process::Spawn(options));
  pipe.write.Reset();
  EV_ASSIGN_OR_RETURN(const std::string said, Announcement(pipe.read.get()));
  int port = 0;
  if (absl::SimpleAtoi(said, &port)) {
    return RunningCoordinator{std::move(process), HostPort{plan.dial_host, port}.ToString()};
  }
  // "CODE message": it could not.
  const size_t space = said.find(' ');
  int code = 0;
  if (!absl::SimpleAtoi(said.substr(0, space), &code)) code = kExitOurFault;
  return WithExitCode(absl::UnavailableError(said.substr(space + 1)), code);
}

absl::StatusOr<RunningCoordinator> StartCoordinator(const RunPlan& plan, const JobDirectory& job) {
  auto started = StartCoordinatorAt(plan.listen, plan, job);
  // Another job may have taken the port since it was looked at.
  if (started.ok() || !plan.any_port || ExitCodeFor(started.status()) != kExitNotNow) {
    return started;
  }
  return StartCoordinatorAt({plan.listen.host, 0}, plan, job);
}

StartFacts FactsOf(const RunPlan& plan, const JobDirectory& job, const std::string& coordinator) {
  const JobSpec& spec = plan.spec;
  StartFacts facts;
  facts.version = kVersion;
  facts.program = ShellQuoted(plan.program);
  facts.job_dir = ShellQuoted({job.path()});
  facts.insecure = spec.insecure;
  facts.seed = spec.seed;
  facts.seed_drawn = spec.origins.at("seed") == "drawn";
  facts.workers = spec.workers;
  facts.slots = plan.slots;
  facts.replica_begins = AssignReplicas(spec.replicas, spec.workers);
  facts.threads_per_replica = spec.threads_per_replica;
  facts.cores = static_cast<int>(std::thread::hardware_concurrency());
  facts.cpu_baseline = spec.cpu_baseline;
  facts.coordinator = coordinator;
  facts.data_ports = absl::StrCat(spec.port_range.first, "-", spec.port_range.last);
  return facts;
}

// In the guarded process.
int RunJob(const RunPlan& plan, const GuardedProcess& self) {
  const TimePoint start = RealClock().Now();
  HostOptions host{plan.program, {JobSecret::Generate(), plan.spec.insecure}};
  NewJob new_job{plan.spec, plan.program, kVersion, host.credentials.secret.ToHexForFile()};
  absl::StatusOr<JobDirectory> job = JobDirectory::Create(RealFileSystem(), std::move(new_job));
  if (!job.ok()) return Fail(job.status());
  absl::StatusOr<RunningCoordinator> coordinator = StartCoordinator(plan, *job);
  if (!coordinator.ok()) {
    KillAllChildren(After(RealClock(), kCoordinatorEnd));
    job->Abandon();
    return Fail(coordinator.status());
  }
  Console console(1, 2, RealClock());
  console.Say(StartBlock(FactsOf(plan, *job, coordinator->address)));

  host.coordinator = coordinator->address;
  host.secret_file = SecretPath(job->path());
  host.address = plan.dial_host;
  host.slots = plan.slots;
  host.port_range = plan.spec.port_range;
  host.grace = plan.spec.grace;
  host.coordinator_process = &coordinator->process;
  const absl::StatusOr<AgentResult> result = BeAgent(host, self, &console);

  // The coordinator goes when the other hosts' agents know as well.
  if (result.ok() && result->from_coordinator) {
    (void)coordinator->process.Wait(After(RealClock(), kCoordinatorEnd));
  }
  KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
  if (!result.ok()) {
    job->Abandon();
    return Fail(result.status());
  }
  job->RemoveSecret();
  SayOutcome(*result, job->path(), RealClock().Now() - start, &console);
  return result->code;
}

}  // namespace

void AddRun(CLI::App& root, Invocation* invocation) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App& verb = AddVerb(
      root, invocation,
      {"run", "Run a job: N processes of a program, started, watched and ended together", "Jobs",
       kExamples, true},
      [arguments, invocation] {
        absl::StatusOr<RunPlan> plan = MakePlan(*arguments, invocation->program);
        if (!plan.ok()) return Fail(plan.status());
        return RunGuarded([&plan](const GuardedProcess& self) { return RunJob(*plan, self); });
      });
  AddJobOptions(verb, {}, &arguments->flags);
  AddText(verb, "slots", "K", "workers on this host; agents of others bring the rest (default N)",
          &arguments->slots);
  AddText(verb, "listen", "HOST:PORT", "where the coordinator listens (default 127.0.0.1:29700)",
          &arguments->listen);
  AddText(verb, "address", "ADDRESS", "where other hosts reach this one (default: as --listen)",
          &arguments->address);
}

}  // namespace everstep
