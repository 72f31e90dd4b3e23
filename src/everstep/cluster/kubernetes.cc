// cluster: the place of a pod of an Indexed Job.
#include "everstep/cluster/kubernetes.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

constexpr char kIndex[] = "JOB_COMPLETION_INDEX";
constexpr char kSize[] = "EVERSTEP_CLUSTER_SIZE";
constexpr char kService[] = "EVERSTEP_SERVICE";
constexpr int kMostPods = 100000;  // of Kubernetes, for an Indexed Job

bool IsLabel(const std::string& text) {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

// "train.ns.svc" of the line "10.1.2.3  train-0.train.ns.svc.cluster.local  train-0"; empty: no
// line of the pod's own has a service.
std::string ServiceInHostsFile(const std::string& hosts_file, const std::string& host_name) {
  for (const absl::string_view line : absl::StrSplit(hosts_file, '\n')) {
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    for (size_t i = 1; i < words.size(); ++i) {
      const std::vector<std::string> labels = absl::StrSplit(words[i], '.');
      if (labels.size() >= 4 && labels[0] == host_name && labels[3] == "svc" &&
          IsLabel(labels[1]) && IsLabel(labels[2])) {
        return absl::StrCat(labels[1], ".", labels[2], ".svc");
      }
    }
  }
  return "";
}

absl::StatusOr<std::string> FindService(const EnvironmentReader& environment,
                                        const std::string& host_name,
                                        const std::string& hosts_file) {
  const std::optional<std::string> said = ReadText(environment, kService);
  if (!said.has_value()) {
    std::string found = ServiceInHostsFile(hosts_file, host_name);
    if (!found.empty()) return found;
    return Refuse("EV533", kService,
                  absl::StrCat("is not set, and /etc/hosts has no line of ", host_name,
                               ".<service>.<namespace>.svc: without a Service the pods have no "
                               "names by which to find each other"),
                  "give the pod template `subdomain:` with the name of a headless Service, or set "
                  "EVERSTEP_SERVICE to <service>.<namespace>");
  }
  const std::vector<std::string> labels = absl::StrSplit(*said, '.');
  bool right = labels.size() <= 2 || (labels.size() == 3 && labels[2] == "svc");
  for (const std::string& label : labels) right = right && IsLabel(label);
  if (!right) {
    return Refuse("EV533", kService, absl::StrCat(Quoted(*said), " is not a Service's name"),
                  "write <service> or <service>.<namespace>, without the cluster's domain");
  }
  return labels.size() == 2 ? absl::StrCat(*said, ".svc") : *said;
}

absl::StatusOr<std::string> JobName(const std::string& host_name, int index) {
  const std::string ending = absl::StrCat("-", index);
  const std::string name = host_name.substr(0, host_name.find('.'));
  if (name.size() > ending.size() && absl::EndsWith(name, ending)) {
    return name.substr(0, name.size() - ending.size());
  }
  return Refuse("EV532", kIndex,
                absl::StrCat("is ", index, ", but the host name ", Quoted(host_name),
                             " does not end in ", Quoted(ending),
                             ", as that of a pod of an "
                             "Indexed Job does"),
                "set neither `hostname:` nor `hostNetwork:` in the pod template nor "
                "JOB_COMPLETION_INDEX by hand, or say the cluster with TF_CONFIG");
}

}  // namespace

absl::StatusOr<std::optional<ToldPlace>> ReadIndexedJob(const EnvironmentReader& environment,
                                                        const std::string& host_name,
                                                        const std::string& hosts_file) {
  const std::optional<std::string> index_text = ReadText(environment, kIndex);
  if (!index_text.has_value()) return std::optional<ToldPlace>();
  const absl::StatusOr<std::optional<int>> index = ReadWhole(environment, kIndex, 0, kMostPods - 1);
  if (!index.ok()) {
    return Refuse("EV530", kIndex, absl::StrCat(Quoted(*index_text), " is not an index"),
                  "leave it as Kubernetes sets it");
  }
  EV_ASSIGN_OR_RETURN(const std::optional<int> size, ReadWhole(environment, kSize, 1, kMostPods));
  if (!size.has_value()) {
    return Refuse("EV531", kSize,
                  absl::StrCat("is not set, but ", kIndex, " is ", **index,
                               ": this pod has others beside it, and Kubernetes does not tell how "
                               "many; it would train alone"),
                  "set it to the Job's `completions`; or EVERSTEP_RESOLVER=alone, if each pod is "
                  "to train alone");
  }
  if (**index >= *size) {
    return Refuse("EV530", kIndex,
                  absl::StrCat("is ", **index, ", but ", kSize, " is ", *size, " (indices 0 to ",
                               *size - 1, ")"),
                  absl::StrCat("set ", kSize, " to the Job's `completions`"));
  }
  if (*size == 1) return std::optional<ToldPlace>();
  EV_ASSIGN_OR_RETURN(const std::string job, JobName(host_name, **index));
  const std::string short_name = host_name.substr(0, host_name.find('.'));
  EV_ASSIGN_OR_RETURN(const std::string service, FindService(environment, short_name, hosts_file));
  EV_ASSIGN_OR_RETURN(const std::optional<int> port,
                      ReadWhole(environment, "EVERSTEP_CLUSTER_PORT", 1, 65535));
  ToldPlace told;
  told.task = {"worker", **index};
  for (int i = 0; i < *size; ++i) {
    told.cluster.jobs["worker"].push_back(
        absl::StrCat(job, "-", i, ".", service, ":", port.value_or(kKubernetesPort)));
  }
  return std::optional<ToldPlace>(std::move(told));
}

}  // namespace everstep
