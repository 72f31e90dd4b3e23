// cli: rules of a command line that is not understood: one line that says what to change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/cli/command.h"

namespace everstep {
namespace {

// What is said; the exit code must be 2, and it must be one line.
std::string Refused(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "everstep");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStderr();
  const int code = EverstepMain(static_cast<int>(argv.size()), argv.data());
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 2) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  if (!said.empty()) said.pop_back();
  return said;
}

TEST(Usage, AProgramWithoutTheDashesIsShownWithThem) {
  EXPECT_EQ(Refused({"run", "-n", "1", "bin/mnist", "--epochs", "1"}),
            "everstep: unexpected 'bin/mnist'; put the program behind --: "
            "everstep run -n 1 -- bin/mnist --epochs 1 (see everstep run --help)");
  EXPECT_EQ(Refused({"run", "echo", "a b", "it's"}),
            "everstep: unexpected 'echo'; put the program behind --: "
            "everstep run -- echo 'a b' 'it'\\''s' (see everstep run --help)");
  EXPECT_EQ(Refused({"run", "-n", "train", "train"}),
            "everstep: unexpected 'train'; put the program behind --: "
            "everstep run -n train -- train (see everstep run --help)");
  EXPECT_EQ(Refused({"run", "a", "--", "b"}), "everstep: unexpected 'a' (see everstep run --help)");
}

TEST(Usage, AnUnknownOptionIsMetWithTheNearestOne) {
  EXPECT_EQ(Refused({"run", "--replica", "4", "--", "true"}),
            "everstep: there is no option --replica; did you mean --replicas? "
            "(see everstep run --help)");
  EXPECT_EQ(Refused({"run", "--wrokers=3", "--", "true"}),
            "everstep: there is no option --wrokers=3; did you mean --workers? "
            "(see everstep run --help)");
  EXPECT_EQ(Refused({"run", "--frobnicate", "--", "true"}),
            "everstep: there is no option --frobnicate (see everstep run --help)");
}

TEST(Usage, AVerbThatIsMissingOrUnknownIsMetWithTheVerbs) {
  EXPECT_EQ(Refused({"rum"}), "everstep: there is no verb 'rum'; everstep --help lists them");
  EXPECT_EQ(Refused({"checkpoint", "dig", "runs/a"}),
            "everstep: checkpoint has no 'dig'; it has: ls, show, verify, digest, diff, drill");
  EXPECT_EQ(Refused({"checkpoint"}),
            "everstep: checkpoint lacks its verb; it has: ls, show, verify, digest, diff, drill");
  EXPECT_EQ(Refused({"records", "import", "csv"}),
            "everstep: records import has no 'csv'; it has: idx");
  EXPECT_EQ(Refused({"checkpoint", "verify"}),
            "everstep: DIR is required (see everstep checkpoint verify --help)");
  EXPECT_EQ(Refused({"records", "import", "idx"}),
            "everstep: --images is required (see everstep records import idx --help)");
}

}  // namespace
}  // namespace everstep
