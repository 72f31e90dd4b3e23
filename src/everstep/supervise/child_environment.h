// supervise: what a process of the job finds in its environment.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "everstep/env/gpu.h"
#include "everstep/env/interface.h"
#include "everstep/membership/messages.h"

namespace everstep {

struct ChildContext {
  std::map<std::string, std::string> inherited;  // of the agent
  std::string coordinator;                       // "host:port"
  std::string secret_file;    // empty: the one in the job directory that the settings name
  std::string job_directory;  // as this host sees it; empty: as the settings say
  std::string processor;      // env's ProcessorCapability()
  bool native = false;        // the program is known to be made with Everstep
  // Of this machine; others in tests.
  std::function<int()> count_gpus = [] { return CountGpus(); };
  std::function<std::string(const std::string& address)> interface_of = InterfaceOf;
};

// kFailedPrecondition, with the cure, when `processor` has less than `baseline` asks for.
absl::Status CheckBaseline(const std::string& baseline, const std::string& processor);

// The inherited variables, under the job's settings, under those of this process:
// - EVERSTEP_COORDINATOR, EVERSTEP_INCARNATION, EVERSTEP_SECRET_FILE, and TF_CONFIG;
// - of a trainer (chief or worker), as PyTorch's programs want them: RANK, WORLD_SIZE, MASTER_ADDR,
//   MASTER_PORT, LOCAL_RANK and LOCAL_WORLD_SIZE;
// - CUDA_VISIBLE_DEVICES, when the job gives each task so many GPUs: a trainer's share by its place
//   on the host, nothing for others;
// - the number of threads and the processor features that the job lays down (of a program that
// knows
//   nothing of Everstep, the user's own OMP_NUM_THREADS goes before);
// - the cluster's hosts as exceptions from proxies that are set.
// And where the user has set nothing: which network interface NCCL and gloo take, how gRPC waits
// for a lost parameter server, how much the libraries say (for --debug-libs), and what makes
// Python's output come at once and tell its stacks. kFailedPrecondition when this machine's
// processor has less than the job's baseline, or the machine fewer GPUs than its tasks are to have.
absl::StatusOr<std::map<std::string, std::string>> ChildEnvironment(const Spawn& spawn,
                                                                    const ChildContext& context);

}  // namespace everstep
