// cli: `everstep report`: what happened to a job, and what it cost, from incidents.jsonl.
//
// Time lost is the time in which no new step was done because of an incident, each second once:
//   an incident that was recovered from: as its `recovered` says;
//   one that ended its run: until the run's end, and the steps that the next run repeated;
//   a run that vanished: from when it was heard last until the next one trained, and the steps that
//   this repeated.
//   a task of a gang that was restarted alone costs the others nothing, unless they wait for it: a
//   chief or a parameter server.
// Of a gang it is not seen what is done again after a restart, except steps that its heartbeats
// tell of.
// Repeated steps that no record times are taken to last as long as they did the first time.
// Wall time is that of the runs, and after a run that vanished until the next began.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "everstep/env/file.h"
#include "everstep/job/incident_log.h"
#include "everstep/job/status.h"

namespace everstep {

struct RunReport {
  int64_t term = 0;
  std::string began;  // as in the record
  double seconds = 0;
  bool vanished = false;
  std::optional<int> exit_code;  // neither: it still runs
  std::string reason;
  std::optional<Step> step;  // the last one done
};

struct IncidentReport {
  JobRecord record;  // its first
  bool recovered = false;
  double lost_seconds = 0;
  double idle_seconds = 0;     // of them, in which no run was there
  int64_t repeated_steps = 0;  // known once it is recovered
  bool alone = false;          // a task of a gang was restarted while the others went on
};

struct JobReport {
  std::vector<RunReport> runs;
  std::vector<IncidentReport> incidents;
  // What cost no step: checkpoints that failed, being stopped, silence that was only told of.
  std::vector<JobRecord> notes;
  int64_t unreadable = 0;  // lines
  double wall_seconds = 0;
  double lost_seconds = 0;     // at most the wall time
  int64_t repeated_steps = 0;  // of all incidents
  bool trained = false;        // some step was done; else goodput says nothing
  bool gang = false;           // the program is no native one: what it did is counted by time
  double goodput = 1;          // 1 - lost / wall
};

// `status`: of status.json, for a run that has not ended; `vanished`: the newest run, if it has no
// end, is known to be gone.
JobReport MakeReport(const IncidentLog& log, const std::optional<JobStatus>& status,
                     bool vanished = false);
std::string ReportText(const JobReport& report);
std::string ReportJson(const JobReport& report);

// kDataLoss: the job has no incidents.jsonl, as it never ran.
absl::Status PrintReport(FileSystem& fs, const std::string& job, bool json, std::ostream& out);

}  // namespace everstep
