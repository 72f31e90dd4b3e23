// cluster: what follows from a task's place.
#include "everstep/cluster/tf_config_roles.h"

#include <algorithm>

namespace everstep {

TfConfigRoles RolesOf(const TfConfig& config) {
  TfConfigRoles roles;
  const ClusterSpec& cluster = config.cluster;
  if (cluster.jobs.empty() || !config.task.has_value()) {
    roles.rank = 0;
    return roles;
  }
  const Task& task = *config.task;
  const int chiefs = cluster.NumTasks("chief");
  const Task first{chiefs > 0 ? "chief" : "worker", 0};
  if (task.type == "evaluator") {
    roles.rank = task.index;
    roles.count = std::max(1, cluster.NumTasks("evaluator"));
    return roles;
  }
  roles.is_chief = task == first;
  roles.count = config.NumTrainers();
  if (task.type != "ps") roles.rank = task.type == "chief" ? 0 : task.index + chiefs;
  roles.collective_leader = first;
  roles.coordination_leader = cluster.NumTasks("ps") > 0 ? Task{"ps", 0} : first;
  return roles;
}

}  // namespace everstep
