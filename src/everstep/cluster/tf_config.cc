// cluster: TF_CONFIG.
#include "everstep/cluster/tf_config.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/socket.h"
#include "nlohmann/json.hpp"

namespace everstep {
namespace {

using Json = nlohmann::json;

absl::Status Bad(const std::string& where, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("TF_CONFIG", where.empty() ? "" : ", ", where, ": ", what));
}

bool IsTaskType(const std::string& type) {
  return type == "chief" || type == "worker" || type == "ps" || type == "evaluator";
}

// Decimal digits, perhaps in blanks, as Python's int() takes them.
bool ReadIndex(const std::string& text, int* out) {
  const absl::string_view digits = absl::StripAsciiWhitespace(text);
  return !digits.empty() && digits.size() <= 9 &&
         digits.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(digits, out);
}

absl::Status ReadAddress(const Json& json, const std::string& where, std::string* out) {
  if (!json.is_string()) return Bad(where, "must be a text \"host:port\"");
  *out = json.get<std::string>();
  const absl::Status status = HostPort::Parse(*out).status();
  return status.ok() ? status : Bad(where, std::string(status.message()));
}

// A list of addresses, or an object from index to address.
absl::Status ReadTasks(const Json& json, const std::string& where, std::vector<std::string>* out) {
  if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) {
      EV_RETURN_IF_ERROR(
          ReadAddress(json[i], absl::StrCat(where, "[", i, "]"), &out->emplace_back()));
    }
    return absl::OkStatus();
  }
  if (!json.is_object()) return Bad(where, "must be a list of addresses");
  std::map<int, std::string> by_index;
  for (const auto& [key, address] : json.items()) {
    int index = 0;
    if (!ReadIndex(key, &index)) return Bad(where, absl::StrCat("'", key, "' is not an index"));
    EV_RETURN_IF_ERROR(ReadAddress(address, absl::StrCat(where, ".", key), &by_index[index]));
  }
  for (const auto& [index, address] : by_index) {
    if (index != static_cast<int>(out->size())) {
      return Bad(where, absl::StrCat("has no task ", out->size(), "; indices must begin at 0 and ",
                                     "leave none out"));
    }
    out->push_back(address);
  }
  return absl::OkStatus();
}

absl::Status ReadCluster(const Json& json, ClusterSpec* cluster) {
  if (!json.is_object()) return Bad("cluster", "must be an object from task type to addresses");
  for (const auto& [type, tasks] : json.items()) {
    const std::string where = absl::StrCat("cluster.", type);
    if (!IsTaskType(type)) {
      return Bad(where, absl::StrCat("no such task type; TensorFlow 2 has chief, worker, ps and ",
                                     "evaluator", type == "master" ? " (not master)" : ""));
    }
    EV_RETURN_IF_ERROR(ReadTasks(tasks, where, &cluster->jobs[type]));
    if ((type == "chief" || type == "evaluator") && cluster->jobs[type].size() > 1) {
      return Bad(where, "there can be only one");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTask(const Json& json, const ClusterSpec& cluster, std::optional<Task>* task) {
  if (!json.is_object()) return Bad("task", "must be an object with type and index");
  const auto type = json.find("type"), index = json.find("index");
  if (type == json.end() || !type->is_string() || !IsTaskType(type->get<std::string>())) {
    return Bad("task.type", "must be chief, worker, ps or evaluator");
  }
  if (index == json.end()) return Bad("task.index", "is missing");
  Task result{type->get<std::string>(), 0};
  const std::string text = index->is_string() ? index->get<std::string>() : index->dump();
  if (!(index->is_number_unsigned() || index->is_string()) || !ReadIndex(text, &result.index)) {
    return Bad("task.index", absl::StrCat("must be a number from 0, not ", index->dump()));
  }
  // An evaluator needs no place in the trainers' cluster.
  const bool apart = result.type == "evaluator" && cluster.jobs.count("evaluator") == 0;
  if (!cluster.jobs.empty() && !apart) {
    const absl::Status status = cluster.Address(result).status();
    if (!status.ok()) return Bad("task", std::string(status.message()));
  }
  *task = result;
  return absl::OkStatus();
}

}  // namespace

int TfConfig::NumTrainers() const { return cluster.NumTasks("chief") + cluster.NumTasks("worker"); }

std::string WriteTfConfig(const ClusterSpec& cluster, const Task& task) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::object();
  for (const auto& [type, addresses] : cluster.jobs) {
    if (!addresses.empty()) jobs[type] = addresses;
  }
  nlohmann::ordered_json json;
  json["cluster"] = jobs;
  json["task"]["type"] = task.type;
  json["task"]["index"] = task.index;
  return json.dump();
}

absl::StatusOr<std::optional<TfConfig>> ReadTfConfig(const std::optional<std::string>& value) {
  if (!value.has_value()) return std::optional<TfConfig>();
  if (absl::StripAsciiWhitespace(*value).empty()) {
    return Bad("", "is set but empty; unset it for a process alone");
  }
  Json json;
  try {
    json = Json::parse(*value);
  } catch (const Json::parse_error& error) {
    return Bad(absl::StrCat("byte ", error.byte),
               absl::StrCat("is not JSON; it begins '", value->substr(0, 40), "'"));
  }
  if (!json.is_object()) return Bad("", "must be a JSON object");
  TfConfig config;
  if (auto cluster = json.find("cluster"); cluster != json.end()) {
    EV_RETURN_IF_ERROR(ReadCluster(*cluster, &config.cluster));
  }
  if (auto task = json.find("task"); task != json.end()) {
    EV_RETURN_IF_ERROR(ReadTask(*task, config.cluster, &config.task));
  } else if (!config.cluster.jobs.empty()) {
    return Bad("task", "is missing; it says which of the cluster's tasks this process is");
  }
  return std::optional<TfConfig>(std::move(config));
}

}  // namespace everstep
