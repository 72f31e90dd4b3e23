// cluster: what must hold for the cluster and the task of a TF_CONFIG.
#include "everstep/cluster/tf_config_rules.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "everstep/cluster/tf_config_address.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

constexpr char kOwnEvaluator[] = "add \"evaluator\": [\"host:port\"] to this process's cluster";

int CountOf(const TfConfigParts& parts, std::string_view type) {
  const JobAt* job = parts.Find(type);
  return job == nullptr ? 0 : static_cast<int>(job->tasks.size());
}

void CheckCounts(const TfConfigParts& parts, FindingList* findings) {
  bool any = false;
  for (const JobAt& job : parts.jobs) any = any || job.broken || !job.tasks.empty();
  if (!any && !parts.jobs.empty() && !parts.has_strangers) {
    findings->Add("EV115", "cluster", parts.jobs[0].offset, "has no task at all",
                  "name the tasks, or leave the cluster out for a process alone");
    return;
  }
  for (const JobAt& job : parts.jobs) {
    const std::string where = absl::StrCat("cluster.", job.type);
    const bool leads = job.type == "chief" || job.type == "ps";
    if (job.tasks.empty() && !job.broken) {
      findings->Add(
          leads ? "EV114" : "EV113", where, job.offset,
          leads ? "has no task, yet TensorFlow makes its first one the leader" : "has no task",
          absl::StrCat("leave ", job.type, " out"));
    }
    if (job.tasks.size() > 1 && (job.type == "chief" || job.type == "evaluator")) {
      findings->Add("EV310", where, job.tasks[1].offset,
                    absl::StrCat("has ", job.tasks.size(), " tasks, but there can be only one"),
                    "make the others workers");
    }
  }
}

void CheckTask(const TfConfigParts& parts, FindingList* findings) {
  if (parts.jobs.empty()) {
    if (parts.task.has_value() && !parts.has_strangers) {
      findings->Add("EV320", "task", parts.task_offset,
                    absl::StrCat("is ", parts.task->ToString(),
                                 ", but there is no cluster: TensorFlow takes this process for one "
                                 "alone"),
                    "add the cluster");
    }
    return;
  }
  if (!parts.has_task) {
    findings->Add(
        "EV301", "TF_CONFIG", parts.top, "has a cluster but no task",
        "add \"task\": {\"type\": \"worker\", \"index\": 0}, with this process's own index");
    return;
  }
  if (!parts.task.has_value()) return;
  const Task& task = *parts.task;
  const JobAt* job = parts.Find(task.type);
  if (job == nullptr) {
    if (task.type == "evaluator") return;
    findings->Add(
        "EV305", "task.type", parts.task_offset, absl::StrCat("the cluster has no ", task.type),
        absl::StrCat("add \"", task.type, "\" to the cluster, or name a type that it has"));
    return;
  }
  const int count = static_cast<int>(job->tasks.size());
  if (job->broken || task.index < count) return;
  findings->Add(
      "EV305", "task.index", parts.index_offset,
      count == 0   ? absl::StrCat("index ", task.index, ", but ", task.type, " has no tasks")
      : count == 1 ? absl::StrCat("index ", task.index, ", but ", task.type, " has 1 task (0)")
                   : absl::StrCat("index ", task.index, ", but ", task.type, " has ", count,
                                  " tasks (0 to ", count - 1, ")"),
      "give each process its own index");
}

void CheckEvaluator(const TfConfigParts& parts, StrategyKind strategy, FindingList* findings) {
  if (parts.jobs.empty() || !parts.task.has_value()) return;
  const JobAt* evaluator = parts.Find("evaluator");
  const bool ps_job = strategy == StrategyKind::kParameterServer;
  if (parts.task->type == "evaluator") {
    if (evaluator != nullptr) return;
    const bool mirrored = strategy == StrategyKind::kMultiWorkerMirrored;
    findings->Add(mirrored ? "EV314" : "EV313", "task", parts.task_offset,
                  "is the evaluator, which its own cluster does not name", kOwnEvaluator);
    return;
  }
  if (evaluator == nullptr || evaluator->tasks.empty()) return;
  findings->Add(ps_job ? "EV312" : "EV311", "cluster.evaluator", evaluator->offset,
                ps_job ? "the coordinator would connect to the evaluator, which runs no server"
                       : "the evaluator takes no part in training, but health checks reach for it",
                "leave it out here, and name it in the evaluator's own cluster only");
}

void CheckStrategy(const TfConfigParts& parts, StrategyKind strategy, FindingList* findings) {
  const JobAt* ps = parts.Find("ps");
  const bool evaluator = parts.task.has_value() && parts.task->type == "evaluator";
  if (parts.jobs.empty()) return;
  if (strategy == StrategyKind::kMultiWorkerMirrored) {
    if (ps == nullptr) return;
    findings->Add("EV315", "cluster.ps", ps->offset,
                  "MultiWorkerMirroredStrategy would wait for ps:0, which takes no part in it",
                  "leave ps out, or use ParameterServerStrategy");
    return;
  }
  if (evaluator || parts.has_strangers) return;
  const bool no_chief = parts.Find("chief") == nullptr;
  if (strategy == StrategyKind::kUnknown) {
    if (ps == nullptr || !no_chief) return;
    findings->Add("EV319", "cluster.ps", ps->offset,
                  "parameter servers, but no chief: TensorFlow would add one at localhost",
                  "add \"chief\": [\"host:port\"]");
    return;
  }
  const size_t at = parts.jobs[0].offset;
  if (no_chief) {
    findings->Add("EV316", "cluster", at,
                  "a parameter-server job without chief: TensorFlow would add one at localhost",
                  "add \"chief\": [\"host:port\"]");
  }
  if (parts.Find("worker") == nullptr || CountOf(parts, "worker") == 0) {
    findings->Add("EV317", "cluster", at, "a parameter-server job without workers",
                  "add \"worker\"");
  }
  if (ps == nullptr) {
    findings->Add("EV318", "cluster", at, "a parameter-server job without ps",
                  "add \"ps\", or use MultiWorkerMirroredStrategy");
  }
}

}  // namespace

void CheckAddresses(const TfConfigParts& parts, FindingList* findings) {
  std::unordered_map<std::string, const AddressAt*> seen;
  const AddressAt *first_loopback = nullptr, *first_other = nullptr;
  for (const JobAt& job : parts.jobs) {
    for (const AddressAt& address : job.tasks) {
      if (!address.is_text) continue;
      const CheckedAddress checked = CheckAddress(address.text);
      if (!checked.problem.code.empty()) {
        findings->Add(checked.problem.code, address.where, address.offset, checked.problem.what,
                      checked.problem.cure);
        continue;
      }
      const auto [other, is_new] = seen.emplace(checked.identity, &address);
      if (!is_new) {
        findings->Add("EV211", address.where, address.offset,
                      absl::StrCat(Shown(address.text), " is ", other->second->where, " already"),
                      "give each task an address of its own");
      }
      const AddressAt*& first = checked.loopback ? first_loopback : first_other;
      if (first == nullptr) first = &address;
    }
  }
  if (first_loopback == nullptr || first_other == nullptr) return;
  findings->Add("EV212", first_loopback->where, first_loopback->offset,
                absl::StrCat(Shown(first_loopback->text), " is this host for every host, but ",
                             first_other->where, " is on another one"),
                "write the name by which all the others reach that host");
}

void CheckRoles(const TfConfigParts& parts, StrategyKind strategy, FindingList* findings) {
  CheckCounts(parts, findings);
  CheckTask(parts, findings);
  CheckEvaluator(parts, strategy, findings);
  CheckStrategy(parts, strategy, findings);
}

}  // namespace everstep
