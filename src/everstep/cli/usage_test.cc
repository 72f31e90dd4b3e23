// cli: rules of a command line that is not understood: one line that says what to change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "everstep/cli/command.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

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

TEST(Usage, WhoKnowsOtherLaunchersIsToldWhatItIsHere) {
  const std::string end = " (see everstep run --help)";
  for (const char* written :
       {"--nproc-per-node", "--nproc_per_node", "-np", "--num-proc", "--num_processes"}) {
    EXPECT_EQ(Refused({"run", written, "4", "--", "true"}),
              absl::StrCat("everstep: there is no option ", written, "; it is -n here: -n 4", end));
  }
  EXPECT_EQ(Refused({"run", "--nproc_per_node=2", "--", "true"}),
            "everstep: there is no option --nproc_per_node=2; it is -n here: -n 2" + end);
  EXPECT_EQ(Refused({"run", "--nproc-per-node=gpu", "--", "true"}),
            "everstep: there is no option --nproc-per-node=gpu; it is -n here" + end);
  EXPECT_THAT(Refused({"run", "--nnodes", "2", "--", "true"}), HasSubstr("everstep agent"));
  EXPECT_THAT(Refused({"run", "-H", "a:2", "--", "true"}), HasSubstr("not reached by ssh"));
  EXPECT_THAT(Refused({"run", "-m", "pkg", "--", "true"}), HasSubstr("python3 -m MODULE"));
  EXPECT_THAT(Refused({"agent", "--nproc-per-node", "2", "--", "true"}),
              HasSubstr("it is --slots here: --slots 2 (see everstep agent --help)"));
  EXPECT_THAT(Refused({"agent", "--hang-action", "kill", "--", "true"}),
              HasSubstr("it is the job's: say it to everstep run or everstep coordinator"));
}

TEST(Usage, EveryOptionOfTheOtherLaunchersThatMakesSenseHasAnAnswer) {
  for (const char* option : {"--nnodes",
                             "--node-rank",
                             "--rdzv-backend",
                             "--rdzv_endpoint",
                             "--rdzv-id",
                             "--rdzv-conf",
                             "--standalone",
                             "--monitor-interval",
                             "--start-method",
                             "--role",
                             "-m",
                             "--module",
                             "--no-python",
                             "--run-path",
                             "--log-dir",
                             "-r",
                             "--redirects",
                             "-t",
                             "--tee",
                             "--local-ranks-filter",
                             "--master-addr",
                             "--master-port",
                             "--local-addr",
                             "--logs-specs",
                             "--numa-binding",
                             "--signals-to-handle",
                             "-H",
                             "--hosts",
                             "--hostfile",
                             "--min-np",
                             "--max-np",
                             "--slots-per-host",
                             "--host-discovery-script",
                             "--elastic-timeout",
                             "--reset-limit",
                             "--blacklist-cooldown-range",
                             "--start-timeout",
                             "--network-interfaces",
                             "--output-filename",
                             "--prefix-output-with-timestamp",
                             "-p",
                             "--ssh-port",
                             "-i",
                             "--gloo",
                             "--mpi",
                             "--jsrun",
                             "--config-file",
                             "--timeline-filename",
                             "--autotune",
                             "--fusion-threshold-mb",
                             "--cycle-time-ms",
                             "--num_machines",
                             "--machine_rank",
                             "--main_process_ip",
                             "--main_process_port",
                             "--mixed_precision",
                             "--multi_gpu",
                             "--cpu",
                             "--gpu_ids",
                             "--same_network",
                             "--dynamo_backend",
                             "--use_deepspeed",
                             "--use_fsdp",
                             "--use_megatron_lm",
                             "--gradient_accumulation_steps",
                             "--debug",
                             "--verbose",
                             "-x"}) {
    EXPECT_THAT(Refused({"run", option, "--", "true"}),
                HasSubstr(absl::StrCat("there is no option ", option, "; ")))
        << option;
  }
}

TEST(Usage, AnUnderscoreInOneOfOurOptionsIsADash) {
  EXPECT_THAT(Refused({"run", "--max_restarts", "x_y", "--", "true"}),
              HasSubstr("--max-restarts must be a whole number from 0 to 1000000, not 'x_y'"));
  EXPECT_THAT(Refused({"run", "--hang_action=a_b", "--", "true"}),
              HasSubstr("--hang-action must be one of warn, kill, not 'a_b'"));
  EXPECT_THAT(Refused({"run", "--max_restart", "3", "--", "true"}),
              HasSubstr("no option --max_restart; did you mean --max-restarts?"));
}

TEST(Usage, WhatTheOptionsOfAGangAskForIsToldAtOnce) {
  EXPECT_THAT(Refused({"run", "--ps", "1", "--", "true"}), HasSubstr("add --chief 1"));
  EXPECT_THAT(Refused({"run", "--chief", "2", "--", "true"}), HasSubstr("from 0 to 1"));
}

TEST(Usage, ASwitchTakesNoValue) {
  for (const char* option : {"--gang=maybe", "--insecure=zz", "--dry-run=x", "--debug-libs=1"}) {
    EXPECT_THAT(Refused({"run", option, "--", "true"}), HasSubstr("override")) << option;
  }
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
