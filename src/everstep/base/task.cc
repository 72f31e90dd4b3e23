// base: Task and ClusterSpec.
#include "everstep/base/task.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/string_view.h"

namespace everstep {

std::string Task::ToString() const { return absl::StrCat(type, ":", index); }

absl::StatusOr<Task> Task::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  Task task;
  if (colon == std::string_view::npos || colon == 0 ||
      text.find_first_not_of("0123456789", colon + 1) != std::string_view::npos ||
      !absl::SimpleAtoi(ToAbsl(text.substr(colon + 1)), &task.index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", ToAbsl(text), "' is not a task; write it as type:index, e.g. worker:0"));
  }
  task.type = std::string(text.substr(0, colon));
  return task;
}

int ClusterSpec::NumTasks(std::string_view type) const {
  auto it = jobs.find(std::string(type));
  return it == jobs.end() ? 0 : static_cast<int>(it->second.size());
}

absl::StatusOr<std::string> ClusterSpec::Address(const Task& task) const {
  auto it = jobs.find(task.type);
  if (it == jobs.end()) {
    return absl::NotFoundError(absl::StrCat("the cluster has no task type '", task.type, "'"));
  }
  const int count = static_cast<int>(it->second.size());
  if (task.index < 0 || task.index >= count) {
    return absl::NotFoundError(absl::StrCat("index ", task.index, " but ", task.type, " has ",
                                            count, " tasks (0-", count - 1, ")"));
  }
  return it->second[task.index];
}

}  // namespace everstep
