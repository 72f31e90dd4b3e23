// cli: everstep run: a whole job from this terminal: the coordinator as a process of its own, and
// the agent of this host.
#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/cli/dry_run.h"
#include "everstep/cli/run_plan.h"
#include "everstep/cli/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/pipe.h"
#include "everstep/job/directory.h"
#include "everstep/launch/begun_job.h"
#include "everstep/launch/host.h"
#include "everstep/launch/job_choice.h"
#include "everstep/observe/start_block.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

constexpr char kExamples[] = R"(  everstep run -n 4 -- ./train --epochs 10
  everstep run --gang -n 4 -- python3 train.py
  everstep run --chief 1 -n 2 --ps 1 --checkpoint-path ckpt -- python3 train_ps.py
  everstep run -n 3 --replicas 12 --seed 7 --job-dir runs/a -- ./train
  everstep run --resume runs/a -n 2
  everstep run --resume latest
Two hosts that share a file system, two workers on each:
  a$ everstep run -n 4 --slots 2 --listen 10.0.0.1:29700 --insecure --job-dir /shared/a -- ./train
  b$ everstep agent --coordinator 10.0.0.1:29700 --slots 2 --job-dir /shared/a --insecure -- ./train
)";

CoordinatorCommand CommandFor(const std::string& job) {
  return {{ProgramPath(), "coordinator", "--resolved", absl::StrCat(kRunFd), "--job-dir", job,
           "--announce-fd", absl::StrCat(kAnnounceFd)},
          CurrentEnvironment()};
}

// In the guarded process.
int RunJob(const RunPlan& plan, const GuardedProcess& self) {
  const TimePoint start = RealClock().Now();
  absl::StatusOr<BegunJob> job = BeginJob(plan, CommandFor, plan.resumed,
                                          {plan.spec, plan.program, kVersion, ""}, self.signals);
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

  EndJob(&*job, result.status(), result.ok() && result->from_coordinator);
  if (!result.ok()) return Fail(result.status());
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
        if (arguments->dry_run) return Fail(WithOutput(PrintDryRun(*plan, std::cout)));
        return RunGuarded([&plan](const GuardedProcess& self) { return RunJob(*plan, self); });
      });
  AddJobOptions(verb, {}, &arguments->flags);
  AddText(verb, "resume", "DIR", kResumeHelp, &arguments->resume);
  AddSwitch(verb, "dry-run", "start nothing: print each task's command and variables",
            &arguments->dry_run);
  AddText(verb, "slots", "K",
          "tasks on this host; agents of others bring the rest (default: all of them)",
          &arguments->slots);
  AddText(verb, "listen", "HOST:PORT", "where the coordinator listens (default 127.0.0.1:29700)",
          &arguments->listen);
  AddText(verb, "address", "ADDRESS", "where other hosts reach this one (default: as --listen)",
          &arguments->address);
  verb.get_option("--resume")->group("The job");
  verb.get_option("--dry-run")->group("The job");
  for (const char* where : {"--slots", "--listen", "--address"}) {
    verb.get_option(where)->group("Its hosts");
  }
}

}  // namespace everstep
