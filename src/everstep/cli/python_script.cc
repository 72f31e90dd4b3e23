// cli: a look at a Python script.
#include "everstep/cli/python_script.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"
#include "everstep/env/process.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

constexpr int64_t kLargestScript = 4 << 20;
constexpr size_t kMostModules = 20;
constexpr Duration kLook = std::chrono::seconds(5);
constexpr char kMark[] = "everstep|";
constexpr char kQuestion[] = R"(import importlib.metadata as m
def version(*names):
    for name in names:
        try:
            return m.version(name)
        except Exception:
            pass
    return ""
print("everstep|" + "|".join((version("tensorflow", "tensorflow-cpu", "tensorflow-intel",
    "tensorflow-macos", "tensorflow-rocm", "tf-nightly", "tf-nightly-cpu"),
    version("keras", "keras-nightly"), version("tf-keras", "tf_keras", "tf-keras-nightly"))))
)";

std::string ReadText(FileSystem& fs, const std::string& path) {
  const auto file = fs.OpenForReading(path);
  if (!file.ok() || (*file)->size() > kLargestScript) return "";
  return ReadWholeFile(fs, path).value_or("");
}

bool IsPython(const std::string& word) { return absl::StartsWith(BaseName(word), "python"); }

std::string WithoutComments(const std::string& text) {
  std::string kept;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "#")) {
      absl::StrAppend(&kept, line, "\n");
    }
  }
  return kept;
}

// Modules that a line names: "from a.b import c", "import a, b.c as d".
std::vector<std::string> ImportedBy(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  std::vector<std::string> modules;
  if (absl::ConsumePrefix(&line, "from ")) {
    modules.emplace_back(line.substr(0, line.find(' ')));
  } else if (absl::ConsumePrefix(&line, "import ")) {
    for (absl::string_view part : absl::StrSplit(line, ',')) {
      part = absl::StripAsciiWhitespace(part);
      modules.emplace_back(part.substr(0, part.find(' ')));
    }
  }
  return modules;
}

// The module's file under `directory`, or empty.
std::string ModuleFile(FileSystem& fs, const std::string& directory, std::string module,
                       const char* main) {
  module.erase(0, module.find_first_not_of('.'));
  if (module.empty()) return "";
  const std::string path = JoinPath(directory, absl::StrReplaceAll(module, {{".", "/"}}));
  for (const std::string& file : {absl::StrCat(path, ".py"), JoinPath(path, main)}) {
    if (fs.Exists(file) && !fs.IsDirectory(file)) return file;
  }
  return "";
}

std::string WithModulesBeside(FileSystem& fs, const std::string& text, const std::string& beside) {
  std::string all = text;
  std::set<std::string> read;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    for (const std::string& module : ImportedBy(line)) {
      const std::string file = ModuleFile(fs, beside, module, "__init__.py");
      if (file.empty() || read.size() >= kMostModules || !read.insert(file).second) continue;
      absl::StrAppend(&all, WithoutComments(ReadText(fs, file)));
    }
  }
  return all;
}

std::optional<PythonScript> Script(const std::string& interpreter, const std::string& name,
                                   const std::string& file, FileSystem& fs) {
  const std::string text = file.empty() ? "" : ReadText(fs, file);
  if (text.empty()) return std::nullopt;
  return PythonScript{interpreter, name,
                      WithModulesBeside(fs, WithoutComments(text), DirectoryOf(file))};
}

// `words`: python and what follows it.
std::optional<PythonScript> ByArguments(const std::vector<std::string>& words, FileSystem& fs) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool last = i + 1 == words.size();
    if (word == "-c") {
      if (last) return std::nullopt;
      return PythonScript{words[0], "the program", WithoutComments(words[i + 1])};
    }
    if (word == "-m") {
      if (last) return std::nullopt;
      return Script(words[0], absl::StrCat("-m ", words[i + 1]),
                    ModuleFile(fs, AbsolutePath("."), words[i + 1], "__main__.py"), fs);
    }
    if (word == "-X" || word == "-W") {
      ++i;
    } else if (word.empty() || word.front() != '-') {
      return Script(words[0], BaseName(word), AbsolutePath(word), fs);
    }
  }
  return std::nullopt;
}

}  // namespace

bool PythonScript::MentionsAny(const std::vector<std::string>& words) const {
  return std::any_of(words.begin(), words.end(),
                     [this](const std::string& word) { return Mentions(word); });
}

std::optional<PythonScript> FindPythonScript(const std::vector<std::string>& program,
                                             const Environment& environment, FileSystem& fs) {
  if (program.empty()) return std::nullopt;
  if (IsPython(program[0])) return ByArguments(program, fs);
  const absl::StatusOr<std::string> found =
      FindProgram(program[0], environment("PATH").value_or("/bin:/usr/bin"));
  const std::string path = AbsolutePath(found.ok() ? *found : program[0]);
  const std::string text = ReadText(fs, path);
  if (!absl::StartsWith(text, "#!")) return std::nullopt;
  const std::string first = text.substr(2, text.find('\n') - 2);
  for (absl::string_view word : absl::StrSplit(first, ' ', absl::SkipEmpty())) {
    const std::string interpreter(absl::StripAsciiWhitespace(word));
    if (IsPython(interpreter)) return Script(interpreter, BaseName(path), path, fs);
  }
  return std::nullopt;
}

std::optional<PythonPackages> LookAtPackages(const std::string& interpreter) {
  SpawnOptions options;
  options.argv = {interpreter, "-c", kQuestion};
  options.environment = CurrentEnvironment();
  options.pipe_output = true;
  absl::StatusOr<Process> process = Process::Spawn(options);
  if (!process.ok()) return std::nullopt;
  const Deadline deadline = After(RealClock(), kLook);
  std::string said;
  while (true) {
    PollItem items[] = {{process->out().get(), true}};
    const Duration left = deadline - RealClock().Now();
    if (left <= Duration::zero() || !Poll(absl::MakeSpan(items), left).ok()) return std::nullopt;
    if (!items[0].readable) continue;
    char bytes[4096];
    const ptrdiff_t n = ReadSome(process->out().get(), bytes, sizeof bytes);
    if (n <= 0) break;
    said.append(bytes, n);
    if (said.size() > 1 << 20) return std::nullopt;
  }
  for (absl::string_view line : absl::StrSplit(said, '\n')) {
    if (!absl::ConsumePrefix(&line, kMark)) continue;
    const std::vector<std::string> versions = absl::StrSplit(line, '|');
    if (versions.size() == 3) return PythonPackages{versions[0], versions[1], versions[2]};
  }
  return std::nullopt;
}

}  // namespace everstep
