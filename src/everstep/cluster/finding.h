// cluster: Finding, one thing that is wrong or doubtful in what the surroundings say of the
// cluster, with its code, its place and its cure. docs/config-codes.md lists the codes.
#pragma once

#include <string>

namespace everstep {

struct Finding {
  std::string code;    // "EV101"; never given another meaning
  bool error = false;  // else a warning: it may well work
  std::string where;   // "TF_CONFIG", or a place in it: "cluster.worker[1]", "task.index"
  int line = 0;        // in the text, from 1; 0: no place in it
  int column = 0;      // in bytes, from 1
  std::string what;    // what was found and what was expected
  std::string cure;    // what to write instead

  // "EV305: TF_CONFIG, task.index (line 1, column 63): index 3, but worker has 3 tasks (0 to 2);
  // give each process its own index". Never holds a secret. `source`: where the text was read, if
  // it was not the variable.
  std::string ToString(const std::string& source = "TF_CONFIG") const;
};

}  // namespace everstep
