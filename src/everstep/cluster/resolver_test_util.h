// cluster: surroundings made up for tests, and what tests ask of refusals.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "everstep/base/exit_code.h"
#include "everstep/cluster/resolver.h"

namespace everstep {

using Variables = std::map<std::string, std::string>;

inline std::function<std::optional<std::string>(const std::string&)> ReaderOf(Variables variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  };
}

inline Surroundings Around(Variables variables, std::string host_name = "n2") {
  Surroundings around;
  around.environment = ReaderOf(std::move(variables));
  around.host_name = std::move(host_name);
  around.interfaces = {{"lo", "127.0.0.1", true, true},
                       {"eth0", "10.0.0.2", true, false},
                       {"lo", "::1", true, true},
                       {"eth0", "fd00::2", true, false},
                       {"eth0", "fe80::2%eth0", true, false}};
  return around;
}

// The whole message, and that it ends a process with 78.
template <typename T>
void ExpectRefusal(const absl::StatusOr<T>& result, const std::string& message) {
  ASSERT_FALSE(result.ok()) << "was taken; expected: " << message;
  EXPECT_EQ(ExitCodeFor(result.status()), kExitConfiguration);
  EXPECT_EQ(std::string(result.status().message()), message);
}

}  // namespace everstep
