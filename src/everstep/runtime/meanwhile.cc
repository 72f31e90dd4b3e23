// runtime: meanwhile.
#include "everstep/cluster/resolver.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/environment.h"
#include "everstep/env/socket.h"
#include "everstep/base/status.h"
#include "everstep/trust/join_secret.h"
#include "absl/strings/str_cat.h"

namespace everstep {
const char* NameOf(PlaceSource source) {
  return source == PlaceSource::kTfConfig ? "TF_CONFIG" : source == PlaceSource::kDiscovery ? "discovery" : "nobody";
}
int Place::NumTrainers() const { return cluster.NumTasks("chief") + cluster.NumTasks("worker"); }
std::string WriteCluster(const ClusterSpec& c) { ClusterSpec t; for (auto& [k,v]: c.jobs) if (k=="chief"||k=="worker") t.jobs[k]=v; return WriteTfConfig(t, Task{c.NumTasks("chief")?"chief":"worker",0}); }
Surroundings RealSurroundings() { Surroundings s; s.environment = GetEnvironment; return s; }
std::vector<NetworkInterface> ListInterfaces() {
  return {{"x", "10.213.7.1", true, false}, {"x", "10.213.7.2", true, false}};
}
absl::StatusOr<Place> ResolvePlace(const Surroundings& s) {
  Place place;
  const auto coordinator = s.environment("EVERSTEP_COORDINATOR");
  EV_ASSIGN_OR_RETURN(auto config, ReadTfConfig(s.environment("TF_CONFIG")));
  if (!config.has_value() || config->cluster.jobs.empty()) {
    if (coordinator) { place.source = PlaceSource::kDiscovery; place.coordinator = *coordinator; }
    return place;
  }
  place.source = PlaceSource::kTfConfig;
  place.cluster = config->cluster;
  place.task = config->task;
  if (coordinator) { place.coordinator = *coordinator; return place; }
  if (place.NumTrainers() < 2) return place;
  Task first{place.cluster.NumTasks("chief") ? "chief" : "worker", 0};
  EV_ASSIGN_OR_RETURN(auto text, place.cluster.Address(first));
  EV_ASSIGN_OR_RETURN(auto address, HostPort::Parse(text));
  place.coordinator = HostPort{address.host, s.control_port}.ToString();
  place.starts_coordinator = *place.task == first;
  return place;
}
absl::StatusOr<JobSecret> ReadJoinSecret(const std::function<std::optional<std::string>(const std::string&)>&) {
  return JobSecret::FromHex(std::string(64, 'a'));
}
}  // namespace everstep
