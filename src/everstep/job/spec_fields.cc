// job: the table of a job's options.
#include "everstep/job/spec_fields.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

using Text = const std::string&;

absl::Status Wanted(const std::string& what) { return absl::InvalidArgumentError(what); }

template <typename T>
absl::Status ReadInto(Text text, int64_t low, int64_t high, T* out) {
  int64_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return Wanted(absl::StrCat("a whole number from ", low, " to ", high));
  }
  *out = static_cast<T>(value);
  return absl::OkStatus();
}

absl::Status ReadSeconds(Text text, double low, double high, Duration* out) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds >= low && seconds <= high)) {
    return Wanted(absl::StrCat("seconds from ", low, " to ", high));
  }
  *out = Duration(std::llround(seconds * 1e9));
  return absl::OkStatus();
}

std::string WriteSeconds(Duration d) { return absl::StrCat(ToSeconds(d)); }

absl::Status ReadChoice(Text text, std::initializer_list<const char*> choices, std::string* out) {
  std::string list;
  for (const char* choice : choices) {
    if (text == choice) {
      *out = text;
      return absl::OkStatus();
    }
    absl::StrAppend(&list, list.empty() ? "" : ", ", choice);
  }
  return Wanted(absl::StrCat("one of ", list));
}

absl::Status ReadPortRange(Text text, PortRange* out) {
  const size_t dash = text.find('-');
  PortRange range;
  if (dash == std::string::npos || !ReadInto(text.substr(0, dash), 1, 65535, &range.first).ok() ||
      !ReadInto(text.substr(dash + 1), 1, 65535, &range.last).ok() || range.first > range.last) {
    return Wanted("two ports FIRST-LAST, e.g. 29710-29799");
  }
  *out = range;
  return absl::OkStatus();
}

absl::Status ReadBool(Text text, bool* out) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower != "1" && lower != "0" && lower != "true" && lower != "false") return Wanted("1 or 0");
  *out = lower == "1" || lower == "true";
  return absl::OkStatus();
}

absl::Status ReadDirectory(Text text, JobSpec* s) {
  if (text.empty()) return Wanted("a directory");
  s->directory = AbsolutePath(text);
  return absl::OkStatus();
}

absl::Status ReadPort(Text text, JobSpec* s) {
  return ReadInto(text, 1, 65535, &s->port.emplace());
}

absl::Status ReadCheckpointEvery(Text text, JobSpec* s) {
  s->checkpoint_every.reset();
  if (text.empty()) return absl::OkStatus();
  return ReadSeconds(text, 0.1, 31536000, &s->checkpoint_every.emplace());
}

absl::Status ReadHangFloor(Text text, JobSpec* s) {
  s->hang_floor.reset();
  if (text.empty()) return absl::OkStatus();
  return ReadSeconds(text, 1, 31536000, &s->hang_floor.emplace());
}

absl::Status ReadGpus(Text text, JobSpec* s) {
  s->gpus_per_task.reset();
  if (text.empty()) return absl::OkStatus();
  return ReadInto(text, 0, 1024, &s->gpus_per_task.emplace());
}

constexpr int64_t kMost = 1000000000000;  // steps
constexpr auto kText = FieldKind::kText;
constexpr auto kNumber = FieldKind::kNumber;
constexpr auto kBool = FieldKind::kBool;

const Field kFields[] = {
    {{"workers", "-n", "N",
      "worker processes, beside chief, ps and evaluator (default 1; of a job that goes on: as "
      "before)",
      false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 1, 100000, &s->workers); },
     [](const JobSpec& s) { return absl::StrCat(s.workers); }},
    {{"replicas", "", "R", "logical shares of the global batch, fixed for the job (default N)",
      true},
     kNumber,
     true,
     [](Text t, JobSpec* s) { return ReadInto(t, 1, 1000000, &s->replicas); },
     [](const JobSpec& s) { return absl::StrCat(s.replicas); }},
    {{"seed", "", "S", "of everything random in training (default: a random one)", true},
     kNumber,
     true,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, INT64_MAX, &s->seed); },
     [](const JobSpec& s) { return absl::StrCat(s.seed); }},
    {{"job-dir", "", "DIR", "the job's directory (default runs/PROGRAM-TIME)", true},
     kText,
     false,
     ReadDirectory,
     [](const JobSpec& s) { return s.directory; }},
    {{"threads-per-replica", "", "T", "threads that compute one replica (default 1)", true},
     kNumber,
     true,
     [](Text t, JobSpec* s) { return ReadInto(t, 1, 4096, &s->threads_per_replica); },
     [](const JobSpec& s) { return absl::StrCat(s.threads_per_replica); }},
    {{"cpu-baseline", "", "B", "native, avx512 or avx2: what all machines lower themselves to",
      true},
     kText,
     true,
     [](Text t, JobSpec* s) {
       return ReadChoice(t, {"native", "avx512", "avx2"}, &s->cpu_baseline);
     },
     [](const JobSpec& s) { return s.cpu_baseline; }},
    {{"port", "", "P", "the coordinator's (default 29700, or any when that is taken)", false},
     kNumber,
     false,
     ReadPort,
     [](const JobSpec& s) { return s.port.has_value() ? absl::StrCat(*s.port) : std::string(); }},
    {{"port-range", "", "A-B", "of the ports of workers and other tasks (default 29710-29799)",
      true},
     kText,
     false,
     [](Text t, JobSpec* s) { return ReadPortRange(t, &s->port_range); },
     [](const JobSpec& s) { return absl::StrCat(s.port_range.first, "-", s.port_range.last); }},
    {{"lost-after", "", "SECONDS", "a peer that is silent so long is given up (default 2; the agent of a gang: 30)", true},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadSeconds(t, 0.1, 86400, &s->lost_after); },
     [](const JobSpec& s) { return WriteSeconds(s.lost_after); }},
    {{"grace-seconds", "", "G", "between asking a process to leave and killing it (default 25)",
      true},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadSeconds(t, 0, 86400, &s->grace); },
     [](const JobSpec& s) { return WriteSeconds(s.grace); }},
    {{"join-deadline", "", "SECONDS", "how long to wait for all tasks to be there (default 300)",
      false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadSeconds(t, 0.1, 31536000, &s->join_deadline); },
     [](const JobSpec& s) { return WriteSeconds(s.join_deadline); }},
    {{"checkpoint-every-steps", "", "K",
      "write a checkpoint at each step that is a multiple of K (default 0: not by steps); with "
      "--checkpoint-every-seconds, too: at both",
      true},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, kMost, &s->checkpoint_every_steps); },
     [](const JobSpec& s) { return absl::StrCat(s.checkpoint_every_steps); }},
    {{"checkpoint-every-seconds", "", "SECONDS",
      "write a checkpoint so often (default: by the cost of writing one)", true},
     kNumber,
     false,
     ReadCheckpointEvery,
     [](const JobSpec& s) {
       return s.checkpoint_every.has_value() ? WriteSeconds(*s.checkpoint_every) : std::string();
     }},
    {{"keep-checkpoints", "", "K", "keep the K newest checkpoints (default 5; 0: all)", true},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, 1000000, &s->keep_checkpoints); },
     [](const JobSpec& s) { return absl::StrCat(s.keep_checkpoints); }},
    {{"keep-every-steps", "", "M", "keep those at multiples of M steps besides (default 0: none)",
      true},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, kMost, &s->keep_every_steps); },
     [](const JobSpec& s) { return absl::StrCat(s.keep_every_steps); }},
    {{"max-restarts", "", "X",
      "failures in a row, without a new checkpoint, that a run survives "
      "(default 10)",
      false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, 1000000, &s->max_restarts); },
     [](const JobSpec& s) { return absl::StrCat(s.max_restarts); }},
    {{"gang", "", "",
      "the program is any program, of TensorFlow or PyTorch for instance: its processes are "
      "watched from outside and restarted together (found out after 10 s otherwise)",
      true},
     kBool,
     false,
     [](Text t, JobSpec* s) { return ReadBool(t, &s->gang); },
     [](const JobSpec& s) { return std::string(s.gang ? "1" : "0"); }},
    {{"chief", "", "0|1",
      "1: a chief, in TF_CONFIG before the workers; with --ps it coordinates them", false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, 1, &s->chiefs); },
     [](const JobSpec& s) { return absl::StrCat(s.chiefs); }},
    {{"ps", "", "P", "parameter servers, which need a chief (default 0)", false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, 100000, &s->parameter_servers); },
     [](const JobSpec& s) { return absl::StrCat(s.parameter_servers); }},
    {{"evaluator", "", "0|1", "1: an evaluator, beside the training; it decides nothing", false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadInto(t, 0, 1, &s->evaluators); },
     [](const JobSpec& s) { return absl::StrCat(s.evaluators); }},
    {{"gpus-per-task", "", "G",
      "GPUs that each task sees, by its place on its host (default: all see all)", true},
     kNumber,
     false,
     ReadGpus,
     [](const JobSpec& s) {
       return s.gpus_per_task.has_value() ? absl::StrCat(*s.gpus_per_task) : std::string();
     }},
    {{"checkpoint-path", "", "DIR",
      "where the program saves its checkpoints (default: it is searched for)", true},
     kText,
     false,
     [](Text t, JobSpec* s) {
       s->checkpoint_path = t.empty() ? t : AbsolutePath(t);
       return absl::OkStatus();
     },
     [](const JobSpec& s) { return s.checkpoint_path; }},
    {{"warn-no-checkpoint", "", "SECONDS",
      "warn when the program has saved nothing for so long (default 1800)", false},
     kNumber,
     false,
     [](Text t, JobSpec* s) { return ReadSeconds(t, 1, 31536000, &s->warn_no_checkpoint); },
     [](const JobSpec& s) { return WriteSeconds(s.warn_no_checkpoint); }},
    {{"hang-action", "", "A",
      "warn or kill: what to do about silence (default warn). A process that was stopped, or "
      "whose heartbeats end, is always taken for hung: all are ended and restarted",
      false},
     kText,
     false,
     [](Text t, JobSpec* s) {
       return ReadChoice(t, {"warn", "kill"}, &s->hang_action);
     },
     [](const JobSpec& s) { return s.hang_action; }},
    {{"hang-floor", "", "SECONDS",
      "no shorter silence is a hang (default 60; 300 between steps that heartbeats tell of)", true},
     kNumber,
     false,
     ReadHangFloor,
     [](const JobSpec& s) {
       return s.hang_floor.has_value() ? WriteSeconds(*s.hang_floor) : std::string();
     }},
    {{"debug-libs", "", "",
      "NCCL, gRPC and TensorFlow say all they can, into a file beside each task's log", true},
     kBool,
     false,
     [](Text t, JobSpec* s) { return ReadBool(t, &s->debug_libs); },
     [](const JobSpec& s) { return std::string(s.debug_libs ? "1" : "0"); }},
    {{"log-level", "", "L", "debug, info, warning, error or off (default warning)", true},
     kText,
     false,
     [](Text t, JobSpec* s) {
       return ReadChoice(t, {"debug", "info", "warning", "error", "off"}, &s->log_level);
     },
     [](const JobSpec& s) { return s.log_level; }},
    {{"insecure", "", "", "talk beyond this machine although it is not encrypted", true},
     kBool,
     false,
     [](Text t, JobSpec* s) { return ReadBool(t, &s->insecure); },
     [](const JobSpec& s) { return std::string(s.insecure ? "1" : "0"); }},
};

}  // namespace

absl::Span<const Field> JobFields() { return kFields; }

absl::Status ReadField(const Field& field, const std::string& text, const std::string& as_written,
                       JobSpec* spec) {
  const absl::Status status = field.read(text, spec);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(as_written, " must be ", status.message(), ", not '", text, "'"));
}

std::string WrittenFlag(const JobOption& option) {
  return *option.short_flag != '\0' ? std::string(option.short_flag) : option.Flag();
}

}  // namespace everstep
