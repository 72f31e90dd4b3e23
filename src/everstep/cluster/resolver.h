// cluster: which place in which cluster this process has, from whoever says so: TF_CONFIG, a static
// list, Slurm, Kubernetes, or the coordinator (discovery).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/task.h"
#include "everstep/env/interface.h"

namespace everstep {

enum class PlaceSource {
  kAlone,     // nobody says anything: a job of one process
  kTfConfig,  // TF_CONFIG
  kList,   // EVERSTEP_CLUSTER_WORKERS (and _CHIEF) with EVERSTEP_TASK, or one of its addresses is
           // this host's
  kSlurm,  // SLURM_STEP_*, under srun
  kKubernetes,  // JOB_COMPLETION_INDEX with EVERSTEP_CLUSTER_SIZE
  kDiscovery,   // EVERSTEP_COORDINATOR alone: the coordinator says
};
const char* NameOf(PlaceSource source);  // "TF_CONFIG", "Slurm", ...

struct Place {
  PlaceSource source = PlaceSource::kAlone;
  ClusterSpec cluster;       // as in this process's TF_CONFIG; empty: alone, or discovery
  std::optional<Task> task;  // always there when the cluster is not empty; with discovery
                             // the task that this process claims: EVERSTEP_TASK, or that of a
                             // TF_CONFIG without a cluster
  // "host:port", IPv6 in brackets: EVERSTEP_COORDINATOR, else where chief:0 or worker:0 is, with
  // the control port. Empty: alone, or a cluster of at most one trainer for which nobody named one.
  std::string coordinator;
  bool starts_coordinator = false;  // nobody named a coordinator, and it belongs to this task
  std::vector<std::string> notes;   // for people, one line each

  int NumTrainers() const;  // chief and workers
};

struct Surroundings {
  std::function<std::optional<std::string>(const std::string&)> environment;
  std::string host_name;   // as gethostname(2) says
  std::string hosts_file;  // the text of /etc/hosts
  std::vector<NetworkInterface> interfaces;
  int control_port =
      29700;  // of a coordinator that nobody named, unless EVERSTEP_PORT says another
};
Surroundings RealSurroundings();

// EVERSTEP_RESOLVER=auto|tf_config|list|slurm|kubernetes|discovery|alone chooses (auto: the first
// of them, in this order, that has something to say; Slurm and Kubernetes only for more than one
// task, Kubernetes without a size only where nobody named a coordinator). Which of the tasks train,
// and whether a ps or an evaluator can be this program, is the caller's to judge. Errors:
// kInvalidArgument with exit code 78, naming the variable and the cure. A cluster of several
// trainers, or one without any, never comes back as kAlone.
absl::StatusOr<Place> ResolvePlace(const Surroundings& surroundings);

}  // namespace everstep
