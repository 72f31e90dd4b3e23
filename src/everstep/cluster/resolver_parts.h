// cluster: what the resolvers share: what one of them found, its refusals, and numbers in
// variables.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "everstep/base/task.h"

namespace everstep {

using EnvironmentReader = std::function<std::optional<std::string>(const std::string&)>;

// A place in a cluster, from one who said so.
struct ToldPlace {
  ClusterSpec cluster;
  Task task;
  std::vector<std::string> notes;  // for people, one line each
};

// kInvalidArgument with exit code 78, its message that of a Finding: docs/config-codes.md has the
// codes. `where` is a variable, or a place in its text.
absl::Status Refuse(std::string_view code, std::string_view where, std::string_view what,
                    std::string_view cure);

// The variable's text without blanks around it; nothing when it is not set or says nothing.
std::optional<std::string> ReadText(const EnvironmentReader& environment, const std::string& name);

// A whole number in [least, most] (decimal digits alone); nothing when it is not set or empty.
// EV504.
absl::StatusOr<std::optional<int>> ReadWhole(const EnvironmentReader& environment,
                                             const std::string& name, int least, int most);

// "'abc'", for a message: what does not print is '?', what is long is cut, a password is not shown.
std::string Quoted(std::string_view text);

}  // namespace everstep
