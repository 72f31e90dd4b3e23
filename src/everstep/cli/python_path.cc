// cli: everstep python-path.
#include "everstep/cli/python_path.h"

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/cli/command.h"
#include "everstep/env/environment.h"
#include "everstep/io/publish.h"
#include "everstep/supervise/heartbeat_module.h"

namespace everstep {
namespace {

constexpr int kBuildDepth = 3;  // build/, build/static/ in the source tree

// Beside an installed command, or in the tree of a build; empty: it is in neither.
std::string FindModule(FileSystem& fs, const std::string& program) {
  const std::string prefix = DirectoryOf(DirectoryOf(program));
  const std::string installed = JoinPath(prefix, "share/everstep/python");
  if (fs.Exists(JoinPath(installed, kHeartbeatModuleName))) return installed;
  // Elsewhere a directory that happens to be above is nobody's word.
  if (!fs.Exists(JoinPath(prefix, "CMakeCache.txt"))) return "";
  std::string above = prefix;
  for (int i = 0; i < kBuildDepth; ++i) {
    const std::string built = JoinPath(above, "python");
    if (fs.Exists(JoinPath(built, kHeartbeatModuleName))) return built;
    above = DirectoryOf(above);
  }
  return "";
}

// Relative ones count for nothing, as the XDG specification has it.
std::string CacheDirectory(const Environment& environment) {
  const std::string cache = environment("XDG_CACHE_HOME").value_or("");
  if (absl::StartsWith(cache, "/")) return cache;
  const std::string home = environment("HOME").value_or("");
  return absl::StartsWith(home, "/") ? JoinPath(home, ".cache") : "";
}

int PrintPath() {
  const absl::StatusOr<std::string> directory =
      HeartbeatDirectory(RealFileSystem(), ProgramPath(), GetEnvironment);
  if (!directory.ok()) return Fail(directory.status());
  std::cout << *directory << "\n";
  return Fail(WithOutput(absl::OkStatus()));
}

}  // namespace

absl::StatusOr<std::string> HeartbeatDirectory(FileSystem& fs, const std::string& program,
                                               const Environment& environment) {
  std::string found = FindModule(fs, program);
  if (!found.empty()) return found;
  const std::string cache = CacheDirectory(environment);
  if (cache.empty()) {
    return WithExitCode(
        absl::FailedPreconditionError(absl::StrCat(
            kHeartbeatModuleName, " does not lie beside ", program,
            ", and there is no place to write it to: set XDG_CACHE_HOME or HOME to a directory")),
        kExitConfiguration);
  }
  const std::string directory = JoinPath(cache, absl::StrCat("everstep/python-", kVersion));
  const std::string path = JoinPath(directory, kHeartbeatModuleName);
  // Another build of the same version may have left another text.
  const absl::StatusOr<std::string> there = ReadWholeFile(fs, path);
  if (there.ok() && *there == HeartbeatModule()) return directory;
  absl::Status status = fs.CreateDirectories(directory);
  if (status.ok()) status = PublishFile(fs, path, HeartbeatModule());
  if (status.ok()) return directory;
  return WithExitCode(
      Annotate(status, "cannot write the heartbeat file (XDG_CACHE_HOME says where to)"),
      kExitConfiguration);
}

void AddPythonPath(CLI::App& root, Invocation* invocation) {
  AddVerb(
      root, invocation,
      {"python-path", "Print the directory of everstep_heartbeat.py, for PYTHONPATH", "Any program",
       "  PYTHONPATH=$(everstep python-path) python3 train.py\n"
       "In the script, to be seen from inside (nothing happens without Everstep):\n"
       "  import everstep_heartbeat\n"
       "  model.fit(..., callbacks=[everstep_heartbeat.keras_callback()])\n"
       "  everstep_heartbeat.beat(step)\n"},
      PrintPath);
}

}  // namespace everstep
