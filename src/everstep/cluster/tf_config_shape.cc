// cluster: the shape of a TF_CONFIG.
#include "everstep/cluster/tf_config_shape.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"
#include "everstep/cluster/tf_config_secret.h"

namespace everstep {
namespace {

constexpr size_t kMaxTasks = 100000;
constexpr char kTypes[] = "write chief, worker, ps or evaluator";
constexpr char kWholeNumber[] = "write a whole number from 0 on";

// The same but for one letter, or two that changed places.
bool IsNearly(const std::string& a, const std::string& b) {
  const size_t longer = std::max(a.size(), b.size()), shorter = std::min(a.size(), b.size());
  if (longer - shorter > 1) return false;
  size_t begin = 0;
  while (begin < shorter && a[begin] == b[begin]) ++begin;
  size_t end = 0;
  while (end < shorter - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) ++end;
  if (longer - begin - end <= 1) return true;
  return longer == shorter && longer - begin - end == 2 && a[begin] == b[begin + 1] &&
         a[begin + 1] == b[begin];
}

// Which key was meant by one that nobody reads; empty: none of ours.
std::string Meant(const std::string& key, const std::vector<std::string>& known,
                  const std::map<std::string, std::string>& others) {
  if (std::find(known.begin(), known.end(), key) != known.end()) return "";
  const std::string lower = absl::AsciiStrToLower(key);
  for (const std::string& name : known) {
    if (IsNearly(lower, name)) return name;
  }
  const auto other = others.find(lower);
  return other == others.end() ? "" : other->second;
}

void FindMisspelled(const JsonValue& object, const std::string& path,
                    const std::vector<std::string>& known,
                    const std::map<std::string, std::string>& others, FindingList* findings) {
  const JsonMember* cluster = object.Find("cluster");
  const bool alone =
      path.empty() && (cluster == nullptr || (cluster->value.kind == JsonValue::kObject &&
                                              cluster->value.members.empty()));
  for (const JsonMember& member : object.members) {
    const std::string meant = Meant(member.key, known, others);
    if (meant.empty()) continue;
    if (alone && meant == "cluster") {
      findings->Add("EV119", PathPart(member.key, /*harmless=*/true), member.key_offset,
                    "TensorFlow does not read this key, and would take this process for one alone",
                    "write \"cluster\"");
      continue;
    }
    findings->Add("EV110", absl::StrCat(path, PathPart(member.key, /*harmless=*/true)),
                  member.key_offset, "TensorFlow does not read this key",
                  absl::StrCat("write \"", meant, "\""));
  }
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A text of digits as a number; nothing when it is too large.
std::optional<int> SmallNumber(std::string_view digits) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  int number = 0;
  if (digits.size() > 9 || !absl::SimpleAtoi(ToAbsl(digits), &number)) return std::nullopt;
  return number;
}

std::string_view WithoutBlanks(const std::string& text) {
  return ToStd(absl::StripAsciiWhitespace(text));
}

class ShapeReader {
 public:
  explicit ShapeReader(FindingList* findings) : findings_(findings) {}

  TfConfigParts Read(const JsonValue& top) {
    parts_.top = top.offset;
    if (top.kind != JsonValue::kObject) {
      findings_->Add("EV106", "TF_CONFIG", top.offset,
                     absl::StrCat("is ", top.KindName(), ", but must be an object"),
                     "write {\"cluster\": {...}, \"task\": {...}}");
      return std::move(parts_);
    }
    FindMisspelled(top, "", {"cluster", "task", "rpc_layer"},
                   {{"cluster_spec", "cluster"},
                    {"cluster-spec", "cluster"},
                    {"clusterspec", "cluster"},
                    {"cluster_def", "cluster"},
                    {"cluster_config", "cluster"},
                    {"rpc", "rpc_layer"}},
                   findings_);
    if (const JsonMember* cluster = top.Find("cluster")) ReadCluster(cluster->value);
    if (const JsonMember* task = top.Find("task")) ReadTask(task->value);
    if (const JsonMember* layer = top.Find("rpc_layer")) ReadLayer(layer->value);
    return std::move(parts_);
  }

 private:
  void ReadCluster(const JsonValue& cluster) {
    if (cluster.kind != JsonValue::kObject) {
      findings_->Add("EV107", "cluster", cluster.offset,
                     absl::StrCat("is ", cluster.KindName(), ", but must be an object"),
                     "write {\"worker\": [\"host:port\", ...]}");
      return;
    }
    for (const JsonMember& job : cluster.members) {
      const std::string where = absl::StrCat("cluster.", PathPart(job.key));
      if (!IsTaskType(job.key)) {
        ReadStranger(job, where);
        continue;
      }
      JobAt read;
      read.type = job.key;
      read.offset = job.key_offset;
      ReadTasks(job.value, where, &read);
      parts_.jobs.push_back(std::move(read));
    }
  }

  void ReadStranger(const JsonMember& job, const std::string& where) {
    parts_.has_strangers = true;
    if (job.key == "master") {
      findings_->Add("EV303", where, job.key_offset, "TensorFlow 2 refuses master",
                     "write \"chief\"");
      return;
    }
    const std::string meant =
        Meant(job.key, {"chief", "worker", "ps", "evaluator"},
              {{"parameter_server", "ps"}, {"parameterserver", "ps"}, {"eval", "evaluator"}});
    findings_->Add("EV304", where, job.key_offset, "is no task type of TensorFlow 2",
                   meant.empty() ? std::string(kTypes) : absl::StrCat("write \"", meant, "\""));
  }

  void ReadTasks(const JsonValue& tasks, const std::string& where, JobAt* job) {
    job->broken = true;
    if (tasks.kind != JsonValue::kArray && tasks.kind != JsonValue::kObject) {
      findings_->Add("EV108", where, tasks.offset,
                     absl::StrCat("is ", tasks.KindName(), ", but must be a list of addresses"),
                     "write [\"host:port\"], also for one");
      return;
    }
    num_tasks_ += tasks.members.size();
    if (num_tasks_ > kMaxTasks) {
      findings_->Add("EV104", where, tasks.offset,
                     absl::StrCat(num_tasks_, " tasks, more than ", kMaxTasks),
                     "look at what wrote it");
      return;
    }
    job->broken = false;
    if (tasks.kind == JsonValue::kObject) return ReadSparse(tasks, where, job);
    for (size_t i = 0; i < tasks.members.size(); ++i) {
      ReadAddress(tasks.members[i].value, absl::StrCat(where, "[", i, "]"), job);
    }
  }

  void ReadAddress(const JsonValue& value, const std::string& where, JobAt* job) {
    AddressAt address{value.text, where, value.offset, value.kind == JsonValue::kString};
    if (!address.is_text) {
      findings_->Add("EV201", where, value.offset,
                     absl::StrCat("is ", value.KindName(), ", but must be a text"),
                     "write \"host:port\"");
      job->broken = true;
    }
    job->tasks.push_back(std::move(address));
  }

  // An object from index to address.
  void ReadSparse(const JsonValue& tasks, const std::string& where, JobAt* job) {
    std::map<int, const JsonMember*> by_index;
    for (const JsonMember& task : tasks.members) {
      const std::string_view digits = WithoutBlanks(task.key);
      const std::optional<int> index =
          IsDigits(digits) ? SmallNumber(digits) : std::optional<int>();
      const std::string path = absl::StrCat(where, ".", PathPart(task.key));
      if (!index.has_value()) {
        findings_->Add("EV111", path, task.key_offset, "is no index", kWholeNumber);
        job->broken = true;
      } else if (!by_index.emplace(*index, &task).second) {
        findings_->Add("EV111", path, task.key_offset,
                       absl::StrCat("index ", *index, " comes twice"), "leave one of them out");
        job->broken = true;
      }
    }
    int next = 0;
    for (const auto& [index, task] : by_index) {
      const std::string path = absl::StrCat(where, ".", PathPart(task->key));
      if (index != next && !job->broken) {
        findings_->Add("EV112", path, task->key_offset,
                       absl::StrCat("index ", index, ", but there is no index ", next),
                       "name all tasks from 0 on");
        job->broken = true;
      }
      next = index + 1;
      ReadAddress(task->value, path, job);
    }
  }

  void ReadTask(const JsonValue& task) {
    parts_.has_task = true;
    parts_.task_offset = parts_.index_offset = task.offset;
    if (task.kind != JsonValue::kObject) {
      findings_->Add("EV109", "task", task.offset,
                     absl::StrCat("is ", task.KindName(), ", but must be an object"),
                     "write {\"type\": \"worker\", \"index\": 0}");
      return;
    }
    FindMisspelled(task, "task.", {"type", "index"},
                   {{"idx", "index"},
                    {"id", "index"},
                    {"task_index", "index"},
                    {"task_id", "index"},
                    {"rank", "index"},
                    {"role", "type"},
                    {"job", "type"},
                    {"task_type", "type"},
                    {"job_name", "type"}},
                   findings_);
    const JsonMember* type = task.Find("type");
    const JsonMember* index = task.Find("index");
    const bool has_type = ReadType(task, type);
    if (index == nullptr) {
      findings_->Add("EV306", "task", task.offset, "has no index",
                     "write \"index\": 0 for the first");
      return;
    }
    parts_.index_offset = index->value.offset;
    const std::optional<int> number = ReadIndex(index->value);
    if (has_type && number.has_value()) parts_.task = Task{type->value.text, *number};
  }

  bool ReadType(const JsonValue& task, const JsonMember* type) {
    if (type == nullptr) {
      findings_->Add("EV302", "task", task.offset, "has no type", kTypes);
      return false;
    }
    const JsonValue& value = type->value;
    if (value.kind != JsonValue::kString) {
      findings_->Add("EV302", "task.type", value.offset,
                     absl::StrCat("is ", value.KindName(), ", but must be a text"), kTypes);
    } else if (value.text == "master") {
      findings_->Add("EV303", "task.type", value.offset, "TensorFlow 2 refuses master",
                     "write \"chief\"");
    } else if (!IsTaskType(value.text)) {
      findings_->Add("EV302", "task.type", value.offset,
                     absl::StrCat(Shown(value.text), " is no task type of TensorFlow 2"), kTypes);
    } else {
      return true;
    }
    return false;
  }

  std::optional<int> ReadIndex(const JsonValue& value) {
    const bool text = value.kind == JsonValue::kString;
    if (!text && value.kind != JsonValue::kNumber) {
      findings_->Add("EV307", "task.index", value.offset,
                     absl::StrCat("is ", value.KindName(), ", but must be a whole number"),
                     kWholeNumber);
      return std::nullopt;
    }
    std::string_view digits = WithoutBlanks(value.text);
    const bool minus = !digits.empty() && digits.front() == '-';
    if (minus) digits.remove_prefix(1);
    if (!IsDigits(digits)) {
      findings_->Add("EV307", "task.index", value.offset,
                     absl::StrCat(Shown(value.text), " is no whole number"), kWholeNumber);
      return std::nullopt;
    }
    const std::optional<int> number = SmallNumber(digits);
    if (minus && (text || number != 0)) {
      findings_->Add("EV308", "task.index", value.offset,
                     absl::StrCat(Shown(value.text), " is negative"), kWholeNumber);
      return std::nullopt;
    }
    if (!number.has_value()) {
      findings_->Add("EV309", "task.index", value.offset,
                     absl::StrCat(Shown(value.text), " is out of range"), kWholeNumber);
      return std::nullopt;
    }
    if (text) {
      findings_->Add("EV116", "task.index", value.offset,
                     absl::StrCat(Shown(value.text), " is a text; a number is meant"),
                     absl::StrCat("write ", *number));
    }
    return number;
  }

  void ReadLayer(const JsonValue& layer) {
    if (layer.kind == JsonValue::kString && layer.text == "grpc") return;
    if (layer.kind == JsonValue::kNull) return;
    findings_->Add(
        "EV117", "rpc_layer", layer.offset,
        absl::StrCat("is ", layer.kind == JsonValue::kString ? Shown(layer.text) : layer.KindName(),
                     ", but TensorFlow has grpc alone"),
        "leave it out");
  }

  FindingList* const findings_;
  TfConfigParts parts_;
  size_t num_tasks_ = 0;
};

}  // namespace

const JobAt* TfConfigParts::Find(std::string_view type) const {
  for (const JobAt& job : jobs) {
    if (job.type == type) return &job;
  }
  return nullptr;
}

bool IsTaskType(std::string_view type) {
  return type == "chief" || type == "worker" || type == "ps" || type == "evaluator";
}

void DropRepeatedKeys(JsonValue* value, const std::string& path, FindingList* findings) {
  std::vector<JsonMember>& members = value->members;
  const bool object = value->kind == JsonValue::kObject;
  if (object) {
    std::unordered_map<std::string, size_t> last;
    for (size_t i = 0; i < members.size(); ++i) last[members[i].key] = i;
    if (last.size() < members.size()) {
      std::vector<JsonMember> kept;
      for (size_t i = 0; i < members.size(); ++i) {
        if (last[members[i].key] == i) {
          kept.push_back(std::move(members[i]));
          continue;
        }
        findings->Add("EV105", absl::StrCat(path, PathPart(members[i].key)), members[i].key_offset,
                      "comes again below; TensorFlow takes the last one", "leave one of them out");
      }
      members = std::move(kept);
    }
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].value.members.empty()) continue;
    const std::string name = object ? PathPart(members[i].key) : absl::StrCat("[", i, "]");
    DropRepeatedKeys(&members[i].value, absl::StrCat(path, name, "."), findings);
  }
}

TfConfigParts ReadShape(const JsonValue& top, FindingList* findings) {
  return ShapeReader(findings).Read(top);
}

}  // namespace everstep
