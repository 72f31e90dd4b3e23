// cli: everstep agent: this host's part of a job whose coordinator is elsewhere.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/cluster/interfaces.h"
#include "everstep/cluster/resolver_list.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/interface.h"
#include "everstep/env/pipe.h"
#include "everstep/env/port.h"
#include "everstep/job/directory.h"
#include "everstep/launch/host.h"
#include "everstep/trust/join_secret.h"
#include "everstep/trust/secret.h"

namespace everstep {
namespace {

constexpr char kNotes[] =
    "What belongs to the job (-n, --gang, --ps, --hang-action and so on) is said to its "
    "coordinator,\nwhich tells the agents.\n\n"
    "Without --address, EVERSTEP_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, chooses the interface: "
    "\"eth,ib\"\n(names that begin so), \"=eth0\" (exactly), \"^docker,lo\" (all others); "
    "EVERSTEP_SOCKET_FAMILY, else\nNCCL_SOCKET_FAMILY, is AF_INET or AF_INET6.\n\n";

constexpr char kExamples[] =
    R"(  everstep agent --coordinator 10.0.0.1:29700 --slots 2 --job-dir /shared/a --insecure -- ./train
)";

struct AgentArguments {
  std::map<std::string, std::string> flags;
  std::string coordinator, slots = "1", secret_file, address, task, connect_seconds = "30";
};

struct AgentPlan {
  HostPort coordinator;
  JobSpec spec;  // what of it an agent needs to know
  std::string secret_file;
  std::string address;         // empty: the one from which the coordinator is reached
  std::optional<Task> claims;  // what its one slot is for
  int slots = 1;
  Duration connect{};
};

absl::Status AddClaim(const AgentArguments& arguments, AgentPlan* plan) {
  const absl::StatusOr<std::optional<Task>> task =
      ReadClaimedTask([&](const std::string&) { return arguments.task; });
  if (!task.ok()) {
    return UsageError(absl::StrCat("--task '", arguments.task,
                                   "' is not a task; write it as TYPE:INDEX, e.g. worker:0"));
  }
  if (task->has_value() && plan->slots != 1) {
    return UsageError(absl::StrCat("--task ", arguments.task, " is for one slot, not for ",
                                   plan->slots, "; start an agent for each task"));
  }
  plan->claims = *task;
  return absl::OkStatus();
}

absl::StatusOr<std::string> OwnAddress(const std::string& said) {
  if (!said.empty()) return said;
  EV_ASSIGN_OR_RETURN(const std::optional<ChosenAddress> chosen,
                      ChooseAddress(GetEnvironment, ListInterfaces()));
  return chosen.has_value() ? chosen->address : std::string();
}

absl::StatusOr<AgentPlan> MakePlan(const AgentArguments& arguments,
                                   const std::vector<std::string>& program) {
  AgentPlan plan;
  // Its own flags only: how many workers there are is not this host's business.
  EV_ASSIGN_OR_RETURN(plan.spec, JobFromEnvironment(1, [&](const std::string& variable) {
                        for (const JobOption& option : JobOptionTable()) {
                          const auto flag = arguments.flags.find(option.name);
                          if (option.Variable() == variable && flag != arguments.flags.end()) {
                            return std::optional<std::string>(flag->second);
                          }
                        }
                        return GetEnvironment(variable);
                      }));
  if (arguments.coordinator.empty()) {
    return UsageError("say where the job's coordinator is: --coordinator HOST:PORT");
  }
  absl::StatusOr<HostPort> coordinator = HostPort::Parse(arguments.coordinator);
  if (!coordinator.ok()) {
    return UsageError(absl::StrCat("--coordinator ", coordinator.status().message()));
  }
  plan.coordinator = *coordinator;
  EV_ASSIGN_OR_RETURN(plan.slots, ReadNumber("--slots", arguments.slots, 1, 100000));
  EV_ASSIGN_OR_RETURN(const int seconds,
                      ReadNumber("--connect-seconds", arguments.connect_seconds, 1, 86400));
  plan.connect = std::chrono::seconds(seconds);
  EV_RETURN_IF_ERROR(AddClaim(arguments, &plan));
  EV_ASSIGN_OR_RETURN(plan.address, OwnAddress(arguments.address));
  plan.secret_file = arguments.secret_file;
  if (plan.secret_file.empty() && !plan.spec.directory.empty()) {
    plan.secret_file = SecretPath(plan.spec.directory);
  }
  EV_RETURN_IF_ERROR(CheckProgram(program));
  return plan;
}

// That of the job, in a file which may be made at this moment: so waits for it. No path: the user's
// join secret; the job's own is then found in the directory that the coordinator names.
absl::StatusOr<JobSecret> ReadSecret(const std::string& path, Deadline deadline) {
  if (path.empty()) return ReadJoinSecret(GetEnvironment);
  for (bool said = false;; said = true) {
    const absl::StatusOr<std::string> text = ReadWholeFile(RealFileSystem(), path);
    if (text.ok() && !text->empty()) {
      absl::StatusOr<JobSecret> secret = JobSecret::FromHex(*text);
      if (secret.ok()) return secret;
      return Annotate(secret.status(), path);
    }
    const bool later = text.ok() || absl::IsNotFound(text.status());
    if (!later || RealClock().Now() >= deadline) {
      return WithExitCode(absl::FailedPreconditionError(
                              absl::StrCat("cannot read the job's secret ", path, ": ",
                                           text.ok() ? "it is empty" : text.status().message(),
                                           "; is this the job's --job-dir?")),
                          kExitConfiguration);
    }
    if (!said) {
      // Or the path is wrong: who typed it can see so now.
      const int seconds = static_cast<int>(std::ceil(ToSeconds(deadline - RealClock().Now())));
      WriteAll(2, absl::StrCat("everstep: waiting up to ", seconds, " s for the job's secret ",
                               path, ", which is not there\n"));
    }
    SleepFor(std::chrono::milliseconds(100));
  }
}

// In the guarded process.
int RunAgent(const AgentPlan& plan, const std::vector<std::string>& program,
             const GuardedProcess& self) {
  const TimePoint start = RealClock().Now();
  const Deadline deadline = start + plan.connect;
  absl::StatusOr<JobSecret> secret = ReadSecret(plan.secret_file, deadline);
  if (!secret.ok()) return Fail(secret.status());
  HostOptions host{program, {*secret, plan.spec.insecure}};
  host.coordinator = plan.coordinator.ToString();
  const absl::Status allowed = CheckAddress(host.coordinator, host.credentials);
  if (!allowed.ok()) return Fail(allowed);
  const absl::StatusOr<std::string> local = LocalAddressTowards(plan.coordinator, deadline);
  if (!local.ok()) {
    return Fail(
        WithExitCode(Annotate(local.status(), "cannot reach the coordinator"), kExitNotNow));
  }
  // Each run of a job makes a new secret before it listens; the one read above may be of a run that
  // was killed.
  secret = ReadSecret(plan.secret_file, deadline);
  if (!secret.ok()) return Fail(secret.status());
  host.credentials.secret = *secret;
  host.secret_file = plan.secret_file;
  host.job_directory = plan.spec.directory;
  host.address = plan.address.empty() ? *local : plan.address;
  host.slots = plan.slots;
  if (plan.claims.has_value()) host.claim = HostClaim{*plan.claims};
  host.port_range = plan.spec.port_range;
  host.grace = plan.spec.grace;
  Console console(1, 2, RealClock());
  console.Say(absl::StrCat("everstep ", kVersion, ": agent of ", host.address, " with ", plan.slots,
                           plan.slots == 1 ? " slot" : " slots", ", coordinator ",
                           host.coordinator));
  const absl::StatusOr<AgentResult> result = BeAgent(host, self, &console);
  KillAllChildren(After(RealClock(), std::chrono::seconds(5)));
  if (!result.ok()) return Fail(result.status());
  SayOutcome(*result, plan.spec.directory, RealClock().Now() - start, &console);
  return result->code;
}

}  // namespace

void AddAgent(CLI::App& root, Invocation* invocation) {
  auto arguments = std::make_shared<AgentArguments>();
  static const std::string notes = absl::StrCat(kNotes, kExitCodes);
  CLI::App& verb =
      AddVerb(root, invocation,
              {"agent", "Bring this host's slots into a job whose coordinator is elsewhere", "Jobs",
               kExamples, true, nullptr, notes.c_str()},
              [arguments, invocation] {
                absl::StatusOr<AgentPlan> plan = MakePlan(*arguments, invocation->program);
                if (!plan.ok()) return Fail(plan.status());
                return RunGuarded([&](const GuardedProcess& self) {
                  return RunAgent(*plan, invocation->program, self);
                });
              });
  AddText(verb, "coordinator", "HOST:PORT", "of the job", &arguments->coordinator);
  AddText(verb, "slots", "K", "how many tasks this host can run (default 1)", &arguments->slots);
  AddText(verb, "secret-file", "FILE",
          "the job's secret (default: in --job-dir; without one the user's join secret is shown)",
          &arguments->secret_file);
  AddText(verb, "address", "ADDRESS",
          "where other hosts reach this one (default: the interface that leads to the coordinator)",
          &arguments->address);
  AddText(verb, "task", "TYPE:INDEX", "the task that its one slot is for (default: any)",
          &arguments->task);
  AddText(verb, "connect-seconds", "S", "how long to try to reach the coordinator (default 30)",
          &arguments->connect_seconds);
  AddJobOptions(verb, {"job-dir", "port-range", "grace-seconds", "log-level", "insecure"},
                &arguments->flags);
  verb.get_option("--job-dir")
      ->description("the job's directory, as this host sees it [EVERSTEP_JOB_DIR]");
}

}  // namespace everstep
