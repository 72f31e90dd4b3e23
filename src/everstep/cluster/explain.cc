// cluster: a place in a cluster in plain words.
#include "everstep/cluster/explain.h"

#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/tf_config_roles.h"

namespace everstep {
namespace {

constexpr int kMaxPeers = 20;  // of each type, in full

std::string Count(int count, std::string_view one) {
  return absl::StrCat(count, " ", ToAbsl(one), count == 1 ? "" : "s");
}

std::string AddressOf(const ClusterSpec& cluster, const Task& task) {
  return cluster.Address(task).value_or("an address that is not said");
}

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

class Explanation {
 public:
  Explanation(const TfConfig& config, StrategyKind strategy)
      : cluster_(config.cluster), roles_(RolesOf(config)), strategy_(strategy) {
    if (strategy_ == StrategyKind::kUnknown) {
      strategy_ = cluster_.NumTasks("ps") > 0 ? StrategyKind::kParameterServer
                                              : StrategyKind::kMultiWorkerMirrored;
    }
    if (config.task.has_value()) task_ = *config.task;
  }

  std::string Alone() {
    Say("This process is alone: there is no cluster. It trains by itself and saves.");
    Say("TensorFlow listens on no port and waits for nobody.");
    return text_;
  }

  std::string All() {
    Who();
    if (task_.type == "evaluator") {
      Evaluator();
    } else if (strategy_ == StrategyKind::kParameterServer) {
      ParameterServers();
    } else {
      Mirrored();
    }
    Peers();
    return text_;
  }

 private:
  void Say(const std::string& line) { absl::StrAppend(&text_, line, "\n"); }

  bool IsMe(const Task& task) const { return task == task_; }

  // "worker:0 at a:1", "this process".
  std::string Name(const Task& task) const {
    if (IsMe(task)) return "this process";
    return absl::StrCat(task.ToString(), " at ", AddressOf(cluster_, task));
  }

  void Who() {
    std::string line = absl::StrCat("This process is ", task_.ToString());
    const auto address = cluster_.Address(task_);
    if (address.ok()) absl::StrAppend(&line, " at ", *address);
    const bool ranked = strategy_ != StrategyKind::kParameterServer && roles_.rank.has_value() &&
                        task_.type != "evaluator";
    if (ranked) {
      absl::StrAppend(&line, ", rank ", *roles_.rank, " of ", Count(roles_.count, "trainer"));
    }
    Say(absl::StrCat(line, "."));
  }

  void Binds() {
    const auto address = cluster_.Address(task_);
    if (!address.ok()) return;
    Say(absl::StrCat("TensorFlow listens on 0.0.0.0:", PortOf(*address),
                     " here (all interfaces, without TLS); the others connect to ", *address, "."));
  }

  void Evaluator() {
    Say("It stands apart: it takes no part in training, and reads the checkpoints that the chief "
        "saves.");
    Say("For TensorFlow it is its own chief: it writes its own results and waits for nobody.");
  }

  void Mirrored() {
    const Task first = *roles_.collective_leader;
    Say(absl::StrCat("The chief is ", Name(first),
                     cluster_.NumTasks("chief") == 0 ? " (no chief is named: worker 0 is it)" : "",
                     "; it saves checkpoints and writes summaries."));
    if (!roles_.is_chief) {
      Say("This process must save when the chief does, but elsewhere, to be thrown away.");
    }
    Say(absl::StrCat("The leader of the collectives is ", Name(first),
                     "; the coordination leader is ", Name(*roles_.coordination_leader), "."));
    Binds();
    if (roles_.count > 1) {
      Say(absl::StrCat("At the start of the strategy it waits until all ", roles_.count,
                       " trainers are there; in each step all wait for the slowest."));
    } else {
      Say("It is the only trainer and waits for nobody.");
    }
  }

  void ParameterServers() {
    const bool coordinates = task_.type == "chief";
    if (cluster_.NumTasks("chief") > 0) {
      Say(absl::StrCat("The coordinator is ", Name({"chief", 0}),
                       ": it runs the training program, gives the steps out, and saves."));
    } else {
      Say("No chief is named: TensorFlow adds one at localhost, in the process that makes the "
          "strategy.");
    }
    if (coordinates) {
      Say(absl::StrCat("It does not compute steps: it connects to ",
                       Count(cluster_.NumTasks("worker"), "worker"), " and ",
                       cluster_.NumTasks("ps"), " ps, and tries for about three minutes."));
    } else if (task_.type == "worker") {
      Say("It runs tf.distribute.Server and computes the steps that the coordinator gives it.");
    } else {
      Say("It runs tf.distribute.Server and holds its part of the variables; when it is lost, the "
          "coordinator must start anew from a checkpoint.");
    }
    Binds();
    if (cluster_.NumTasks("ps") > 0 && !coordinates)
      Say("The server never returns; end it from outside.");
  }

  void Peers() {
    Say("The cluster:");
    for (const char* type : {"chief", "worker", "ps", "evaluator"}) {
      const int count = cluster_.NumTasks(type);
      for (int i = 0; i < count && i < kMaxPeers; ++i) {
        const Task task{type, i};
        Say(absl::StrCat("  ", task.ToString(), " at ", AddressOf(cluster_, task),
                         IsMe(task) ? " (this process)" : ""));
      }
      if (count > kMaxPeers) Say(absl::StrCat("  and ", count - kMaxPeers, " more of ", type));
    }
  }

  const ClusterSpec& cluster_;
  const TfConfigRoles roles_;
  StrategyKind strategy_;
  Task task_;
  std::string text_;
};

}  // namespace

std::string ExplainPlace(const TfConfig& config, StrategyKind strategy) {
  Explanation explanation(config, strategy);
  return config.cluster.jobs.empty() || !config.task.has_value() ? explanation.Alone()
                                                                 : explanation.All();
}

}  // namespace everstep
