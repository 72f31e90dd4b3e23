// cli: a look at a program that is a Python script: its text, and the packages of its interpreter.
// Nothing of it is run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "everstep/env/file.h"
#include "everstep/job/spec.h"

namespace everstep {

struct PythonScript {
  std::string interpreter;  // as execvp takes it
  std::string name;         // for people: "train.py", "-m pkg.train"
  // Its lines, and those of the modules beside it that it imports; without lines that are comments.
  std::string text;

  bool Mentions(std::string_view word) const { return text.find(word) != std::string::npos; }
  bool MentionsAny(const std::vector<std::string>& words) const;
};

// Nullopt: the program is none, or its text cannot be read.
std::optional<PythonScript> FindPythonScript(const std::vector<std::string>& program,
                                             const Environment& environment, FileSystem& fs);

// Versions, as the package's metadata tells them; empty: it is not installed.
struct PythonPackages {
  std::string tensorflow;
  std::string keras;
  std::string tf_keras;
};

// Runs the interpreter for at most 5 s, and imports none of them. Nullopt: it did not answer.
// Before any thread is there.
std::optional<PythonPackages> LookAtPackages(const std::string& interpreter);

}  // namespace everstep
