// job: JobSpec, everything that is fixed for the life of a job, resolved once at the edge: a flag
// goes before an EVERSTEP_... variable, that before the default.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/base/clock.h"
#include "everstep/base/step.h"

namespace everstep {

struct PortRange {
  int first = 29710;
  int last = 29799;  // inclusive
};

constexpr int kDefaultControlPort = 29700;

struct JobSpec {
  int workers = 1;                      // N, processes wanted
  int replicas = 1;                     // R, logical shares of the batch; N unless said
  uint64_t seed = 0;                    // random (32 bits) unless said
  std::string directory;                // absolute; empty: not said
  int threads_per_replica = 1;          // belongs to the job: the bits depend on it
  std::string cpu_baseline = "native";  // native, avx512 or avx2
  std::optional<int> port;              // of the coordinator; not said: 29700 if it is free
  PortRange port_range;                 // of the data plane and TF_CONFIG
  Duration lost_after = std::chrono::seconds(2);       // a silent peer is given up
  Duration grace = std::chrono::seconds(25);           // from SIGTERM to SIGKILL
  Duration join_deadline = std::chrono::seconds(300);  // for all tasks to be there
  Step checkpoint_every_steps = 0;                     // at multiples of it; 0: not by steps
  std::optional<Duration> checkpoint_every;            // not said: by the cost of writing one
  int keep_checkpoints = 5;                            // the newest; 0: all
  Step keep_every_steps = 0;  // those at multiples of it stay besides; 0: none
  int max_restarts = 10;      // the budget, which a new checkpoint fills up
  std::string log_level = "warning";
  bool insecure = false;  // plain text beyond loopback is accepted

  // Of programs that know nothing of Everstep: gangs.
  bool gang = false;                   // it is known to be one
  int chiefs = 0;                      // 0 or 1
  int parameter_servers = 0;           // then the chief coordinates, and must be there
  int evaluators = 0;                  // 0 or 1
  std::string hang_action = "warn";    // on weak evidence of a hang: warn or kill
  std::optional<Duration> hang_floor;  // least silence that is one; not said: by what is known
  std::string checkpoint_path;         // where the program saves; empty: it is searched for
  Duration warn_no_checkpoint = std::chrono::minutes(30);
  bool debug_libs = false;           // libraries say all they can, into a file per task
  std::optional<int> gpus_per_task;  // not said: all tasks see all

  int Tasks() const { return chiefs + workers + parameter_servers + evaluators; }

  // The only checkpoint to begin from, its directory or prefix; empty: the newest good one of the
  // job. No option: `--resume` says it.
  std::string restore_from;
  // The checkpoint that the job was begun from, for as long as it has no good one of its own;
  // empty: it was begun from nothing.
  std::string begin_from;

  // Where each value came from, by option name: "flag", "environment", "default",
  // "drawn", or "job": an earlier run of it was given it.
  std::map<std::string, std::string> origins;
};

// One option of a job. `name` is its key in resolved.json, with '-' the long flag ("job-dir" is
// --job-dir), and in capitals behind EVERSTEP_ the variable.
struct JobOption {
  const char* name;
  const char* short_flag;  // "-n", or empty
  const char* value;       // what help calls the value, or empty for a switch
  const char* help;
  bool for_workers;  // goes into the environment of the job's processes

  std::string Flag() const;      // "--port-range"
  std::string Variable() const;  // "EVERSTEP_PORT_RANGE"
};
absl::Span<const JobOption> JobOptionTable();

// What GetEnvironment is; tests give their own.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

// `flags`: by option name. kInvalidArgument names the flag (exit code 2) or the variable (78), the
// value, and what would do.
absl::StatusOr<JobSpec> ResolveJob(const std::map<std::string, std::string>& flags,
                                   const Environment& environment);

// As ResolveJob, for another run of a job: what belongs to the job for its whole life is as in
// `job`, and a flag or variable that says otherwise is refused (2 or 78), naming both; the rest is
// as in `last`, what the last run was started with, unless it is given anew. The directory is
// `last`'s.
absl::StatusOr<JobSpec> ResolveAgain(const JobSpec& job, const JobSpec& last,
                                     const std::map<std::string, std::string>& flags,
                                     const Environment& environment);

// As a native program of `workers` workers sees its job: from the variables that ToSettings set, or
// that whoever starts it alone has set.
absl::StatusOr<JobSpec> JobFromEnvironment(int workers, const Environment& environment);

// The variable that carries JobSpec::restore_from to the workers.
inline constexpr char kRestoreFromVariable[] = "EVERSTEP_RESTORE_FROM";
inline constexpr char kBeginFromVariable[] = "EVERSTEP_BEGIN_FROM";  // JobSpec::begin_from

// The variables of the job for its processes. Some are there to be empty, lest an agent's own say
// something.
std::map<std::string, std::string> ToSettings(const JobSpec& spec);

}  // namespace everstep
