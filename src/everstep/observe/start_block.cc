// observe: the start block.
#include "everstep/observe/start_block.h"

#include <fmt/format.h>

#include <algorithm>

namespace everstep {
namespace {

std::string Row(std::string_view name, std::string_view value) {
  return fmt::format("  {:<12} {}\n", name, value);
}

std::string Shares(const std::vector<int>& begins) {
  std::string text;
  for (size_t w = 0; w + 1 < begins.size(); ++w) {
    if (w == 8 && begins.size() > 10) return text + ", ...";
    text += fmt::format("{}{}", w == 0 ? "" : "+", begins[w + 1] - begins[w]);
  }
  return text;
}

std::string TrainingRows(const StartFacts& f) {
  std::string rows;
  rows +=
      Row("seed", fmt::format("{}{}", f.seed, f.seed_drawn ? " (drawn; --seed repeats it)" : ""));
  rows += Row("replicas", fmt::format("{} on {} worker{} ({})", f.replica_begins.back(), f.workers,
                                      f.workers == 1 ? "" : "s", Shares(f.replica_begins)));
  rows += Row("threads",
              fmt::format("{} a replica, CPU baseline {}", f.threads_per_replica, f.cpu_baseline));
  return rows;
}

std::string TrainingHints(const StartFacts& f) {
  std::string rows;
  const std::string note = DivisionNote(f.replica_begins);
  if (!note.empty()) rows += Row("note", note);
  const int used = std::min(f.workers, f.slots) * f.threads_per_replica;
  if (f.goes_on.empty() && f.threads_per_replica == 1 && used * 2 <= f.cores) {
    rows +=
        Row("hint", fmt::format("{} of {} cores are used; --threads-per-replica {} would use more",
                                used, f.cores, f.cores / std::min(f.workers, f.slots)));
  }
  return rows;
}

std::string GangRows(const StartFacts& f) {
  std::string rows = Row("tasks", f.tasks);
  rows += Row("hangs", f.kills_silent
                           ? "ended and restarted, also when only silence tells of one"
                           : "ended and restarted when a process is stopped or its heartbeats end; "
                             "silence is only told of (--hang-action kill)");
  rows += Row("checkpoints",
              f.checkpoint_path.empty()
                  ? "searched for among the files of its processes (--checkpoint-path says where)"
                  : "looked for in " + f.checkpoint_path);
  return rows;
}

}  // namespace

std::string DivisionNote(const std::vector<int>& begins) {
  const int workers = static_cast<int>(begins.size()) - 1;
  const int replicas = begins.back();
  int longest = 0;
  for (int w = 0; w < workers; ++w) longest = std::max(longest, begins[w + 1] - begins[w]);
  if (longest * workers == replicas) return {};
  // A step takes as long as the longest share; evenly divided it would take replicas / workers.
  return fmt::format(
      "{} replicas on {} workers: a step takes as long as {} replicas, so the speed is "
      "{:.0f} % of what {} workers could do; a multiple of {} would use them fully",
      replicas, workers, longest, 100.0 * replicas / (longest * workers), workers, workers);
}

std::string TasksText(int chiefs, int workers, int parameter_servers, int evaluators) {
  std::string text = chiefs > 0 ? "chief, " : "";
  text += fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
  if (parameter_servers > 0) text += fmt::format(", {} ps", parameter_servers);
  if (evaluators > 0) text += ", evaluator";
  return text;
}

std::string StartBlock(const StartFacts& f) {
  std::string block = fmt::format("everstep {}\n", f.version);
  block += Row("program", f.program);
  if (!f.directory.empty()) block += Row("directory", f.directory);
  block += Row("job", f.job_dir);
  if (!f.goes_on.empty()) block += Row("goes on", f.goes_on);
  block += f.gang ? GangRows(f) : TrainingRows(f);
  block +=
      Row("coordinator", fmt::format("{}, {} {}", f.coordinator,
                                     f.gang ? "ports of the tasks" : "data ports", f.data_ports));
  if (f.slots < f.workers) {
    const int more = f.workers - f.slots;
    block += Row("waiting for",
                 fmt::format("{} more slot{}; on another host:", more, more == 1 ? "" : "s"));
    block += Row("", fmt::format("everstep agent --coordinator {} --slots {} --job-dir {}{} -- {}",
                                 f.coordinator, more, f.job_dir, f.insecure ? " --insecure" : "",
                                 f.program));
  }
  if (!f.gang) block += TrainingHints(f);
  for (const std::string& note : f.notes) block += Row("note", note);
  return block;
}

}  // namespace everstep
