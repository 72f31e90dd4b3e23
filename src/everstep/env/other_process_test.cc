// env: tests of what can be done to others' processes.
#include "everstep/env/other_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/process.h"

namespace everstep {
namespace {

using std::chrono::seconds;

Process Start(const std::string& script) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  options.environment = {{"PATH", "/usr/bin:/bin"}, {"MARK", "a=b"}, {"EMPTY", ""}};
  options.pipe_output = true;
  absl::StatusOr<Process> process = Process::Spawn(options);
  EXPECT_TRUE(process.ok()) << process.status();
  char byte = 0;
  EXPECT_EQ(ReadSome(process->out().get(), &byte, 1), 1);  // it is up
  return *std::move(process);
}

TEST(VariableOf, TellsWhatTheProcessWasStartedWith) {
  const Process process = Start("echo; MARK=changed; sleep 100; true");
  EXPECT_EQ(VariableOf(process.pid(), "MARK"), "a=b");
  EXPECT_EQ(VariableOf(process.pid(), "EMPTY"), "");
  EXPECT_EQ(VariableOf(process.pid(), "MAR"), std::nullopt);
  EXPECT_EQ(VariableOf(1 << 30, "MARK"), std::nullopt);
}

TEST(CatchesSignal, OnlyWhereThereIsAHandler) {
  const Process process = Start("trap 'x=1' USR1; trap '' USR2; echo; while :; do sleep 1; done");
  EXPECT_TRUE(CatchesSignal(process.pid(), SIGUSR1));
  EXPECT_FALSE(CatchesSignal(process.pid(), SIGUSR2)) << "ignored";
  EXPECT_FALSE(CatchesSignal(process.pid(), SIGABRT));
  EXPECT_FALSE(CatchesSignal(1 << 30, SIGUSR1));
}

TEST(SignalPidFd, ReachesTheProcess) {
  Process process = Start("echo; exec sleep 100");
  SignalPidFd(process.pidfd(), SIGINT);
  EXPECT_EQ(process.Wait(After(RealClock(), seconds(5))), SIGINT);
}

TEST(ForbidCoreDump, ADeathThatWouldLeaveOneDoesNot) {
  Process process = Start("echo; exec sleep 100");
  rlimit limit{1 << 20, 1 << 20};
  ASSERT_EQ(prlimit(process.pid(), RLIMIT_CORE, &limit, nullptr), 0) << "no core files allowed";
  ForbidCoreDump(process.pid());
  ASSERT_EQ(prlimit(process.pid(), RLIMIT_CORE, nullptr, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, 0u);
  process.Signal(SIGABRT);
  const std::optional<int> status = process.Wait(After(RealClock(), seconds(5)));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(WTERMSIG(*status), SIGABRT);
}

TEST(DescriptorOf, TellsAPipe) {
  const Process process = Start("echo; exec sleep 100");
  EXPECT_THAT(DescriptorOf(process.pid(), 1), testing::StartsWith("pipe:["));
  EXPECT_EQ(DescriptorOf(process.pid(), 0), "/dev/null");
  EXPECT_EQ(DescriptorOf(process.pid(), 77), "");
}

}  // namespace
}  // namespace everstep
