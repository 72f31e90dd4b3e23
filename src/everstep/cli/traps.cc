// cli: traps.
#include "everstep/cli/traps.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cluster/tf_config.h"
#include "everstep/env/socket.h"
#include "everstep/observe/start_block.h"

namespace everstep {
namespace {

struct Version {
  int major = 0, minor = 0;
  bool AtLeast(int other_major, int other_minor) const {
    return major != other_major ? major > other_major : minor >= other_minor;
  }
};

// Of "2.16.1": 2, 16. Of none: 0, 0.
Version VersionOf(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  Version version;
  if (!absl::SimpleAtoi(parts[0], &version.major)) return {};
  if (parts.size() > 1) (void)absl::SimpleAtoi(parts[1], &version.minor);
  return version;
}

// As TensorFlow reads it.
bool WantsLegacyKeras(const Environment& environment) {
  const std::string said = environment("TF_USE_LEGACY_KERAS").value_or("");
  return said == "1" || said == "true" || said == "True";
}

// TensorFlow 2.16 took Keras 3 for tf.keras, whose fit fails under a strategy of several workers.
std::string KerasTrap(const TrapContext& context, const PythonScript& script) {
  const bool strategy =
      script.MentionsAny({"MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"});
  if (!strategy || !script.Mentions("keras") ||
      script.MentionsAny({"TF_USE_LEGACY_KERAS", "tf_keras"})) {
    return "";
  }
  const std::optional<PythonPackages> packages = context.look(script.interpreter);
  if (!packages.has_value() || !VersionOf(packages->tensorflow).AtLeast(2, 16)) return "";
  const bool legacy = WantsLegacyKeras(context.environment);
  const std::string install = absl::StrCat(script.interpreter, " -m pip install tf-keras");
  if (legacy && packages->tf_keras.empty()) {
    return absl::StrCat("TF_USE_LEGACY_KERAS=1 asks for tf_keras, which ", script.interpreter,
                        " does not have: ", install);
  }
  if (legacy || !VersionOf(packages->keras).AtLeast(3, 0)) return "";
  return absl::StrCat(script.name, " uses MultiWorkerMirroredStrategy, under which model.fit of ",
                      "Keras ", packages->keras, " (tf.keras of TensorFlow ", packages->tensorflow,
                      ") fails: ", packages->tf_keras.empty() ? install + ", and " : "",
                      "set TF_USE_LEGACY_KERAS=1");
}

// What trains and saves nothing begins anew after each restart.
std::string SavesNothingTrap(const TrapContext& context, const PythonScript& script) {
  const bool trains =
      script.MentionsAny({"tensorflow", "keras", "torch", "jax"}) &&
      script.MentionsAny({".fit(", "GradientTape", ".backward(", "optimizer", "grad("});
  const bool saves = script.MentionsAny({"BackupAndRestore", "ModelCheckpoint", "CheckpointManager",
                                         "train.Checkpoint", "PreemptionCheckpointHandler", "save",
                                         "Save", "dump", "checkpoint", "Checkpoint", "ckpt"});
  if (!trains || saves || !context.spec.checkpoint_path.empty()) return "";
  return absl::StrCat(
      script.name, " seems to save nothing, so each restart would begin anew: ",
      script.Mentions("keras")   ? "add the callback tf.keras.callbacks.BackupAndRestore(DIR)"
      : script.Mentions("torch") ? "torch.save model and optimizer now and then, "
                                   "and load them at its start"
                                 : "let it save now and then, and load at its start");
}

bool IsLoopback(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = HostPort::Parse(address);
  return parsed.ok() && (parsed->host == "localhost" || parsed->host == "::1" ||
                         parsed->host.rfind("127.", 0) == 0);
}

std::string TfConfigTrap(const TrapContext& context) {
  const JobSpec& spec = context.spec;
  const auto said = ReadTfConfig(context.environment("TF_CONFIG"));
  if (!said.ok()) {
    return absl::StrCat("the TF_CONFIG of the environment is replaced for each task; it could not ",
                        "be understood: ", said.status().message());
  }
  if (!said->has_value() || (*said)->cluster.jobs.empty()) return "";
  const TfConfig& config = **said;
  const ClusterSpec& c = config.cluster;
  bool here = true;
  for (const auto& [type, addresses] : c.jobs) {
    here = here && std::all_of(addresses.begin(), addresses.end(), IsLoopback);
  }
  const std::string theirs = TasksText(c.NumTasks("chief"), c.NumTasks("worker"), c.NumTasks("ps"),
                                       c.NumTasks("evaluator"));
  const std::string ours =
      TasksText(spec.chiefs, spec.workers, spec.parameter_servers, spec.evaluators);
  if (here && theirs == ours) return "";
  return absl::StrCat("the TF_CONFIG of the environment (",
                      config.task.has_value() ? absl::StrCat(config.task->ToString(), " of ") : "",
                      theirs, here ? "" : ", on other hosts too",
                      ") is replaced: each task gets its own, for ", ours);
}

std::string ProxyTrap(const TrapContext& context) {
  std::vector<std::string> set;
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "all_proxy"}) {
    for (const std::string& variable : {std::string(name), absl::AsciiStrToUpper(name)}) {
      if (!context.environment(variable).value_or("").empty()) set.push_back(variable);
    }
  }
  if (set.empty()) return "";
  return absl::StrCat(absl::StrJoin(set, ", "), set.size() == 1 ? " is" : " are",
                      " set: for the tasks, Everstep adds the hosts of the job to no_proxy, so ",
                      "that they reach each other");
}

// How many of CUDA_VISIBLE_DEVICES are there, as CUDA reads it: what follows a -1 is not.
int Visible(const std::string& list) {
  const std::vector<std::string> devices = absl::StrSplit(list, ',', absl::SkipWhitespace());
  return static_cast<int>(std::find(devices.begin(), devices.end(), "-1") - devices.begin());
}

}  // namespace

std::vector<std::string> FindTraps(const TrapContext& context) {
  std::vector<std::string> traps = {TfConfigTrap(context), ProxyTrap(context)};
  const std::optional<PythonScript> script =
      FindPythonScript(context.program, context.environment, context.fs);
  if (script.has_value()) {
    traps.push_back(KerasTrap(context, *script));
    traps.push_back(SavesNothingTrap(context, *script));
  }
  traps.erase(std::remove(traps.begin(), traps.end(), ""), traps.end());
  return traps;
}

absl::Status CheckGpus(const JobSpec& spec, int tasks, const Environment& environment,
                       int present) {
  const int wanted = spec.gpus_per_task.value_or(0) * tasks;
  const std::optional<std::string> visible = environment("CUDA_VISIBLE_DEVICES");
  const int there = visible.has_value() ? Visible(*visible) : present;
  if (wanted <= there) return absl::OkStatus();
  return WithExitCode(
      absl::FailedPreconditionError(absl::StrCat(
          "--gpus-per-task ", *spec.gpus_per_task, " for ", tasks, tasks == 1 ? " task" : " tasks",
          " asks for ", wanted, wanted == 1 ? " GPU" : " GPUs", ", but ",
          visible.has_value() ? "CUDA_VISIBLE_DEVICES" : "this host", " has ", there,
          "; give fewer tasks or GPUs, or --gpus-per-task 0 for none")),
      kExitConfiguration);
}

}  // namespace everstep
