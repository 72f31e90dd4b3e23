// job: where the tasks of a job were.
#include "everstep/job/last_seen.h"

#include "absl/strings/str_cat.h"
#include "everstep/job/directory.h"
#include "everstep/job/status.h"

namespace everstep {

std::map<std::string, std::string> LastSeenOf(FileSystem& fs, const std::string& job) {
  std::map<std::string, std::string> seen;
  const std::string path = StatusPath(job);
  const absl::StatusOr<std::string> text = ReadWholeFile(fs, path);
  if (!text.ok()) return seen;
  const absl::StatusOr<JobStatus> status = FromStatusJson(*text, path);
  if (!status.ok()) return seen;
  for (const TaskStatus& task : status->tasks) {
    if (task.host.empty()) continue;
    seen[task.task] = status->time.empty()
                          ? absl::StrCat("on host ", task.host)
                          : absl::StrCat("on host ", task.host, ", as of ", status->time);
  }
  return seen;
}

}  // namespace everstep
