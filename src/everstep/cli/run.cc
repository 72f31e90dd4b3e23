// cli: everstep run: a whole job from this terminal: the coordinator as a process of its own, and
// the agent of this host.
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/base/tree.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/cli/command.h"
#include "everstep/cli/coordinator_child.h"
#include "everstep/cli/host.h"
#include "everstep/cli/job_choice.h"
#include "everstep/cli/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/env/port.h"
#include "everstep/job/directory.h"
#include "everstep/observe/start_block.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

constexpr Duration kCoordinatorEnd = std::chrono::seconds(4);

constexpr char kExamples[] = R"(  everstep run -n 4 -- ./train --epochs 10
  everstep run -n 2 -- python3 train.py
  everstep run -n 3 --replicas 12 --seed 7 --job-dir runs/a -- ./train
  everstep run --resume runs/a -n 2
  everstep run --resume latest
Two hosts that share a file system, two workers on each:
  a$ everstep run -n 4 --slots 2 --listen 10.0.0.1:29700 --insecure --job-dir /shared/a -- ./train
  b$ everstep agent --coordinator 10.0.0.1:29700 --slots 2 --job-dir /shared/a --insecure -- ./train
)";

struct RunArguments {
  std::map<std::string, std::string> flags;
  std::string slots, listen, address, resume;
};

struct RunPlan : CoordinatorPlan {
  JobSpec spec;
  std::vector<std::string> program;
  std::optional<JobDirectory> resumed;
  int slots = 1;
  std::string moved_to;  // this process, to where the program was named; empty: it was there
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

// The program is that of an earlier run: so are the directory that its name and its arguments are
// relative to.
absl::Status GoWhereItWasNamed(RunPlan* plan) {
  const std::string directory =
      plan->resumed.has_value() ? plan->resumed->run().working_directory : std::string();
  if (directory.empty() || directory == AbsolutePath(".")) return absl::OkStatus();
  const absl::Status status = ChangeDirectory(directory);
  if (!status.ok()) {
    return WithExitCode(
        absl::Status(status.code(), absl::StrCat(status.message(),
                                                 "; the program was named there: name it again "
                                                 "by -- PROGRAM [ARGUMENTS]")),
        kExitConfiguration);
  }
  plan->moved_to = directory;
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> MakePlan(const RunArguments& arguments,
                                 const std::vector<std::string>& program) {
  RunPlan plan;
  EV_ASSIGN_OR_RETURN(JobChoice job, ChooseJob(arguments.resume, arguments.flags, program));
  plan.spec = std::move(job.spec);
  plan.program = std::move(job.program);
  plan.resumed = std::move(job.resumed);
  if (plan.resumed.has_value() && plan.resumed->finished().has_value()) return plan;
  plan.slots = plan.spec.Tasks();
  if (!arguments.slots.empty()) {
    EV_ASSIGN_OR_RETURN(plan.slots, ReadNumber("--slots", arguments.slots, 1, 100000));
  }
  if (program.empty()) EV_RETURN_IF_ERROR(GoWhereItWasNamed(&plan));
  EV_RETURN_IF_ERROR(CheckProgram(plan.program));
  EV_RETURN_IF_ERROR(CheckBaseline(plan.spec.cpu_baseline, ProcessorCapability()));
  EV_RETURN_IF_ERROR(PlanListening(arguments, &plan));
  return plan;
}

// Where a run will most likely begin: the newest checkpoint is not verified here.
std::string GoesOn(const std::string& job) {
  const auto newest = GlanceAtCheckpoints(RealFileSystem(), job);
  if (newest.has_value()) return absl::StrCat("from ", newest->Describe());
  return "from the beginning: there is no checkpoint yet";
}

StartFacts FactsOf(const RunPlan& plan, const JobDirectory& job, const std::string& coordinator) {
  const JobSpec& spec = plan.spec;
  StartFacts facts;
  facts.version = kVersion;
  facts.program = ShellQuoted(plan.program);
  facts.directory = plan.moved_to;
  facts.job_dir = ShellQuoted({job.path()});
  if (!spec.restore_from.empty()) {
    facts.goes_on = absl::StrCat("from ", spec.restore_from);
  } else if (!spec.begin_from.empty() &&
             !GlanceAtCheckpoints(RealFileSystem(), job.path()).has_value()) {
    facts.goes_on = absl::StrCat("from ", spec.begin_from);
  } else if (plan.resumed.has_value()) {
    facts.goes_on = GoesOn(job.path());
  }
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

// The job's directory, and its coordinator, which has it now.
struct BegunJob {
  JobDirectory directory;
  CoordinatorChild coordinator;
  JobSecret secret;
};

absl::StatusOr<BegunJob> Begin(const RunPlan& plan, const GuardedProcess& self) {
  std::optional<JobDirectory> directory = plan.resumed;
  if (!directory.has_value()) {
    EV_ASSIGN_OR_RETURN(
        directory, JobDirectory::Create(RealFileSystem(), {plan.spec, plan.program, kVersion, ""}));
  }
  absl::StatusOr<CoordinatorChild> coordinator = StartCoordinator(plan, *directory, self.signals);
  absl::StatusOr<std::string> hex = std::string();
  if (coordinator.ok()) hex = ReadWholeFile(RealFileSystem(), SecretPath(directory->path()));
  absl::StatusOr<JobSecret> secret = hex.ok() ? JobSecret::FromHex(*hex) : hex.status();
  if (coordinator.ok() && secret.ok()) {
    return BegunJob{*std::move(directory), *std::move(coordinator), *std::move(secret)};
  }
  KillAllChildren(After(RealClock(), kCoordinatorEnd));
  // Another run that has it already may go on.
  if (!absl::IsAlreadyExists(coordinator.status())) directory->Abandon();
  return coordinator.ok() ? secret.status() : coordinator.status();
}

// In the guarded process.
int RunJob(const RunPlan& plan, const GuardedProcess& self) {
  const TimePoint start = RealClock().Now();
  absl::StatusOr<BegunJob> job = Begin(plan, self);
  if (!job.ok()) return Fail(job.status());
  const std::string& path = job->directory.path();
  Console console(1, 2, RealClock());
  console.Say(StartBlock(FactsOf(plan, job->directory, job->coordinator.address)));

  HostOptions host{plan.program, {job->secret, plan.spec.insecure}};
  host.coordinator = job->coordinator.address;
  host.secret_file = SecretPath(path);
  host.address = plan.dial_host;
  host.slots = plan.slots;
  host.port_range = plan.spec.port_range;
  host.grace = plan.spec.grace;
  host.coordinator_process = &job->coordinator.process;
  const absl::StatusOr<AgentResult> result = BeAgent(host, self, &console);

  // The coordinator goes when the other hosts' agents know as well.
  if (result.ok() && result->from_coordinator) {
    (void)job->coordinator.process.Wait(After(RealClock(), kCoordinatorEnd));
  }
  KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
  if (!result.ok()) {
    job->directory.Abandon();
    return Fail(result.status());
  }
  job->directory.RemoveSecret(job->secret.ToHexForFile());
  SayOutcome(*result, path, RealClock().Now() - start, &console);
  if (result->code != kExitDone) {
    console.Say(
        absl::StrCat("  ", WhatNext(RealFileSystem(), path, result->code, plan.program), "\n"));
  }
  return result->code;
}

}  // namespace

void AddRun(CLI::App& root, Invocation* invocation) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App& verb = AddVerb(
      root, invocation,
      {"run", "Run a job: N processes of a program, started, watched and ended together", "Jobs",
       kExamples, true, &arguments->resume, kExitCodes},
      [arguments, invocation] {
        absl::StatusOr<RunPlan> plan = MakePlan(*arguments, invocation->program);
        if (!plan.ok()) return Fail(plan.status());
        if (plan->resumed.has_value() && plan->resumed->finished().has_value()) {
          WriteAll(2, absl::StrCat("everstep: ", FinishedNote(*plan->resumed), "\n"));
          return static_cast<int>(kExitDone);
        }
        return RunGuarded([&plan](const GuardedProcess& self) { return RunJob(*plan, self); });
      });
  AddJobOptions(verb, {}, &arguments->flags);
  AddText(verb, "resume", "DIR", kResumeHelp, &arguments->resume);
  AddText(verb, "slots", "K", "workers on this host; agents of others bring the rest (default N)",
          &arguments->slots);
  AddText(verb, "listen", "HOST:PORT", "where the coordinator listens (default 127.0.0.1:29700)",
          &arguments->listen);
  AddText(verb, "address", "ADDRESS", "where other hosts reach this one (default: as --listen)",
          &arguments->address);
  verb.get_option("--resume")->group("The job");
  for (const char* where : {"--slots", "--listen", "--address"}) {
    verb.get_option(where)->group("Its hosts");
  }
}

}  // namespace everstep
