// supervise: the environment of a process of the job.
#include "everstep/supervise/child_environment.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/status.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/socket.h"

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

// gRPC inside a program would send even the cluster's own traffic through a proxy.
void ExemptFromProxies(const std::set<std::string>& hosts, Variables* variables) {
  bool proxied = false;
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy"}) {
    proxied = proxied || variables->count(name) != 0;
  }
  if (!proxied || hosts.empty()) return;
  for (const char* name : {"no_proxy", "no_grpc_proxy"}) {
    if (std::string(name) == "no_grpc_proxy" && variables->count(name) == 0) continue;
    std::string& list = (*variables)[name];
    absl::StrAppend(&list, list.empty() ? "" : ",", absl::StrJoin(hosts, ","));
  }
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
  for (const char* name : {"TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    variables.erase(name);
  }
  for (const auto& [name, value] : spawn.settings) variables[name] = value;
  variables["EVERSTEP_COORDINATOR"] = context.coordinator;
  variables["EVERSTEP_INCARNATION"] = absl::StrCat(spawn.incarnation);
  variables["EVERSTEP_SECRET_FILE"] = context.secret_file;
  if (!context.job_directory.empty()) variables["EVERSTEP_JOB_DIR"] = context.job_directory;

  std::set<std::string> hosts;
  for (const auto& [type, addresses] : spawn.cluster.jobs) {
    for (const std::string& address : addresses) {
      if (auto parsed = HostPort::Parse(address); parsed.ok()) hosts.insert(parsed->host);
    }
  }
  ExemptFromProxies(hosts, &variables);
  if (!spawn.cluster.jobs.empty()) {
    variables["TF_CONFIG"] = WriteTfConfig(spawn.cluster, spawn.task);
    // Ranks as TensorFlow counts them: the chief, then the workers.
    const int chiefs = spawn.cluster.NumTasks("chief");
    const int trainers = chiefs + spawn.cluster.NumTasks("worker");
    const Task first{chiefs > 0 ? "chief" : "worker", 0};
    const absl::StatusOr<std::string> master = spawn.cluster.Address(first);
    if ((spawn.task.type == "chief" || spawn.task.type == "worker") && master.ok()) {
      EV_ASSIGN_OR_RETURN(const HostPort address, HostPort::Parse(*master));
      variables["RANK"] = absl::StrCat(spawn.task.type == "chief" ? 0 : chiefs + spawn.task.index);
      variables["WORLD_SIZE"] = absl::StrCat(trainers);
      variables["MASTER_ADDR"] = address.host;
      variables["MASTER_PORT"] = absl::StrCat(address.port);
    }
  }
  if (auto threads = spawn.settings.find("EVERSTEP_THREADS_PER_REPLICA");
      threads != spawn.settings.end()) {
    variables["OMP_NUM_THREADS"] = threads->second;
    // Threads that spin while they wait take the core from the ones that work, on a full machine.
    variables.emplace("OMP_WAIT_POLICY", "passive");
  }
  variables.emplace("PYTHONUNBUFFERED", "1");
  variables.emplace("PYTHONFAULTHANDLER", "1");
  if (auto baseline = variables.find("EVERSTEP_CPU_BASELINE");
      baseline != variables.end() && baseline->second != "native") {
    EV_RETURN_IF_ERROR(CheckBaseline(baseline->second, context.processor));
    LowerToBaseline(std::string(baseline->second), &variables);
  }
  return variables;
}

}  // namespace everstep
