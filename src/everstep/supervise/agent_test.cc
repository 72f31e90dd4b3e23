// supervise: tests of the agent, with a coordinator of the test's making and real processes.
#include "everstep/supervise/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/supervise/agent_test_job.h"
#include "everstep/supervise/guardian.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(AgentTest, RunsWhatItIsToldShowsAndReportsIt) {
  Script("echo $TF_CONFIG; echo $EVERSTEP_INCARNATION >&2");
  link_.orders = {Worker(0), Worker(1), Progress{7, 2, {}}, Notice{"hello"}};
  EndAfter(2, 0);
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.from_coordinator);
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_THAT(view_.lines(), Contains("worker:0|100"));
  EXPECT_THAT(view_.lines(), Contains(HasSubstr(R"("task":{"type":"worker","index":1})")));
  EXPECT_THAT(view_.steps, ElementsAre(7));
  EXPECT_THAT(view_.said, ElementsAre("hello"));
  const auto exits = link_.Sent<Exited>();
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_EQ(exits[0].wait_status, 0);
  EXPECT_THAT(*ReadWholeFile(RealFileSystem(), temp_.File("logs/worker_1/101.log")),
              HasSubstr("101\n"));
}

TEST_F(AgentTest, AFailureIsReportedWithItsLastLinesAndLog) {
  Script("echo 'disk on fire' >&2; exit 3");
  link_.orders = {Worker(1)};
  EndAfter(1, 3);
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 3);
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(result.failures[0].task, (Task{"worker", 1}));
  EXPECT_EQ(result.failures[0].tail, "disk on fire\n");
  EXPECT_EQ(result.failures[0].log_path, temp_.File("logs/worker_1/101.log"));
  EXPECT_EQ(result.logs.at({"worker", 1}), temp_.File("logs/worker_1/101.log"));
  EXPECT_EQ(ExitCodeOfWaitStatus(link_.Sent<Exited>()[0].wait_status), 3);
  EXPECT_EQ(link_.Sent<Exited>()[0].tail, "disk on fire\n");
  EXPECT_EQ(link_.Sent<Exited>()[0].log, temp_.File("logs/worker_1/101.log"));
  EXPECT_FALSE(link_.Sent<Exited>()[0].oom);
}

TEST_F(AgentTest, OfAProcessThatPrintedNothingThereIsNoLog) {
  Script("exit 3");
  link_.orders = {Worker(1)};
  EndAfter(1, 3);
  Run();
  EXPECT_EQ(link_.Sent<Exited>()[0].log, "");
}

// How many are said to be killed for memory, of two that end by `script`, while the kernel's count
// rises by `rise` after both were started.
class AgentMemoryTest : public AgentTest {
 protected:
  int SaidOf(const std::string& script, int64_t rise) {
    int64_t calls = 0;
    options_.oom_kills = [calls, rise]() mutable { return 5 + (++calls > 2 ? rise : 0); };
    Script(script);
    link_.orders = {Worker(0), Worker(1)};
    EndAfter(2, 137);
    Run();
    int said = 0;
    for (const Exited& exited : link_.Sent<Exited>()) said += exited.oom ? 1 : 0;
    return said;
  }
};

TEST_F(AgentMemoryTest, AKillWhileTheKernelsCountRoseIsForMemory) {
  EXPECT_EQ(SaidOf("kill -KILL $$", 2), 2);
}
TEST_F(AgentMemoryTest, EachOfTheKernelsKillsIsForOneProcess) {
  EXPECT_EQ(SaidOf("kill -KILL $$", 1), 1);
}
TEST_F(AgentMemoryTest, AnotherEndIsNeverForMemory) { EXPECT_EQ(SaidOf("exit 3", 2), 0); }
TEST_F(AgentMemoryTest, AKillWhileTheCountStoodIsNot) { EXPECT_EQ(SaidOf("kill -KILL $$", 0), 0); }
TEST_F(AgentMemoryTest, NothingIsSaidWhereTheKernelDoesNotTell) {
  options_.oom_kills = [] { return std::nullopt; };
  Script("kill -KILL $$");
  link_.orders = {Worker(0)};
  EndAfter(1, 137);
  Run();
  EXPECT_FALSE(link_.Sent<Exited>()[0].oom);
}

TEST_F(AgentTest, WhatCannotBeRunIsReportedAsExited) {
  options_.program = {"/no/such/program"};
  link_.orders = {Worker(0)};
  EndAfter(1, 127);
  const AgentResult result = Run();
  ASSERT_EQ(link_.Sent<Exited>().size(), 1u);
  EXPECT_EQ(ExitCodeOfWaitStatus(link_.Sent<Exited>()[0].wait_status), 127);
  EXPECT_THAT(link_.Sent<Exited>()[0].tail, HasSubstr("/no/such/program"));
  ASSERT_EQ(result.failures.size(), 1u);
}

TEST_F(AgentTest, KillAsksFirstAndTheProcessMayFinish) {
  Script("trap 'echo bye; exit 143' TERM; echo up; while :; do sleep 0.01; done");
  link_.orders = {Worker(0)};
  EndAfter(1, 0);
  Once("worker:0|up", [&] { link_.orders.push_back(Kill{100, seconds(10)}); });
  const AgentResult result = Run();
  EXPECT_THAT(view_.lines(), Contains("worker:0|bye"));
  EXPECT_EQ(ExitCodeOfWaitStatus(link_.Sent<Exited>()[0].wait_status), 143);
  EXPECT_THAT(result.failures, IsEmpty()) << "it was told to leave";
  EXPECT_LT(took_, seconds(5));
}

TEST_F(AgentTest, KillInsistsAfterTheGrace) {
  Script("trap '' TERM; echo up; while :; do sleep 0.01; done");
  link_.orders = {Worker(0)};
  EndAfter(1, 0);
  Once("worker:0|up", [&] { link_.orders.push_back(Kill{100, milliseconds(200)}); });
  Run();
  EXPECT_EQ(ExitCodeOfWaitStatus(link_.Sent<Exited>()[0].wait_status), 137);
  EXPECT_LT(took_, seconds(5));
}

TEST_F(AgentTest, AStoppedProcessHearsThatItMustLeave) {
  Script("trap 'echo bye; exit 0' TERM; echo up; kill -STOP $$; sleep 1000");
  link_.orders = {Worker(0)};
  EndAfter(1, 0);
  Once("worker:0|up", [&] { link_.orders.push_back(Kill{100, seconds(10)}); });
  Run();
  EXPECT_THAT(view_.lines(), Contains("worker:0|bye"));
}

TEST_F(AgentTest, WhatLibrariesSayForDebuggingIsBesideTheLog) {
  Script("echo 'I0000 00:00:17.1 1 a.cc:1] x' >&2; echo mine >&2");
  Spawn spawn = Worker(0);
  spawn.settings["EVERSTEP_DEBUG_LIBS"] = "1";
  link_.orders = {spawn};
  EndAfter(1, 0);
  Run();
  EXPECT_THAT(view_.lines(), ElementsAre("worker:0|mine"));
  EXPECT_THAT(*ReadWholeFile(RealFileSystem(), temp_.File("logs/worker_0/100.libs.log")),
              HasSubstr("a.cc:1] x"));
}

TEST_F(AgentTest, TheEndOfTheJobEndsWhatStillRuns) {
  Script("echo up; exec sleep 1000");
  link_.orders = {Worker(0)};
  Once("worker:0|up", [&] { link_.orders.push_back(JobEnded{65, "bad data"}); });
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 65);
  EXPECT_EQ(result.reason, "bad data");
  EXPECT_EQ(link_.Sent<Exited>().size(), 1u);
}

TEST_F(AgentTest, AnUnreachableCoordinatorIsGivenUpAndTheProcessesLeave) {
  Script("trap 'echo bye; exit 143' TERM; echo up; while :; do sleep 0.01; done");
  options_.away_limit = seconds(30);
  link_.orders = {Worker(0)};
  Once("worker:0|up", [&] { link_.away = seconds(31); });
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 75);
  EXPECT_THAT(result.reason, HasSubstr("127.0.0.1:29700"));
  EXPECT_THAT(view_.lines(), Contains("worker:0|bye"));
}

TEST_F(AgentTest, OneThatIsLostBeforeItGaveATaskIsAwaitedNoLongerThanTheStart) {
  options_.away_limit = seconds(30);
  options_.away_limit_at_start = seconds(10);
  link_.away = seconds(11);
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 75);
  EXPECT_THAT(result.reason, HasSubstr("for 11 s and has given this process no task"));
}

TEST_F(AgentTest, ACoordinatorThatDiesEndsTheJob) {
  SpawnOptions coordinator;
  coordinator.argv = {"sh", "-c", "exec sleep 1000"};
  coordinator.environment = {{"PATH", "/bin"}};
  absl::StatusOr<Process> process = Process::Spawn(coordinator);
  ASSERT_TRUE(process.ok());
  options_.coordinator = &*process;
  Script("echo up; exec sleep 1000");
  link_.orders = {Worker(0)};
  Once("worker:0|up", [&] { process->Signal(SIGKILL); });
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 75);
  EXPECT_EQ(result.reason, "the coordinator was killed by SIGKILL");
  EXPECT_THAT(view_.said,
              Contains(testing::HasSubstr("killed by SIGKILL; the workers are told to leave")))
      << "at once: their leaving may take long";
}

TEST_F(AgentTest, ACoordinatorThatHasEndedTheJobUnheardEndsItWithItsOwnCode) {
  for (int code : {0, 3, 143}) {
    SpawnOptions coordinator;
    coordinator.argv = {"sh", "-c", "exit " + std::to_string(code)};
    coordinator.environment = {{"PATH", "/bin"}};
    absl::StatusOr<Process> process = Process::Spawn(coordinator);
    ASSERT_TRUE(process.ok());
    options_.coordinator = &*process;
    const AgentResult result = Run();
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.reason.empty(), code == 0) << result.reason;
  }
}

class AgentSignalTest : public AgentTest {
 protected:
  AgentSignalTest() {
    sigprocmask(SIG_BLOCK, nullptr, &before_);
    signals_.emplace(std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGCHLD});
    options_.signals = &*signals_;
    Script("trap '' TERM; echo up; while :; do sleep 0.01; done");
    link_.orders = {Worker(0)};
  }
  ~AgentSignalTest() override { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  sigset_t before_;
  std::optional<SignalQueue> signals_;
};

TEST_F(AgentSignalTest, AskTheCoordinatorToStopTheJob) {
  link_.on_send = [&](const AgentMessage& m) {
    if (std::holds_alternative<StopRequest>(m)) link_.orders.push_back(JobEnded{143, "SIGINT"});
  };
  Once("worker:0|up", [] { raise(SIGINT); });
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 143);
  EXPECT_THAT(link_.Sent<StopRequest>(), testing::SizeIs(1));
  EXPECT_EQ(link_.Sent<StopRequest>()[0].reason, "SIGINT");
}

TEST_F(AgentSignalTest, HeardTwiceAtOnceIsOneWish) {
  options_.grace = milliseconds(300);
  options_.stop_margin = milliseconds(200);
  options_.second_signal_after = seconds(2);
  Once("worker:0|up", [] {
    raise(SIGINT);
    raise(SIGTERM);
  });
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 143);
  EXPECT_THAT(result.reason, HasSubstr("did not end the job in time"));
  EXPECT_GE(took_, milliseconds(500));
  EXPECT_THAT(link_.Sent<StopRequest>(), testing::SizeIs(1));
}

TEST_F(AgentSignalTest, TheSecondOneEndsAllAtOnce) {
  options_.second_signal_after = milliseconds(100);
  std::optional<TimePoint> first;
  bool second = false;
  link_.on_poll = [&] {
    if (!first.has_value() && view_.Has("worker:0|up")) {
      raise(SIGTERM);
      first = RealClock().Now();
    } else if (first.has_value() && !second && RealClock().Now() - *first > milliseconds(200)) {
      second = true;
      raise(SIGTERM);
    }
  };
  const AgentResult result = Run();
  EXPECT_EQ(result.code, 143);
  EXPECT_EQ(result.reason, "SIGTERM twice");
  EXPECT_LT(took_, seconds(4));
}

TEST_F(AgentSignalTest, WithoutACoordinatorTheAgentStopsItsProcessesItself) {
  options_.grace = milliseconds(200);
  link_.away = seconds(1);
  Once("worker:0|up", [] { raise(SIGTERM); });
  EXPECT_EQ(Run().code, 143);
  EXPECT_LT(took_, seconds(4));
}

TEST_F(AgentSignalTest, AnAgentWhoseParentIsGoneLeavesSoon) {
  options_.parent = 1 << 30;  // nobody
  options_.orphan_grace = milliseconds(200);
  Once("worker:0|up", [] { raise(SIGTERM); });
  EXPECT_EQ(Run().code, 143);
  EXPECT_LT(took_, seconds(4));
}

TEST(Guardian, PassesTheCodeAndTheSignalsOn) {
  EXPECT_EQ(RunGuarded([](const GuardedProcess&) { return 42; }), 42);
  EXPECT_EQ(RunGuarded([](const GuardedProcess& self) {
              kill(self.guardian, SIGTERM);
              const Deadline deadline = After(RealClock(), seconds(5));
              while (RealClock().Now() < deadline) {
                if (self.signals->Next() == SIGTERM) return 5;
              }
              return 6;
            }),
            5);
}

TEST(Guardian, KillsWhatAKilledAgentLeaves) {
  const TimePoint start = RealClock().Now();
  const int code = RunGuarded(
      [](const GuardedProcess&) {
        SpawnOptions options;
        options.argv = {"setsid", "sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"};
        options.environment = {{"PATH", "/usr/bin:/bin"}};
        absl::StatusOr<Process> process = Process::Spawn(options);
        raise(SIGKILL);
        return 0;
      },
      milliseconds(200));
  EXPECT_EQ(code, 137);
  EXPECT_FALSE(HasChildren());
  EXPECT_LT(RealClock().Now() - start, seconds(4));
}

}  // namespace
}  // namespace everstep
