// supervise: what a process of the job finds in its environment.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/membership/messages.h"

namespace everstep {

struct ChildContext {
  std::map<std::string, std::string> inherited;  // of the agent
  std::string coordinator;                       // "host:port"
  std::string secret_file;
  std::string job_directory;  // as this host sees it; empty: as the settings say
  std::string processor;      // env's ProcessorCapability()
};

// kFailedPrecondition, with the cure, when `processor` has less than `baseline` asks for.
absl::Status CheckBaseline(const std::string& baseline, const std::string& processor);

// The inherited variables, under the job's settings, under those of this process: TF_CONFIG,
// EVERSTEP_COORDINATOR, EVERSTEP_INCARNATION and EVERSTEP_SECRET_FILE; RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT as PyTorch's programs want them; the number of threads and the
// processor features that the job lays down; and what makes Python's output come at once.
// kFailedPrecondition when this machine's processor has less than the job's baseline.
absl::StatusOr<std::map<std::string, std::string>> ChildEnvironment(const Spawn& spawn,
                                                                    const ChildContext& context);

}  // namespace everstep
