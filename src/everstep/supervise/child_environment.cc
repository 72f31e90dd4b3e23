// supervise: the environment of a process of the job.
#include "everstep/supervise/child_environment.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/base/status.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/socket.h"
#include "everstep/job/directory.h"

namespace everstep {
namespace {

using Variables = std::map<std::string, std::string>;

int Rank(const std::string& capability) {
  return capability == "avx512" ? 2 : capability == "avx2" ? 1 : 0;
}

// The libraries choose their kernels by what the processor has, and other kernels give other bits.
void LowerToBaseline(const std::string& baseline, Variables* variables) {
  const bool wide = baseline == "avx512";
  (*variables)["ATEN_CPU_CAPABILITY"] = baseline;
  (*variables)["OPENBLAS_CORETYPE"] = wide ? "SkylakeX" : "Haswell";
  (*variables)["ONEDNN_MAX_CPU_ISA"] = wide ? "AVX512_CORE" : "AVX2";
}

bool IsOn(const Variables& variables, const char* name) {
  const auto it = variables.find(name);
  return it != variables.end() && it->second == "1";
}

bool IsTrainer(const Task& task) { return task.type == "chief" || task.type == "worker"; }

// Whether the program knows nothing of us: the user said so by --gang, or by roles.
bool IsForeign(const Spawn& spawn) {
  return IsOn(spawn.settings, "EVERSTEP_GANG") || spawn.task.type != "worker" ||
         spawn.cluster.jobs.size() > 1;
}

std::set<std::string> HostsOf(const ClusterSpec& cluster, const std::string& coordinator) {
  std::set<std::string> hosts = {"localhost", "127.0.0.1"};
  auto add = [&hosts](const std::string& address) {
    if (auto parsed = HostPort::Parse(address); parsed.ok()) hosts.insert(parsed->host);
  };
  add(coordinator);
  for (const auto& [type, addresses] : cluster.jobs) {
    for (const std::string& address : addresses) add(address);
  }
  return hosts;
}

std::string Completed(std::string list, const std::set<std::string>& hosts) {
  std::set<std::string> known;
  for (absl::string_view entry : absl::StrSplit(list, ',')) {
    known.insert(std::string(absl::StripAsciiWhitespace(entry)));
  }
  if (known.count("*") != 0) return list;
  for (const std::string& host : hosts) {
    if (known.count(host) == 0) absl::StrAppend(&list, list.empty() ? "" : ",", host);
  }
  return list;
}

// gRPC inside a program would send even the cluster's own traffic through a proxy.
void ExemptFromProxies(const std::set<std::string>& hosts, Variables* variables) {
  bool proxied = false;
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "HTTP_PROXY",
                           "HTTPS_PROXY", "GRPC_PROXY", "ALL_PROXY"}) {
    proxied = proxied || variables->count(name) != 0;
  }
  if (!proxied) return;
  // Some libraries read one spelling, some the other; neither may lose what the user said in one.
  std::string& lower = (*variables)["no_proxy"];
  std::string& upper = (*variables)["NO_PROXY"];
  if (lower.empty()) lower = upper;
  if (upper.empty()) upper = lower;
  lower = Completed(lower, hosts);
  upper = Completed(upper, hosts);
  if (auto grpc = variables->find("no_grpc_proxy"); grpc != variables->end()) {
    grpc->second = Completed(grpc->second, hosts);
  }
}

// NCCL and gloo take the first interface that seems good to them, and it is often a bridge of
// containers that leads nowhere.
void ChooseInterface(const std::string& own_host, const ChildContext& context,
                     Variables* variables) {
  const std::string name = context.interface_of(own_host);
  if (name.empty()) return;
  variables->emplace("NCCL_SOCKET_IFNAME", absl::StrCat("=", name));  // exactly it, not a prefix
  variables->emplace("GLOO_SOCKET_IFNAME", name);
}

absl::Status DescribeCluster(const Spawn& spawn, const ChildContext& context,
                             Variables* variables) {
  const ClusterSpec& cluster = spawn.cluster;
  (*variables)["TF_CONFIG"] = WriteTfConfig(cluster, spawn.task);
  if (const auto own = cluster.Address(spawn.task); own.ok()) {
    EV_ASSIGN_OR_RETURN(const HostPort address, HostPort::Parse(*own));
    ChooseInterface(address.host, context, variables);
  }
  // A lost parameter server is then waited for, instead of failing whoever asks it.
  if (cluster.NumTasks("ps") > 0) variables->emplace("GRPC_FAIL_FAST", "use_caller");
  if (!IsTrainer(spawn.task)) return absl::OkStatus();
  // Ranks as TensorFlow counts them: the chief, then the workers.
  const int chiefs = cluster.NumTasks("chief");
  const int rank = spawn.task.type == "chief" ? 0 : chiefs + spawn.task.index;
  const absl::StatusOr<std::string> master =
      cluster.Address(Task{chiefs > 0 ? "chief" : "worker", 0});
  if (!master.ok()) return absl::OkStatus();
  EV_ASSIGN_OR_RETURN(const HostPort address, HostPort::Parse(*master));
  (*variables)["RANK"] = absl::StrCat(rank);
  (*variables)["WORLD_SIZE"] = absl::StrCat(chiefs + cluster.NumTasks("worker"));
  (*variables)["MASTER_ADDR"] = address.host;
  (*variables)["MASTER_PORT"] = absl::StrCat(address.port);
  if (spawn.local_rank >= 0) {
    (*variables)["LOCAL_RANK"] = absl::StrCat(spawn.local_rank);
    (*variables)["LOCAL_WORLD_SIZE"] = absl::StrCat(spawn.local_size);
  }
  return absl::OkStatus();
}

// The devices that a process started here would see, in CUDA's words.
std::vector<std::string> VisibleGpus(const ChildContext& context) {
  std::vector<std::string> gpus;
  const auto set = context.inherited.find("CUDA_VISIBLE_DEVICES");
  if (set == context.inherited.end()) {
    const int count = context.count_gpus();
    for (int i = 0; i < count; ++i) gpus.push_back(absl::StrCat(i));
    return gpus;
  }
  for (absl::string_view gpu : absl::StrSplit(set->second, ',')) {
    gpu = absl::StripAsciiWhitespace(gpu);
    if (gpu.empty() || gpu[0] == '-' || gpu == "NoDevFiles") break;  // CUDA reads no further
    gpus.emplace_back(gpu);
  }
  return gpus;
}

absl::Status ShareGpus(const Spawn& spawn, const ChildContext& context, Variables* variables) {
  const auto setting = spawn.settings.find("EVERSTEP_GPUS_PER_TASK");
  int each = 0;
  if (setting == spawn.settings.end() || !absl::SimpleAtoi(setting->second, &each)) {
    return absl::OkStatus();
  }
  std::string& visible = (*variables)["CUDA_VISIBLE_DEVICES"];
  visible.clear();
  if (each == 0 || spawn.local_rank < 0) return absl::OkStatus();
  const std::vector<std::string> gpus = VisibleGpus(context);
  const size_t first = static_cast<size_t>(each) * spawn.local_rank;
  const size_t asked = static_cast<size_t>(each) * std::max(spawn.local_size, 1);
  if (gpus.size() < std::max(asked, first + each)) {
    const auto set = context.inherited.find("CUDA_VISIBLE_DEVICES");
    return absl::FailedPreconditionError(absl::StrCat(
        "--gpus-per-task ", each, " asks for ", asked, " GPUs on this host (", spawn.local_size,
        " tasks), and it has ", gpus.size(),
        set == context.inherited.end() ? ""
                                       : absl::StrCat(" in CUDA_VISIBLE_DEVICES=", set->second),
        "; give a smaller --gpus-per-task or fewer tasks"));
  }
  visible = absl::StrJoin(gpus.begin() + first, gpus.begin() + first + each, ",");
  return absl::OkStatus();
}

void ChooseThreads(const Spawn& spawn, const ChildContext& context, Variables* variables) {
  const auto threads = spawn.settings.find("EVERSTEP_THREADS_PER_REPLICA");
  if (threads == spawn.settings.end()) return;
  if (context.native || !IsForeign(spawn) || context.inherited.count("OMP_NUM_THREADS") == 0) {
    (*variables)["OMP_NUM_THREADS"] = threads->second;
  }
  // Threads that spin while they wait take the core from the ones that work, on a full machine.
  variables->emplace("OMP_WAIT_POLICY", "passive");
}

}  // namespace

absl::Status CheckBaseline(const std::string& baseline, const std::string& processor) {
  if (Rank(processor) >= Rank(baseline)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this machine's processor has no ", baseline,
                   ", which the job's --cpu-baseline asks of every machine; give --cpu-baseline ",
                   processor == "avx2" ? "avx2" : "native", " or use another machine"));
}

absl::StatusOr<Variables> ChildEnvironment(const Spawn& spawn, const ChildContext& context) {
  Variables variables = context.inherited;
  for (const char* name : {"TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                           "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    variables.erase(name);
  }
  for (const auto& [name, value] : spawn.settings) variables[name] = value;
  variables["EVERSTEP_COORDINATOR"] = context.coordinator;
  variables["EVERSTEP_INCARNATION"] = absl::StrCat(spawn.incarnation);
  if (!context.job_directory.empty()) variables["EVERSTEP_JOB_DIR"] = context.job_directory;
  const auto directory = variables.find("EVERSTEP_JOB_DIR");
  variables["EVERSTEP_SECRET_FILE"] = !context.secret_file.empty() || directory == variables.end()
                                          ? context.secret_file
                                          : SecretPath(std::string(directory->second));

  ExemptFromProxies(HostsOf(spawn.cluster, context.coordinator), &variables);
  if (!spawn.cluster.jobs.empty()) {
    EV_RETURN_IF_ERROR(DescribeCluster(spawn, context, &variables));
  }
  EV_RETURN_IF_ERROR(ShareGpus(spawn, context, &variables));
  ChooseThreads(spawn, context, &variables);
  variables.emplace("PYTHONUNBUFFERED", "1");
  variables.emplace("PYTHONFAULTHANDLER", "1");
  if (IsOn(spawn.settings, "EVERSTEP_DEBUG_LIBS")) {
    variables.emplace("NCCL_DEBUG", "INFO");
    variables.emplace("TF_CPP_MIN_LOG_LEVEL", "0");
    variables.emplace("GRPC_VERBOSITY", "DEBUG");
    variables.emplace("ABSL_MIN_LOG_LEVEL", "0");
  }
  if (auto baseline = variables.find("EVERSTEP_CPU_BASELINE");
      baseline != variables.end() && baseline->second != "native") {
    EV_RETURN_IF_ERROR(CheckBaseline(baseline->second, context.processor));
    LowerToBaseline(std::string(baseline->second), &variables);
  }
  return variables;
}

}  // namespace everstep
