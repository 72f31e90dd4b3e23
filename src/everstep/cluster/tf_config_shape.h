// cluster: the shape of a TF_CONFIG: what its JSON says, each with its place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "everstep/base/task.h"
#include "everstep/cluster/tf_config_findings.h"
#include "everstep/cluster/tf_config_json.h"

namespace everstep {

struct AddressAt {
  std::string text, where;
  size_t offset = 0;
  bool is_text = true;  // else there is nothing to check
};

struct JobAt {
  std::string type;     // chief, worker, ps or evaluator
  size_t offset = 0;    // of its name
  bool broken = false;  // not all of its tasks could be read
  std::vector<AddressAt> tasks;
};

struct TfConfigParts {
  size_t top = 0;              // of the whole object
  std::vector<JobAt> jobs;     // of the types that there are, also those without tasks
  bool has_strangers = false;  // types that there are not
  bool has_task = false;       // something is there; `task` only if it could be read
  std::optional<Task> task;
  size_t task_offset = 0, index_offset = 0;

  const JobAt* Find(std::string_view type) const;
};

bool IsTaskType(std::string_view type);

// Drops all but the last of members with the same key (EV105).
void DropRepeatedKeys(JsonValue* value, const std::string& path, FindingList* findings);

// EV106 to EV117 and EV201, EV302 to EV304, EV306 to EV309.
TfConfigParts ReadShape(const JsonValue& top, FindingList* findings);

}  // namespace everstep
