// job: JobRecord, one line of incidents.jsonl: what happened to a job, for people and programs. The
// meaning of each kind and field is told in docs/incidents.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/step.h"
#include "everstep/base/view.h"

namespace everstep {

// Kinds. Those that begin an incident have a number of their own in `incident`; kRecovered carries
// the number of the one it ends. The others have 0.
namespace record_kind {
inline constexpr char kRunStarted[] = "run_started";    // a coordinator took a term
inline constexpr char kRunEnded[] = "run_ended";        // with `exit_code`
inline constexpr char kRunVanished[] = "run_vanished";  // a former run ended without a word
inline constexpr char kTraining[] = "training";         // a view began: steps run from `step` on
inline constexpr char kWorkerFailed[] = "worker_failed";
inline constexpr char kWorkerLost[] = "worker_lost";      // silent, or its host is gone
inline constexpr char kWorkerHung[] = "worker_hung";      // no progress, or stopped by a signal
inline constexpr char kNoCheckpoint[] = "no_checkpoint";  // a restart would lose all since then
inline constexpr char kLinksBroken[] = "links_broken";    // though no worker died
inline constexpr char kStatesDiffer[] = "states_differ";
inline constexpr char kStopped[] = "stopped";      // somebody told the job to stop
inline constexpr char kRecovered[] = "recovered";  // the step that the incident cut short is done
inline constexpr char kCheckpointFailed[] = "checkpoint_failed";
inline constexpr char kCheckpointRejected[] = "checkpoint_rejected";  // found bad when read
inline constexpr char kStorageSlow[] = "storage_slow";
}  // namespace record_kind

struct JobRecord {
  std::string kind;
  int64_t incident = 0;  // number within the job, from 1; 0: none
  int64_t term = 0;
  std::string cause;  // one line for people: what happened
  std::string task;   // the first failing one, "worker:1"; empty: none
  std::string host;
  ViewId view;
  History history = 0;
  std::optional<Step> step;           // reached when it happened
  std::optional<Step> restored_step;  // where training went on
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool oom = false;               // the kernel killed it for memory
  std::vector<std::string> tail;  // last lines of the task, at most 20
  std::string log;                // path of its log
  std::string evidence;           // of a hang: "strong" or "weak"
  std::string stacks;             // path of the file with the stacks of its threads
  std::string action;             // what was done: "restart", "end", ...; empty: nothing had to be
  std::optional<int> restarts_left;
  std::optional<double> back_off_seconds;
  std::optional<double> lost_seconds;  // from the fault until the step it cut short was done again
  std::optional<int64_t> repeated_steps;

  // Filled in by whoever writes the line.
  std::string time;  // UTC, "2026-11-30T19:30:07.123Z"
};

// One line, without its newline, and back. kDataLoss: not such a line.
std::string ToJsonLine(const JobRecord& record);
absl::StatusOr<JobRecord> FromJsonLine(std::string_view line);

}  // namespace everstep
