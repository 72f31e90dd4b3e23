// cli: other launchers' options.
#include "everstep/cli/foreign_options.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "everstep/job/spec.h"

namespace everstep {
namespace {

// Theirs, whose value is the value of one of ours.
struct Renamed {
  const char* names;  // without dashes in front, separated by spaces
  const char* ours;
};
constexpr Renamed kRenamed[] = {
    {"nproc-per-node np num-proc num-processes nprocs ntasks", "-n"},
    {"slots-per-host ntasks-per-node", "--slots"},
    {"reset-limit", "--max-restarts"},
    {"local-addr", "--address"},
    {"gpus-per-worker gpus-per-process", "--gpus-per-task"},
    {"num-workers", "-n"},
    {"num-ps", "--ps"},
    {"grace-period kill-wait", "--grace-seconds"},
};

struct Answer {
  const char* names;  // as above; "-m" is the short one
  const char* text;
};
constexpr Answer kAnswers[] = {
    {"nnodes num-machines nodes -N",
     "-n says how many workers there are in all; other hosts join by everstep agent --coordinator "
     "HOST:PORT --slots K"},
    {"min-np max-np min-num-proc max-num-proc",
     "a program that knows nothing of Everstep has one size, which is -n"},
    {"node-rank machine-rank", "not needed: the coordinator gives out the ranks"},
    {"rdzv-backend rdzv-endpoint rdzv-id rdzv-conf",
     "not needed on one host; else the coordinator is where hosts meet: everstep run --listen "
     "HOST:PORT, everstep agent --coordinator HOST:PORT"},
    {"master-addr master-port main-process-ip main-process-port",
     "not needed: each process gets its MASTER_ADDR and MASTER_PORT, from the ports of "
     "--port-range"},
    {"standalone same-network", "not needed: without agents a job stays on this host"},
    {"start-method", "not needed: each task is a process of its own"},
    {"role", "roles are --chief, -n, --ps and --evaluator"},
    {"-m module", "put it behind --: everstep run -- python3 -m MODULE"},
    {"no-python", "not needed: what stands behind -- is run as it is"},
    {"run-path", "put it behind --: everstep run -- python3 SCRIPT"},
    {"log-dir output-filename logs-specs",
     "each task's output is in logs/TASK of the job directory, which --job-dir says"},
    {"-t tee -r redirects local-ranks-filter prefix-output-with-timestamp label",
     "not needed: output goes to the terminal, behind the task's name, and into logs/TASK of the "
     "job directory"},
    {"monitor-interval", "not needed: the end of a process is seen at once"},
    {"signals-to-handle",
     "not needed: SIGTERM, SIGINT and SIGHUP end the job, with --grace-seconds"},
    {"numa-binding bind-to map-by cpu-bind",
     "not there; bind by the program's own command: everstep run -- numactl ... PROGRAM"},
    {"-H hosts host hostfile host-discovery-script machinefile -w nodelist",
     "hosts are not reached by ssh: start everstep agent --coordinator HOST:PORT --slots K on "
     "each"},
    {"-p ssh-port -i ssh-identity-file", "not needed: nothing goes by ssh"},
    {"start-timeout elastic-timeout",
     "a job waits for the slots that it lacks; an agent waits --connect-seconds for the "
     "coordinator"},
    {"blacklist-cooldown-range", "not there: restarts back off by themselves"},
    {"network-interfaces network-interface nics nic iface",
     "not needed: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME are set to the interface of the host's "
     "address (--address says another), unless you set them"},
    {"gloo mpi jsrun multi-gpu cpu mixed-precision use-deepspeed use-fsdp use-megatron-lm "
     "use-mpi-args gradient-accumulation-steps",
     "that is the program's own affair: say it to the program, behind --"},
    {"gpu-ids gpus", "set CUDA_VISIBLE_DEVICES; --gpus-per-task shares it out among the tasks"},
    {"gpus-per-node", "--gpus-per-task says how many each task sees"},
    {"config-file config", "not there; each option can be set by its EVERSTEP_ variable"},
    {"timeline-filename fusion-threshold-mb cycle-time-ms stall-check-warning-time-seconds "
     "stall-check-shutdown-time-seconds no-stall-check autotune autotune-log-file",
     "that is Horovod's own: set its HOROVOD_ variable, which reaches the program as it is"},
    {"-v verbose", "it is --log-level info here"},
    {"debug", "--debug-libs makes the libraries say all they can; --log-level debug Everstep"},
    {"-x env genv export",
     "not needed: the processes get the variables that everstep was started with"},
    {"-K kill-on-bad-exit no-kill", "not needed: see --max-restarts"},
    {"oversubscribe allow-run-as-root mpi-args tcp-flag disable-cache", "not needed"},
    {"spares min-workers", "not there yet: a job has the -n workers that it began with"},
};

bool Names(const char* names, const std::string& name) {
  const std::vector<std::string> list = absl::StrSplit(names, ' ');
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool IsJobs(const std::string& name) {
  for (const JobOption& option : JobOptionTable()) {
    if (name == option.name) return true;
  }
  return false;
}

}  // namespace

std::string ForeignHint(const std::string& verb, const std::string& option,
                        const std::string& value) {
  const size_t equals = option.find('=');
  const bool longish = absl::StartsWith(option, "--") || absl::StartsWith(option, "-np");
  std::string name = option.substr(0, equals);
  if (longish) name = absl::StrReplaceAll(name.substr(name.find_first_not_of('-')), {{"_", "-"}});
  std::string given = equals == std::string::npos ? value : option.substr(equals + 1);
  if (absl::StartsWith(given, "-") ||
      given.find_first_not_of("0123456789.:") != std::string::npos) {
    given.clear();
  }
  if (IsJobs(name)) {
    if (verb != "agent") return "";
    return "it is the job's: say it to everstep run or everstep coordinator, who tell the agents";
  }
  for (const Renamed& renamed : kRenamed) {
    if (!Names(renamed.names, name)) continue;
    std::string ours = renamed.ours;
    if (ours == "-n" && verb == "agent") ours = "--slots";
    return absl::StrCat("it is ", ours, " here",
                        given.empty() ? "" : absl::StrCat(": ", ours, " ", given));
  }
  for (const Answer& answer : kAnswers) {
    if (Names(answer.names, name)) return answer.text;
  }
  return absl::StartsWith(name, "dynamo-") ? "that is the program's own affair" : "";
}

}  // namespace everstep
