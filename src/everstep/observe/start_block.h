// observe: the block that a job prints at its start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace everstep {

struct StartFacts {
  std::string version;
  std::string program;    // with arguments, as a shell takes it
  std::string directory;  // that it runs in, when that is not where the user is
  std::string job_dir;
  std::string goes_on;  // "from step 537 (step-537-h0-v1.2, 15 s old)"; empty: it begins
  uint64_t seed = 0;
  bool seed_drawn = false;          // nobody gave one
  int workers = 1;                  // of a gang all tasks
  int slots = 1;                    // of this host; fewer than workers when other hosts are to join
  std::vector<int> replica_begins;  // base/tree.h's AssignReplicas
  int threads_per_replica = 1;
  int cores = 1;  // of this host
  std::string cpu_baseline = "native";
  std::string coordinator;  // "host:port"
  bool insecure = false;    // agents must say that they accept it, too
  std::string data_ports;   // "29710-29799"

  // Of a program that knows nothing of Everstep: then seed, replicas and threads say nothing.
  bool gang = false;
  std::string tasks;            // TasksText
  bool kills_silent = false;    // silence alone is enough to end it as hung
  std::string checkpoint_path;  // empty: searched for
  std::vector<std::string> notes;
};

// "chief, 2 workers, 1 ps, evaluator".
std::string TasksText(int chiefs, int workers, int parameter_servers, int evaluators);

// Lines of "  name  value", each ending in a newline. Says what an R that does not divide well
// costs, and hints at idle cores.
std::string StartBlock(const StartFacts& facts);

// What R on these workers costs against an even division; empty when it divides well.
std::string DivisionNote(const std::vector<int>& replica_begins);

}  // namespace everstep
