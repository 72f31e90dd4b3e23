// supervise: where a program's checkpoints and event files may lie, guessed from what is seen of
// its processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "everstep/env/file.h"
#include "everstep/env/process_tree.h"

namespace everstep {

// What is seen of one process.
struct ProgramFacts {
  std::vector<std::string> arguments;
  std::string working_directory;
  std::vector<OpenFile> files;
};
ProgramFacts FactsOf(pid_t pid);

// The likeliest first: directories of files that it holds open for writing, directories and files of
// models that its arguments name (`--x=DIR` too; the file may be yet to come), its working
// directory. Absolute, each once. Not
// among them: those of the system, and, unless it works there or names them, those for temporary
// files, where anybody's lie.
std::vector<std::string> SearchRoots(const ProgramFacts& facts, FileSystem& fs);

// By its name: "a.pt", "b.weights.h5".
bool IsModelFile(std::string_view name);

// `path` is `directory` or lies in it.
bool LiesIn(std::string_view path, std::string_view directory);
// Without "." and "..", as far as the text tells.
std::string PlainPath(const std::string& path);

}  // namespace everstep
