// tests: what we make of TF_CONFIGs: one JSON text a line on standard input (a string, "..."), one
// line of JSON a text on standard output: {"codes": [...], "messages": [...]} and, unless it is
// refused, "tasks", "rank", "chief" and "leader" with the meaning of TensorFlow's
// multi_worker_util.
#include <iostream>
#include <string>

#include "everstep/cluster/tf_config.h"
#include "everstep/cluster/tf_config_roles.h"
#include "nlohmann/json.hpp"

namespace {

using everstep::TfConfig;
using Json = nlohmann::json;

void AddFacts(const TfConfig& config, Json* facts) {
  Json& out = *facts;
  out["alone"] = config.cluster.jobs.empty();
  if (config.cluster.jobs.empty() || !config.task.has_value()) return;
  out["task"] = config.task->ToString();
  out["jobs"] = config.cluster.jobs;
  const everstep::TfConfigRoles roles = everstep::RolesOf(config);
  out["is_chief"] = roles.is_chief;
  out["leader"] = roles.collective_leader ? roles.collective_leader->ToString() : "";
  if (config.task->type == "ps") return;
  out["rank"] = *roles.rank;
  out["count"] = roles.count;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto report = everstep::ExamineTfConfig(Json::parse(line).get<std::string>());
    Json facts = {{"codes", Json::array()}, {"messages", Json::array()}, {"ok", report.ok()}};
    for (const auto& finding : report.findings) {
      if (finding.error) facts["codes"].push_back(finding.code);
      facts["messages"].push_back(finding.ToString());
    }
    if (report.config.has_value()) AddFacts(*report.config, &facts);
    std::cout << facts.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  }
  return 0;
}
