// cli: everstep python-path: where everstep_heartbeat.py lies.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/cli/command.h"
#include "everstep/env/environment.h"
#include "everstep/env/file.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

constexpr char kModule[] = "everstep_heartbeat.py";
constexpr int kBuildDepth = 3;  // build/, build/static/ in the source tree

// Beside an installed command, or in the tree of a build; empty: it is in neither.
std::string FindModule(FileSystem& fs, const std::string& program) {
  const std::string prefix = DirectoryOf(DirectoryOf(program));
  const std::string installed = JoinPath(prefix, "share/everstep/python");
  if (fs.Exists(JoinPath(installed, kModule))) return installed;
  // Elsewhere a directory that happens to be above is nobody's word.
  if (!fs.Exists(JoinPath(prefix, "CMakeCache.txt"))) return "";
  std::string above = prefix;
  for (int i = 0; i < kBuildDepth; ++i) {
    const std::string built = JoinPath(above, "python");
    if (fs.Exists(JoinPath(built, kModule))) return built;
    above = DirectoryOf(above);
  }
  return "";
}

int PrintPath() {
  const std::string found = FindModule(RealFileSystem(), ProgramPath());
  if (found.empty()) {
    return Fail(WithExitCode(
        absl::NotFoundError(absl::StrCat(kModule, " does not lie beside ", ProgramPath(),
                                         "; install Everstep, or copy it from python/ of its "
                                         "sources")),
        kExitConfiguration));
  }
  std::cout << found << "\n";
  return Fail(WithOutput(absl::OkStatus()));
}

}  // namespace

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
