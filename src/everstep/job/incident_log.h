// job: incidents.jsonl as a whole, read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "everstep/job/record.h"

namespace everstep {

struct IncidentLog {
  std::vector<JobRecord> records;  // in order; a line that stands there twice comes once
  int64_t unreadable = 0;          // lines passed over: torn, or of another version
  bool torn_end = false;           // the last line has no newline

  int64_t HighestIncident() const;  // 0: none
  // The term of the last run, when that has not said how it ended.
  std::optional<int64_t> OpenTerm() const;
};

IncidentLog ParseIncidents(std::string_view text);

}  // namespace everstep
