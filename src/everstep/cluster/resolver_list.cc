// cluster: the place of a process whose cluster is a list of addresses in variables.
#include "everstep/cluster/resolver_list.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/base/status.h"
#include "everstep/cluster/tf_config_secret.h"
#include "everstep/env/resolve.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

constexpr char kWorkers[] = "EVERSTEP_CLUSTER_WORKERS";
constexpr char kChief[] = "EVERSTEP_CLUSTER_CHIEF";
constexpr char kTask[] = "EVERSTEP_TASK";

absl::Status ReadAddresses(const std::string& name, const std::string& text,
                           std::vector<std::string>* out) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::string address(absl::StripAsciiWhitespace(item));
    const absl::StatusOr<HostPort> parsed = HostPort::Parse(address);
    if (!parsed.ok() || parsed->port == 0) {
      return Refuse("EV510", absl::StrCat(name, "[", out->size(), "]"),
                    absl::StrCat(Shown(address),
                                 " is not HOST:PORT or [IPV6]:PORT with a port "
                                 "from 1 to 65535"),
                    "write e.g. 10.0.0.1:2222,10.0.0.2:2222");
    }
    out->push_back(parsed->ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckDistinct(const ClusterSpec& cluster) {
  std::map<std::string, Task> seen;
  for (const auto& [type, addresses] : cluster.jobs) {
    for (size_t i = 0; i < addresses.size(); ++i) {
      const Task task{type, static_cast<int>(i)};
      const auto [it, is_new] = seen.emplace(addresses[i], task);
      if (is_new) continue;
      return Refuse("EV511", type == "chief" ? kChief : kWorkers,
                    absl::StrCat(it->second.ToString(), " and ", task.ToString(), " are both at ",
                                 addresses[i]),
                    "give each task an address of its own");
    }
  }
  return absl::OkStatus();
}

// Equal texts for equal numeric addresses; names in small letters. Asks nobody.
std::string Canonical(const std::string& host) {
  if (host.find(':') != std::string::npos) {  // a number: never looked up
    const auto addresses = Resolve(host, 0, Deadline());
    if (addresses.ok()) return NumericHost(addresses->front());
  }
  return absl::AsciiStrToLower(host);
}

std::string FirstLabel(const std::string& name) { return name.substr(0, name.find('.')); }

bool IsThisHost(const std::string& host, const std::string& host_name,
                const std::vector<NetworkInterface>& interfaces) {
  const std::string wanted = Canonical(host);
  for (const NetworkInterface& one : interfaces) {
    if (Canonical(one.address) == wanted) return true;
    if (one.loopback && wanted == "localhost") return true;
  }
  // "n1" and "n1.cluster" are one host; "n1.a" and "n1.b" are two.
  const std::string mine = Canonical(host_name);
  if (mine == wanted) return true;
  const bool one_is_short = mine == FirstLabel(mine) || wanted == FirstLabel(wanted);
  return one_is_short && FirstLabel(mine) == FirstLabel(wanted);
}

absl::StatusOr<Task> FindOwnTask(const ClusterSpec& cluster, const std::string& host_name,
                                 const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> mine;
  Task task;
  for (const auto& [type, addresses] : cluster.jobs) {
    for (size_t i = 0; i < addresses.size(); ++i) {
      const absl::StatusOr<HostPort> address = HostPort::Parse(addresses[i]);
      if (!address.ok() || !IsThisHost(address->host, host_name, interfaces)) continue;
      task = {type, static_cast<int>(i)};
      mine.push_back(absl::StrCat(task.ToString(), " (", addresses[i], ")"));
    }
  }
  if (mine.size() == 1) return task;
  if (!mine.empty()) {
    return Refuse("EV513", kTask,
                  absl::StrCat("is not set, and several of the cluster's addresses are of this "
                               "host: ",
                               absl::StrJoin(mine, ", ")),
                  absl::StrCat("give each process its own, e.g. ", kTask, "=",
                               mine[0].substr(0, mine[0].find(' '))));
  }
  std::vector<std::string> names{host_name};
  for (const NetworkInterface& one : interfaces) {
    if (!one.loopback) names.push_back(one.address);
  }
  return Refuse("EV512", kTask,
                absl::StrCat("is not set, and none of the cluster's addresses is of this host (",
                             absl::StrJoin(names, ", "), ")"),
                absl::StrCat("set ", kTask, ", e.g. worker:1, or list this host's address"));
}

}  // namespace

absl::StatusOr<std::optional<Task>> ReadClaimedTask(const EnvironmentReader& environment) {
  const std::optional<std::string> text = ReadText(environment, kTask);
  if (!text.has_value()) return std::optional<Task>();
  absl::StatusOr<Task> task = Task::Parse(*text);
  const bool known = task.ok() && (task->type == "chief" || task->type == "worker" ||
                                   task->type == "ps" || task->type == "evaluator");
  if (!known) {
    return Refuse("EV505", kTask, absl::StrCat(Quoted(*text), " is not a task"),
                  "write it as type:index, e.g. worker:0");
  }
  return std::optional<Task>(*task);
}

absl::StatusOr<std::optional<ToldPlace>> ReadList(const EnvironmentReader& environment,
                                                  const std::string& host_name,
                                                  const std::vector<NetworkInterface>& interfaces) {
  const std::optional<std::string> workers = ReadText(environment, kWorkers);
  const std::optional<std::string> chief = ReadText(environment, kChief);
  if (!workers.has_value() && !chief.has_value()) return std::optional<ToldPlace>();
  ToldPlace told;
  auto& jobs = told.cluster.jobs;
  if (workers.has_value()) {
    EV_RETURN_IF_ERROR(ReadAddresses(kWorkers, *workers, &jobs["worker"]));
  }
  if (chief.has_value()) {
    EV_RETURN_IF_ERROR(ReadAddresses(kChief, *chief, &jobs["chief"]));
    if (jobs["chief"].size() > 1) {
      return Refuse("EV510", kChief, absl::StrCat("has ", jobs["chief"].size(), " addresses"),
                    "a cluster has one chief; list the others as workers");
    }
  }
  EV_RETURN_IF_ERROR(CheckDistinct(told.cluster));
  EV_ASSIGN_OR_RETURN(const std::optional<Task> claimed, ReadClaimedTask(environment));
  if (!claimed.has_value()) {
    EV_ASSIGN_OR_RETURN(told.task, FindOwnTask(told.cluster, host_name, interfaces));
    return std::optional<ToldPlace>(std::move(told));
  }
  const absl::Status there = told.cluster.Address(*claimed).status();
  if (!there.ok()) {
    return Refuse("EV505", kTask, absl::StrCat("is ", claimed->ToString(), ": ", there.message()),
                  absl::StrCat("name a task of ", workers.has_value() ? kWorkers : kChief,
                               ", counting from 0"));
  }
  told.task = *claimed;
  return std::optional<ToldPlace>(std::move(told));
}

}  // namespace everstep
