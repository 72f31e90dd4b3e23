// cluster: which place in which cluster this process has.
#include "everstep/cluster/resolver.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/cluster/kubernetes.h"
#include "everstep/cluster/resolver_list.h"
#include "everstep/cluster/resolver_parts.h"
#include "everstep/cluster/slurm.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/cluster/tf_config_secret.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

constexpr char kResolver[] = "EVERSTEP_RESOLVER";
constexpr char kCoordinator[] = "EVERSTEP_COORDINATOR";
constexpr char kTask[] = "EVERSTEP_TASK";
constexpr char kSize[] = "EVERSTEP_CLUSTER_SIZE";

struct Source {
  PlaceSource source;
  const char* word;   // of EVERSTEP_RESOLVER
  const char* name;   // for people
  const char* needs;  // what must be set for it
};

// In the order in which auto asks them.
constexpr std::array<Source, 6> kSources = {{
    {PlaceSource::kTfConfig, "tf_config", "TF_CONFIG", "TF_CONFIG, with a cluster in it"},
    {PlaceSource::kList, "list", "EVERSTEP_CLUSTER_WORKERS",
     "EVERSTEP_CLUSTER_WORKERS (h1:port,h2:port,...) or EVERSTEP_CLUSTER_CHIEF"},
    {PlaceSource::kSlurm, "slurm", "Slurm", "SLURM_STEP_NUM_TASKS, as srun does"},
    {PlaceSource::kKubernetes, "kubernetes", "Kubernetes",
     "JOB_COMPLETION_INDEX, as Kubernetes does for `completionMode: Indexed`"},
    {PlaceSource::kDiscovery, "discovery", "the coordinator", "EVERSTEP_COORDINATOR (host:port)"},
    {PlaceSource::kAlone, "alone", "nobody", "nothing"},
}};

const Source& SourceOf(PlaceSource source) {
  for (const Source& one : kSources) {
    if (one.source == source) return one;
  }
  return kSources.back();
}

// Nothing: auto.
absl::StatusOr<std::optional<PlaceSource>> ReadChoice(const EnvironmentReader& environment) {
  const std::optional<std::string> text = ReadText(environment, kResolver);
  if (!text.has_value() || *text == "auto") return std::optional<PlaceSource>();
  for (const Source& one : kSources) {
    if (*text == one.word) return std::optional<PlaceSource>(one.source);
  }
  return Refuse("EV501", kResolver, absl::StrCat(Quoted(*text), " is no resolver"),
                "set it to auto, tf_config, list, slurm, kubernetes, discovery or alone");
}

absl::StatusOr<std::optional<ToldPlace>> ReadTold(const EnvironmentReader& environment) {
  EV_ASSIGN_OR_RETURN(const std::optional<TfConfig> config, ReadTfConfig(environment("TF_CONFIG")));
  if (!config.has_value() || config->cluster.jobs.empty()) return std::optional<ToldPlace>();
  if (!config->task.has_value()) return absl::InternalError("TF_CONFIG: a cluster without a task");
  return std::optional<ToldPlace>(ToldPlace{config->cluster, *config->task, {}});
}

absl::StatusOr<std::optional<ToldPlace>> Ask(PlaceSource source, const Surroundings& around) {
  switch (source) {
    case PlaceSource::kTfConfig:
      return ReadTold(around.environment);
    case PlaceSource::kList:
      return ReadList(around.environment, around.host_name, around.interfaces);
    case PlaceSource::kSlurm:
      return ReadSlurmStep(around.environment);
    case PlaceSource::kKubernetes:
      return ReadIndexedJob(around.environment, around.host_name, around.hosts_file);
    case PlaceSource::kDiscovery:
    case PlaceSource::kAlone:
      break;
  }
  return std::optional<ToldPlace>();
}

void Take(PlaceSource source, ToldPlace told, Place* place) {
  place->source = source;
  place->cluster = std::move(told.cluster);
  place->task = told.task;
  place->notes = std::move(told.notes);
}

// Empty: nobody named one.
absl::StatusOr<std::string> ReadCoordinator(const EnvironmentReader& environment) {
  const std::optional<std::string> text = ReadText(environment, kCoordinator);
  if (!text.has_value()) return std::string();
  const absl::StatusOr<HostPort> address = HostPort::Parse(*text);
  if (address.ok() && address->port > 0) return address->ToString();
  return Refuse("EV503", kCoordinator,
                absl::StrCat(Shown(*text),
                             " is not HOST:PORT or [IPV6]:PORT with a port from 1 "
                             "to 65535"),
                "set it to where the coordinator listens, e.g. 10.0.0.1:29700");
}

// The cluster's own tasks first: the coordinator lives where the task that leads does.
absl::Status AddCoordinator(const Surroundings& around, const std::string& named, Place* place) {
  if (!named.empty()) {
    place->coordinator = named;
    return absl::OkStatus();
  }
  if (place->NumTrainers() < 2) return absl::OkStatus();
  EV_ASSIGN_OR_RETURN(const std::optional<int> port,
                      ReadWhole(around.environment, "EVERSTEP_PORT", 1, 65535));
  const Task leader{place->cluster.NumTasks("chief") > 0 ? "chief" : "worker", 0};
  EV_ASSIGN_OR_RETURN(const std::string address, place->cluster.Address(leader));
  EV_ASSIGN_OR_RETURN(const HostPort parsed, HostPort::Parse(address));
  place->coordinator = HostPort{parsed.host, port.value_or(around.control_port)}.ToString();
  place->starts_coordinator = place->task == leader;
  return absl::OkStatus();
}

// EVERSTEP_TASK beside a place that somebody else told.
absl::Status CheckClaim(const EnvironmentReader& environment, const Place& place) {
  EV_ASSIGN_OR_RETURN(const std::optional<Task> claimed, ReadClaimedTask(environment));
  if (!claimed.has_value() || *claimed == place.task) return absl::OkStatus();
  return Refuse("EV505", kTask,
                absl::StrCat("is ", claimed->ToString(), ", but by ", NameOf(place.source),
                             " this process is ", place.task->ToString()),
                absl::StrCat("unset ", kTask, ", or choose with ", kResolver));
}

// A TF_CONFIG without a cluster may name a task all the same.
absl::StatusOr<std::optional<Task>> TaskWithoutCluster(const EnvironmentReader& environment) {
  EV_ASSIGN_OR_RETURN(const std::optional<TfConfig> config, ReadTfConfig(environment("TF_CONFIG")));
  if (!config.has_value() || !config->cluster.jobs.empty()) return std::optional<Task>();
  return config->task;
}

// Something says that this process is one of several, and nothing says where the others are.
absl::Status RefuseToBeAlone(const EnvironmentReader& environment) {
  const auto refuse = [](const char* where, const std::string& what, const std::string& cure) {
    return Refuse("EV507", where, absl::StrCat(what, ": this process would train alone"), cure);
  };
  const std::string anyway = absl::StrCat("; ", kResolver, "=alone if that is meant");
  for (const char* name : {"EVERSTEP_WORKERS", kSize}) {
    EV_ASSIGN_OR_RETURN(const std::optional<int> number, ReadWhole(environment, name, 1, 1000000));
    if (number.value_or(1) == 1) continue;
    return refuse(name, absl::StrCat("is ", *number, ", but nothing says where the others are"),
                  absl::StrCat("set EVERSTEP_COORDINATOR, TF_CONFIG or EVERSTEP_CLUSTER_WORKERS",
                               name == kSize ? ", or JOB_COMPLETION_INDEX as an Indexed Job does"
                                             : ", or start the job by `everstep run`",
                               anyway));
  }
  if (const auto text = environment(kCoordinator); text.has_value()) {
    return refuse(kCoordinator, "is set but says nothing",
                  absl::StrCat("set it to HOST:PORT, or unset it", anyway));
  }
  const absl::StatusOr<std::optional<int>> rank =
      ReadWhole(environment, "SLURM_PROCID", 0, 1000000);
  const bool ranked = rank.ok() && rank->value_or(0) > 0;
  const bool half = ReadText(environment, "SLURM_STEP_NODELIST").has_value() &&
                    !ReadText(environment, "SLURM_STEP_NUM_TASKS").has_value();
  if (!ranked && !half) return absl::OkStatus();
  return refuse(ranked ? "SLURM_PROCID" : "SLURM_STEP_NODELIST",
                "is that of a step of several tasks, but SLURM_STEP_NUM_TASKS does not say so",
                absl::StrCat("start it by srun, which sets them all", anyway));
}

// Nobody told a cluster: the coordinator will, or this is a job of one process.
absl::StatusOr<Place> PlaceWithoutCluster(const EnvironmentReader& environment,
                                          const std::string& coordinator, bool reads_tf_config,
                                          Place place) {
  EV_ASSIGN_OR_RETURN(const std::optional<Task> claimed, ReadClaimedTask(environment));
  std::optional<Task> bare;
  if (reads_tf_config) {
    EV_ASSIGN_OR_RETURN(bare, TaskWithoutCluster(environment));
  }
  if (!coordinator.empty()) {
    place.source = PlaceSource::kDiscovery;
    place.coordinator = coordinator;
    place.task = claimed.has_value() ? claimed : bare;
    return place;
  }
  if (claimed.has_value()) {
    return Refuse("EV506", kTask,
                  absl::StrCat("is ", claimed->ToString(),
                               ", but nothing says of which cluster: "
                               "this process would train alone"),
                  "set EVERSTEP_CLUSTER_WORKERS, TF_CONFIG or EVERSTEP_COORDINATOR; or unset "
                  "EVERSTEP_TASK");
  }
  if (bare.has_value()) {
    return Refuse("EV506", "TF_CONFIG, task",
                  absl::StrCat("is ", bare->ToString(),
                               ", but nothing says of which cluster: this process would train "
                               "alone"),
                  "add the cluster to it, or set EVERSTEP_COORDINATOR; or unset TF_CONFIG");
  }
  EV_RETURN_IF_ERROR(RefuseToBeAlone(environment));
  const absl::StatusOr<std::optional<int>> tasks =
      ReadWhole(environment, "SLURM_NTASKS", 2, 1000000);
  if (tasks.ok() && tasks->has_value() && !environment("SLURM_STEP_NUM_TASKS").has_value()) {
    place.notes.push_back(absl::StrCat("SLURM_NTASKS is ", **tasks,
                                       ", but srun did not start this process: it trains alone"));
  }
  return place;
}

// With an index alone, whoever named a coordinator learns the rest from it.
bool LeavesToCoordinator(PlaceSource source, const EnvironmentReader& environment,
                         const std::string& coordinator) {
  return source == PlaceSource::kKubernetes && !coordinator.empty() &&
         !ReadText(environment, kSize).has_value();
}

absl::Status NothingSaid(PlaceSource source) {
  const Source& chosen = SourceOf(source);
  return Refuse("EV502", kResolver,
                absl::StrCat("is ", chosen.word, ", but ", chosen.name, " says nothing"),
                absl::StrCat("set ", chosen.needs, ", or set ", kResolver, " to auto"));
}

// Whether there is something to read, though it may name one task only.
bool HasVariable(PlaceSource source, const EnvironmentReader& environment) {
  if (source == PlaceSource::kSlurm) {
    return ReadText(environment, "SLURM_STEP_NUM_TASKS").has_value();
  }
  return source == PlaceSource::kKubernetes &&
         ReadText(environment, "JOB_COMPLETION_INDEX").has_value();
}

}  // namespace

const char* NameOf(PlaceSource source) { return SourceOf(source).name; }

int Place::NumTrainers() const { return cluster.NumTasks("chief") + cluster.NumTasks("worker"); }

Surroundings RealSurroundings() {
  Surroundings around;
  around.environment = GetEnvironment;
  around.host_name = HostName();
  around.hosts_file = ReadWholeFile(RealFileSystem(), "/etc/hosts").value_or("");
  around.interfaces = ListInterfaces();
  return around;
}

absl::StatusOr<Place> ResolvePlace(const Surroundings& around) {
  const EnvironmentReader& environment = around.environment;
  EV_ASSIGN_OR_RETURN(const std::optional<PlaceSource> choice, ReadChoice(environment));
  Place place;
  if (choice == PlaceSource::kAlone) {
    if (ReadText(environment, kCoordinator).has_value()) {
      place.notes.push_back(absl::StrCat(kResolver, " is alone: ", kCoordinator, " is not used"));
    }
    return place;
  }
  EV_ASSIGN_OR_RETURN(const std::string coordinator, ReadCoordinator(environment));
  for (const Source& one : kSources) {
    if (choice.has_value() && one.source != *choice) continue;
    if (!choice.has_value() && LeavesToCoordinator(one.source, environment, coordinator)) continue;
    EV_ASSIGN_OR_RETURN(std::optional<ToldPlace> told, Ask(one.source, around));
    if (!told.has_value()) continue;
    Take(one.source, *std::move(told), &place);
    EV_RETURN_IF_ERROR(CheckClaim(environment, place));
    EV_RETURN_IF_ERROR(AddCoordinator(around, coordinator, &place));
    if (place.NumTrainers() == 0) {
      place.notes.push_back(absl::StrCat("the cluster of ", NameOf(place.source),
                                         " has no chief and no worker: nobody trains in it"));
    }
    return place;
  }
  const bool said = choice == PlaceSource::kDiscovery
                        ? !coordinator.empty()
                        : !choice.has_value() || HasVariable(*choice, environment);
  if (!said) return NothingSaid(*choice);
  return PlaceWithoutCluster(environment, coordinator, !choice.has_value(), std::move(place));
}

}  // namespace everstep
