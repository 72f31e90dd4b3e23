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

std::string StartBlock(const StartFacts& f) {
  std::string block = fmt::format("everstep {}\n", f.version);
  block += Row("program", f.program);
  if (!f.directory.empty()) block += Row("directory", f.directory);
  block += Row("job", f.job_dir);
  if (!f.goes_on.empty()) block += Row("goes on", f.goes_on);
  block +=
      Row("seed", fmt::format("{}{}", f.seed, f.seed_drawn ? " (drawn; --seed repeats it)" : ""));
  block += Row("replicas", fmt::format("{} on {} worker{} ({})", f.replica_begins.back(), f.workers,
                                       f.workers == 1 ? "" : "s", Shares(f.replica_begins)));
  block += Row("threads",
               fmt::format("{} a replica, CPU baseline {}", f.threads_per_replica, f.cpu_baseline));
  block += Row("coordinator", fmt::format("{}, data ports {}", f.coordinator, f.data_ports));
  if (f.slots < f.workers) {
    const int more = f.workers - f.slots;
    block += Row("waiting for",
                 fmt::format("{} more slot{}; on another host:", more, more == 1 ? "" : "s"));
    block += Row("", fmt::format("everstep agent --coordinator {} --slots {} --job-dir {}{} -- {}",
                                 f.coordinator, more, f.job_dir, f.insecure ? " --insecure" : "",
                                 f.program));
  }
  const std::string note = DivisionNote(f.replica_begins);
  if (!note.empty()) block += Row("note", note);
  const int used = std::min(f.workers, f.slots) * f.threads_per_replica;
  if (f.goes_on.empty() && f.threads_per_replica == 1 && used * 2 <= f.cores) {
    block +=
        Row("hint", fmt::format("{} of {} cores are used; --threads-per-replica {} would use more",
                                used, f.cores, f.cores / std::min(f.workers, f.slots)));
  }
  return block;
}

}  // namespace everstep
