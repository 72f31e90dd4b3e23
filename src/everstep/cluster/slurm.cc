// cluster: the place of a process that srun started.
#include "everstep/cluster/slurm.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

constexpr char kProcId[] = "SLURM_PROCID";
constexpr char kNumTasks[] = "SLURM_STEP_NUM_TASKS";
constexpr char kNodeList[] = "SLURM_STEP_NODELIST";
constexpr char kTasksPerNode[] = "SLURM_STEP_TASKS_PER_NODE";
constexpr char kPortBase[] = "EVERSTEP_SLURM_PORT_BASE";
constexpr int kMost = static_cast<int>(kMaxSlurmHosts);

// Of the step: task r is task `local` of node `node`.
struct Seat {
  int node = 0;
  int local = 0;
};

struct Step {
  std::vector<std::string> nodes;
  std::vector<Seat> seats;  // by rank, block-wise
};

absl::StatusOr<std::string> Demand(const EnvironmentReader& environment, const std::string& name) {
  std::optional<std::string> text = ReadText(environment, name);
  if (text.has_value()) return *std::move(text);
  return Refuse("EV523", name, absl::StrCat("is not set, but ", kNumTasks, " is"),
                "start the processes with srun, which sets both");
}

absl::StatusOr<Step> ReadStep(const EnvironmentReader& environment, int num_tasks) {
  Step step;
  EV_ASSIGN_OR_RETURN(const std::string list, Demand(environment, kNodeList));
  EV_ASSIGN_OR_RETURN(step.nodes, ExpandSlurmHosts(list, kNodeList));
  EV_ASSIGN_OR_RETURN(const std::string per_node, Demand(environment, kTasksPerNode));
  EV_ASSIGN_OR_RETURN(const std::vector<int> tasks,
                      ExpandSlurmTasksPerNode(per_node, kTasksPerNode));
  std::set<std::string> seen;
  for (const std::string& node : step.nodes) {
    if (!seen.insert(node).second) {
      return Refuse("EV522", kNodeList, absl::StrCat("names ", node, " twice"),
                    "name each node once");
    }
  }
  if (tasks.size() != step.nodes.size()) {
    return Refuse("EV522", kTasksPerNode,
                  absl::StrCat("speaks of ", tasks.size(), " nodes, but ", kNodeList, " has ",
                               step.nodes.size()),
                  "start the processes with srun, which sets both");
  }
  for (size_t node = 0; node < tasks.size(); ++node) {
    for (int local = 0; local < tasks[node]; ++local) {
      step.seats.push_back({static_cast<int>(node), local});
    }
  }
  if (static_cast<int>(step.seats.size()) != num_tasks) {
    return Refuse("EV522", kTasksPerNode,
                  absl::StrCat("speaks of ", step.seats.size(), " tasks, but ", kNumTasks, " says ",
                               num_tasks),
                  "start the processes with srun, which sets both");
  }
  return step;
}

// What Slurm says of this process alone against where block order has it.
absl::Status CheckSeat(const EnvironmentReader& environment, const Step& step, int rank) {
  const Seat& seat = step.seats[rank];
  EV_ASSIGN_OR_RETURN(const std::optional<int> node,
                      ReadWhole(environment, "SLURM_NODEID", 0, kMost));
  EV_ASSIGN_OR_RETURN(const std::optional<int> local,
                      ReadWhole(environment, "SLURM_LOCALID", 0, kMost));
  const Seat said{node.value_or(seat.node), local.value_or(seat.local)};
  if (said.node != seat.node || said.local != seat.local) {
    return Refuse("EV524", kProcId,
                  absl::StrCat("task ", rank, " is number ", said.local, " on node ", said.node,
                               ", but ranks that fill one node after the other have it at number ",
                               seat.local, " on node ", seat.node,
                               "; where the other tasks are cannot be told"),
                  "start them with `srun -m block`");
  }
  const std::optional<std::string> name = ReadText(environment, "SLURMD_NODENAME");
  if (name.has_value() && *name != step.nodes[seat.node]) {
    return Refuse("EV525", "SLURMD_NODENAME",
                  absl::StrCat("this node is ", Quoted(*name), ", but by ", kNodeList, " task ",
                               rank, " is on ", step.nodes[seat.node]),
                  "start them with `srun -m block`, and without changing Slurm's variables");
  }
  return absl::OkStatus();
}

std::string SortNote(const std::vector<std::string>& nodes) {
  std::vector<std::string> sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (sorted[i] == nodes[i]) continue;
    return absl::StrCat("Slurm's node ", i, " is ", nodes[i],
                        "; TensorFlow's SlurmClusterResolver sorts names as text and would have ",
                        sorted[i], " there: use the TF_CONFIG made here instead of it");
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<ToldPlace>> ReadSlurmStep(const EnvironmentReader& environment) {
  EV_ASSIGN_OR_RETURN(const std::optional<int> num_tasks,
                      ReadWhole(environment, kNumTasks, 1, kMost));
  if (num_tasks.value_or(1) == 1) return std::optional<ToldPlace>();
  EV_RETURN_IF_ERROR(Demand(environment, kProcId).status());
  EV_ASSIGN_OR_RETURN(const std::optional<int> rank,
                      ReadWhole(environment, kProcId, 0, *num_tasks - 1));
  EV_ASSIGN_OR_RETURN(const Step step, ReadStep(environment, *num_tasks));
  EV_RETURN_IF_ERROR(CheckSeat(environment, step, *rank));
  EV_ASSIGN_OR_RETURN(const std::optional<int> said, ReadWhole(environment, kPortBase, 1, 65535));
  const int base = said.value_or(kSlurmPortBase);
  ToldPlace told;
  told.task = {"worker", *rank};
  std::vector<std::string>& workers = told.cluster.jobs["worker"];
  for (const Seat& seat : step.seats) {
    if (base + seat.local > 65535) {
      return Refuse("EV504", kPortBase,
                    absl::StrCat(base, " leaves no port for task ", seat.local, " of a node"),
                    absl::StrCat("set it to at most ", 65535 - seat.local));
    }
    workers.push_back(HostPort{step.nodes[seat.node], base + seat.local}.ToString());
  }
  if (std::string note = SortNote(step.nodes); !note.empty()) told.notes.push_back(std::move(note));
  return std::optional<ToldPlace>(std::move(told));
}

}  // namespace everstep
