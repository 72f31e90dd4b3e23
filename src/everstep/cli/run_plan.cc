// cli: the plan of `everstep run`.
#include "everstep/cli/run_plan.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/base/tree.h"
#include "everstep/cli/checkpoint.h"
#include "everstep/cli/command.h"
#include "everstep/cli/traps.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/gpu.h"
#include "everstep/env/port.h"
#include "everstep/job/status.h"
#include "everstep/launch/host.h"
#include "everstep/launch/job_choice.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

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

// Options that change nothing for a gang, and slots that stay empty: no mistake worth an end.
std::vector<std::string> NotesOn(const JobSpec& spec, int slots) {
  std::vector<std::string> notes;
  if (const int empty = slots - spec.Tasks(); empty > 0) {
    notes.push_back(absl::StrCat("--slots ", slots, " with ", spec.Tasks(),
                                 spec.Tasks() == 1 ? " task: " : " tasks: ", empty,
                                 empty == 1 ? " slot stays" : " slots stay", " empty"));
  }
  std::vector<std::string> idle;
  for (const JobOption& option : JobOptionTable()) {
    const auto origin = spec.origins.find(option.name);
    if (!IsNativeOnly(option.name) || origin == spec.origins.end()) continue;
    if (origin->second == "flag") idle.push_back(option.Flag());
    if (origin->second == "environment") idle.push_back(option.Variable());
  }
  if (spec.gang && !idle.empty()) {
    notes.push_back(absl::StrCat(absl::StrJoin(idle, ", "), idle.size() == 1 ? " is" : " are",
                                 " for programs made with Everstep and ",
                                 idle.size() == 1 ? "changes" : "change", " nothing here"));
  }
  return notes;
}

}  // namespace

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
  // With tasks on other hosts nobody knows yet which will be here.
  if (plan.slots >= plan.spec.Tasks()) {
    EV_RETURN_IF_ERROR(
        CheckGpus(plan.spec, plan.spec.chiefs + plan.spec.workers, GetEnvironment, CountGpus()));
  }
  EV_RETURN_IF_ERROR(PlanListening(arguments, &plan));
  plan.notes = NotesOn(plan.spec, plan.slots);
  if (!arguments.dry_run) {
    for (std::string& trap :
         FindTraps({plan.spec, plan.program, GetEnvironment, RealFileSystem(), LookAtPackages})) {
      plan.notes.push_back(std::move(trap));
    }
  }
  return plan;
}

namespace {

// Where a run will most likely begin: the newest checkpoint is not verified here.
std::string GoesOn(const std::string& job) {
  const auto newest = GlanceAtCheckpoints(RealFileSystem(), job);
  if (newest.has_value()) return absl::StrCat("from ", newest->Describe());
  return "from the beginning: there is no checkpoint yet";
}

// The program finds its checkpoints by itself; what it has was seen by the run before.
std::string GangGoesOn(const std::string& job) {
  const absl::StatusOr<std::string> text = ReadWholeFile(RealFileSystem(), StatusPath(job));
  const absl::StatusOr<JobStatus> status =
      text.ok() ? FromStatusJson(*text, StatusPath(job)) : text.status();
  if (!status.ok() || status->checkpoint_path.empty()) {
    return "the program starts again; no checkpoint of it was seen";
  }
  const double since = WallSeconds() - SecondsOfTimestamp(status->time).value_or(WallSeconds());
  return absl::StrCat("the program starts again; its newest checkpoint seen is ",
                      status->checkpoint_path, ", ",
                      AgeText(status->checkpoint_age_seconds + std::max(0.0, since)), " old");
}

}  // namespace

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
    facts.goes_on = spec.gang ? GangGoesOn(job.path()) : GoesOn(job.path());
  }
  facts.insecure = spec.insecure;
  facts.seed = spec.seed;
  facts.seed_drawn = spec.origins.at("seed") == "drawn";
  facts.workers = spec.Tasks();
  facts.slots = plan.slots;
  facts.replica_begins = AssignReplicas(spec.replicas, spec.workers);
  facts.threads_per_replica = spec.threads_per_replica;
  facts.cores = static_cast<int>(std::thread::hardware_concurrency());
  facts.cpu_baseline = spec.cpu_baseline;
  facts.coordinator = coordinator;
  facts.data_ports = absl::StrCat(spec.port_range.first, "-", spec.port_range.last);
  facts.gang = spec.gang;
  facts.tasks = TasksText(spec.chiefs, spec.workers, spec.parameter_servers, spec.evaluators);
  facts.kills_silent = spec.hang_action == "kill";
  facts.checkpoint_path = spec.checkpoint_path;
  facts.notes = plan.notes;
  return facts;
}

}  // namespace everstep
