// job: incidents.jsonl read back.
#include "everstep/job/incident_log.h"

#include <algorithm>
#include <unordered_set>

namespace everstep {

int64_t IncidentLog::HighestIncident() const {
  int64_t highest = 0;
  for (const JobRecord& record : records) highest = std::max(highest, record.incident);
  return highest;
}

std::optional<int64_t> IncidentLog::OpenTerm() const {
  std::optional<int64_t> open;
  for (const JobRecord& record : records) {
    if (record.kind == record_kind::kRunStarted) open = record.term;
    if (record.kind == record_kind::kRunEnded || record.kind == record_kind::kRunVanished) {
      open.reset();
    }
  }
  return open;
}

IncidentLog ParseIncidents(std::string_view text) {
  IncidentLog log;
  log.torn_end = !text.empty() && text.back() != '\n';
  std::unordered_set<std::string_view> seen;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || !seen.insert(line).second) continue;
    absl::StatusOr<JobRecord> record = FromJsonLine(line);
    if (record.ok()) {
      log.records.push_back(*std::move(record));
    } else {
      ++log.unreadable;
    }
  }
  return log;
}

}  // namespace everstep
