// supervise: where to look for checkpoints.
#include "everstep/supervise/search_roots.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "everstep/env/environment.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool IsOfTheSystem(std::string_view path) {
  if (path == "/") return true;
  for (const char* tree : {"/proc", "/sys", "/dev", "/usr", "/bin", "/lib", "/lib64", "/sbin",
                           "/etc", "/boot", "/run"}) {
    // What is shared in memory is the exception: people do save there.
    if (LiesIn(path, tree) && !(LiesIn(path, "/dev/shm") && path != "/dev/shm")) return true;
  }
  return false;
}

bool IsForTemporaryFiles(std::string_view path) {
  if (path == "/tmp" || path == "/var/tmp" || path == "/home" || path == "/root") return true;
  return path == GetEnvironment("TMPDIR").value_or("/tmp") ||
         path == GetEnvironment("HOME").value_or("/root");
}

}  // namespace

bool IsModelFile(std::string_view name) {
  // ".h5" covers ".weights.h5".
  for (const char* end : {".h5", ".keras", ".pt", ".pth", ".ckpt", ".safetensors"}) {
    if (name.size() > std::string_view(end).size() && EndsWith(name, end)) return true;
  }
  return false;
}

bool LiesIn(std::string_view path, std::string_view directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.remove_suffix(1);
  if (path.substr(0, directory.size()) != directory) return false;
  return path.size() == directory.size() || directory == "/" || path[directory.size()] == '/';
}

std::string PlainPath(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(std::move(part));
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string plain;
  for (const std::string& part : parts) plain += "/" + part;
  return plain.empty() ? "/" : plain;
}

ProgramFacts FactsOf(pid_t pid) {
  return {ArgumentsOf(pid), WorkingDirectoryOf(pid), OpenFilesOf(pid)};
}

std::vector<std::string> SearchRoots(const ProgramFacts& facts, FileSystem& fs) {
  std::vector<std::string> roots;
  const auto add = [&](const std::string& path) {
    if (IsOfTheSystem(path)) return;
    if (std::find(roots.begin(), roots.end(), path) == roots.end()) roots.push_back(path);
  };
  for (const OpenFile& file : facts.files) {
    if (!file.writable || EndsWith(file.path, ".py") || EndsWith(file.path, ".log")) continue;
    const std::string directory = DirectoryOf(file.path);
    if (!IsForTemporaryFiles(directory)) add(directory);
    // Runs keep their events in directories of their own, beside what they save.
    if (file.path.find("tfevents") != std::string::npos) {
      const std::string parent = DirectoryOf(directory);
      if (!IsForTemporaryFiles(parent)) add(parent);
    }
  }
  const std::string& here = facts.working_directory;
  for (size_t i = 1; i < facts.arguments.size(); ++i) {  // the first is the program
    std::string word = facts.arguments[i];
    if (!word.empty() && word.front() == '-') {
      const size_t equals = word.find('=');
      word = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    if (word.empty() || word.size() > 4096 || (word.front() != '/' && here.empty())) continue;
    const std::string path = PlainPath(word.front() == '/' ? word : JoinPath(here, word));
    if (fs.IsDirectory(path) || (IsModelFile(path) && fs.IsDirectory(DirectoryOf(path)))) add(path);
  }
  if (!here.empty()) add(here);
  return roots;
}

}  // namespace everstep
