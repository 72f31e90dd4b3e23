// cli: everstep run --dry-run.
#include "everstep/cli/dry_run.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/env/environment.h"
#include "everstep/env/port.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"
#include "everstep/supervise/child_environment.h"

namespace everstep {
namespace {

constexpr char kNewDirectory[] = "runs/PROGRAM-TIME";

std::vector<Task> TasksOf(const JobSpec& spec) {
  std::vector<Task> tasks;
  const std::pair<const char*, int> roles[] = {{"chief", spec.chiefs},
                                               {"worker", spec.workers},
                                               {"ps", spec.parameter_servers},
                                               {"evaluator", spec.evaluators}};
  for (const auto& [type, count] : roles) {
    for (int i = 0; i < count; ++i) tasks.push_back({type, i});
  }
  return tasks;
}

// A word of a shell that sets a variable: NAME='value'.
std::string Setting(const std::string& name, const std::string& value) {
  return absl::StrCat(name, "=", value.empty() ? "" : ShellQuoted({value}));
}

}  // namespace

std::vector<Spawn> DrySpawns(const JobSpec& spec, const std::string& host, int slots,
                             const std::vector<int>& ports) {
  const std::vector<Task> tasks = TasksOf(spec);
  std::vector<Spawn> spawns;
  ClusterSpec cluster;
  int trainers_here = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const bool here = static_cast<int>(i) < slots;
    const std::string address =
        HostPort{here ? host : "OTHER-HOST",
                 here ? ports[i] : spec.port_range.first + static_cast<int>(i) - slots}
            .ToString();
    Spawn spawn;
    spawn.task = tasks[i];
    spawn.incarnation = i + 1;
    spawn.settings = ToSettings(spec);
    const bool trains = tasks[i].type == "chief" || tasks[i].type == "worker";
    spawn.local_rank = trains && here ? trainers_here++ : -1;
    if (tasks[i].type == "evaluator") {
      // It trains with nobody: its cluster is itself.
      spawn.cluster.jobs["evaluator"] = {address};
    } else {
      cluster.jobs[tasks[i].type].push_back(address);
    }
    if (here) spawns.push_back(std::move(spawn));
  }
  for (Spawn& spawn : spawns) {
    if (spawn.task.type != "evaluator") spawn.cluster = cluster;
    spawn.local_size = std::max(trainers_here, 1);
  }
  return spawns;
}

absl::Status PrintDryRun(const RunPlan& plan, std::ostream& out) {
  const JobSpec& spec = plan.spec;
  const int here = std::min(plan.slots, spec.Tasks());
  absl::StatusOr<PortReservation> ports =
      ReservePorts(spec.port_range.first, spec.port_range.last, here);
  if (!ports.ok()) return WithExitCode(ports.status(), kExitNotNow);
  ChildContext context;
  context.inherited = CurrentEnvironment();
  const HostPort coordinator{plan.dial_host,
                             plan.listen.port == 0 ? kDefaultControlPort : plan.listen.port};
  context.coordinator = coordinator.ToString();
  context.job_directory = spec.directory.empty() ? kNewDirectory : spec.directory;
  context.secret_file = SecretPath(context.job_directory);
  context.processor = ProcessorCapability();
  for (const Spawn& spawn : DrySpawns(spec, plan.dial_host, here, ports->ports())) {
    using Variables = std::map<std::string, std::string>;
    EV_ASSIGN_OR_RETURN(const Variables variables, ChildEnvironment(spawn, context));
    out << "# " << spawn.task.ToString() << "\n";
    for (const auto& [name, value] : variables) {
      const auto ours = context.inherited.find(name);
      if (ours == context.inherited.end() || ours->second != value) {
        out << Setting(name, value) << " \\\n";
      }
    }
    out << ShellQuoted(plan.program) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace everstep
