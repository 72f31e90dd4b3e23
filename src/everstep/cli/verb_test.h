// cli: verbs run inside a test, as from the command line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "everstep/cli/command.h"

namespace everstep {

struct VerbOutcome {
  int code = -1;  // 2: the command line was refused
  std::string out, err;
};

// `add`: functions as AddCheckpoint.
inline VerbOutcome RunVerb(const std::vector<void (*)(CLI::App&, Invocation*)>& add,
                           std::vector<std::string> arguments) {
  VerbOutcome outcome;
  CLI::App app;
  Invocation invocation;
  for (const auto& verbs : add) verbs(app, &invocation);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants it
  try {
    app.parse(std::move(arguments));
    outcome.code = invocation.exit_code;
  } catch (const CLI::ParseError&) {
    outcome.code = 2;
  }
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace everstep
