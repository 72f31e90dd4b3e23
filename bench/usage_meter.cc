// bench: what it costs to look at processes from outside.
//   bench_usage_meter [PROCESSES]
// Milliseconds of wall and processor time a look: at processes that are known, as once a second,
// and at all of /proc, as every five seconds.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "everstep/env/clock.h"
#include "everstep/env/poll.h"
#include "everstep/env/process.h"
#include "everstep/env/process_tree.h"
#include "everstep/env/process_usage.h"

namespace everstep {
namespace {

constexpr int kLooks = 100;

void Measure(const char* what, UsageMeter::Scope scope, UsageMeter* meter) {
  ProcessEntry before, after;
  ReadProcess(OwnPid(), &before);
  const TimePoint start = RealClock().Now();
  for (int i = 0; i < kLooks; ++i) (void)meter->Look(scope);
  const double wall = 1000 * ToSeconds(RealClock().Now() - start) / kLooks;
  ReadProcess(OwnPid(), &after);
  const double cpu = 10.0 * static_cast<double>(after.own_ticks - before.own_ticks) / kLooks;
  std::printf("%-6s  %6.2f ms wall  %6.2f ms processor\n", what, wall, cpu);
}

int Main(int count) {
  std::vector<Process> processes;
  UsageMeter meter;
  for (int i = 0; i < count; ++i) {
    SpawnOptions options;
    options.argv = {"sleep", "600"};
    options.environment = CurrentEnvironment();
    absl::StatusOr<Process> process = Process::Spawn(options);
    if (!process.ok()) {
      std::fprintf(stderr, "%s\n", process.status().ToString().c_str());
      return 1;
    }
    meter.Add(process->pid());
    processes.push_back(*std::move(process));
  }
  (void)meter.Look(UsageMeter::Scope::kAll);
  Measure("known", UsageMeter::Scope::kKnown, &meter);
  Measure("all", UsageMeter::Scope::kAll, &meter);
  return 0;
}

}  // namespace
}  // namespace everstep

int main(int argc, char** argv) { return everstep::Main(argc > 1 ? std::atoi(argv[1]) : 64); }
