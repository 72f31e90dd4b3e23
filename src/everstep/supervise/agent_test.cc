// supervise: tests of the agent, with a coordinator of the test's making and real processes.
#include "everstep/supervise/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <deque>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/env/temp_directory.h"
#include "everstep/supervise/guardian.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Plays the coordinator in the agent's own thread.
class FakeLink : public AgentLink {
 public:
  void Send(AgentMessage message) override {
    if (on_send) on_send(message);
    sent.push_back(std::move(message));
  }
  std::optional<AgentOrder> Next(Deadline) override {
    if (on_poll) on_poll();
    if (orders.empty()) return std::nullopt;
    AgentOrder order = orders.front();
    orders.pop_front();
    return order;
  }
  Duration AwayFor() const override { return away; }

  template <typename T>
  std::vector<T> Sent() const {
    std::vector<T> all;
    for (const AgentMessage& m : sent) {
      if (const T* t = std::get_if<T>(&m)) all.push_back(*t);
    }
    return all;
  }

  std::deque<AgentOrder> orders;
  std::vector<AgentMessage> sent;
  std::function<void(const AgentMessage&)> on_send;
  std::function<void()> on_poll;
  Duration away{};
};

class FakeView : public AgentView {
 public:
  void Line(const Task& task, OutputStream stream, std::string_view line) override {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(task.ToString() + "|" + std::string(line));
  }
  void ShowProgress(const Progress& p) override { steps.push_back(p.step); }
  void Say(const std::string& text) override { said.push_back(text); }
  std::vector<std::string> lines() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  bool Has(const std::string& line) {
    const auto all = lines();
    return std::find(all.begin(), all.end(), line) != all.end();
  }

  std::vector<Step> steps;
  std::vector<std::string> said;

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    BecomeSubreaper();
    options_.context.inherited = {{"PATH", "/usr/bin:/bin"}};
    options_.context.coordinator = "127.0.0.1:29700";
    options_.context.job_directory = temp_.path();
    options_.grace = seconds(5);
  }
  ~AgentTest() override { EXPECT_TRUE(KillAllChildren(After(RealClock(), seconds(5)))); }

  void Script(const std::string& script) { options_.program = {"sh", "-c", script}; }
  Spawn Worker(int index) {
    Spawn spawn;
    spawn.task = {"worker", index};
    spawn.incarnation = 100 + index;
    for (int port : ports_.ports()) {
      spawn.cluster.jobs["worker"].push_back(absl::StrCat("127.0.0.1:", port));
    }
    return spawn;
  }
  // Ends the job when `count` processes have exited.
  void EndAfter(size_t count, int code) {
    link_.on_send = [this, count, code](const AgentMessage& message) {
      if (std::holds_alternative<Exited>(message) && ++exits_ == count) {
        link_.orders.push_back(JobEnded{code, code == 0 ? "" : "a worker failed"});
      }
    };
  }
  AgentResult Run() {
    Agent agent(options_, &view_);
    const TimePoint start = RealClock().Now();
    AgentResult result = agent.Run(link_);
    took_ = RealClock().Now() - start;
    return result;
  }
  // Runs `action` once, in the agent's loop, when the line has come.
  void Once(const std::string& line, std::function<void()> action) {
    link_.on_poll = [this, line, action, done = false]() mutable {
      if (done || !view_.Has(line)) return;
      done = true;
      action();
    };
  }

  TempDirectory temp_;
  PortReservation ports_ = *ReservePorts(29710, 29799, 2);
  AgentOptions options_;
  FakeLink link_;
  FakeView view_;
  size_t exits_ = 0;
  Duration took_{};
};

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

// Of processes that outlive the one that started them.
class AgentLeftTest : public AgentTest {
 protected:
  // Runs it; its first line is the number of the process that stays.
  void RunAndLeave(const std::string& script) {
    Script(script);
    link_.orders = {Worker(0)};
    EndAfter(1, 0);
    Run();
    const std::string line = view_.lines().at(0);
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(9), &pid_)) << line;
    exited_ = link_.Sent<Exited>().at(0);
  }
  bool IsGone() {
    EXPECT_TRUE(KillAllChildren(After(RealClock(), seconds(1))));
    return kill(pid_, 0) != 0;
  }

  int pid_ = 0;
  Exited exited_;
};

TEST_F(AgentLeftTest, AreKilledAndThatIsSaid) {
  RunAndLeave("sleep 1000 & echo $!; sleep 3.5; exit 0");
  EXPECT_TRUE(IsGone());
  EXPECT_EQ(exited_.wait_status, 0);
  EXPECT_THAT(view_.said, ElementsAre(absl::StrCat("worker:0 has ended and left behind process ",
                                                   pid_, " (sleep 1000), now killed")));
}

TEST_F(AgentLeftTest, AreFoundInASessionOfTheirOwnToo) {
  RunAndLeave("setsid sh -c 'echo $$; sleep 1000; true' & sleep 0.2; exit 3");
  EXPECT_TRUE(IsGone());
  EXPECT_EQ(exited_.wait_status, 3 << 8);
  EXPECT_THAT(view_.said, ElementsAre(AllOf(HasSubstr("2 processes: "), HasSubstr("sleep 1000"))));
}

TEST_F(AgentLeftTest, AnotherTasksAreNotTaken) {
  Script(
      "if [ $EVERSTEP_INCARNATION = 101 ]; then sleep 0.3; exit 1; fi;"
      "other=$( (setsid sleep 1000 >/dev/null 2>&1 & echo $!) );"
      "sleep 1.5; kill -0 $other && echo alive; kill $other");
  link_.orders = {Worker(0), Worker(1)};
  EndAfter(2, 0);
  Run();
  EXPECT_THAT(view_.lines(), Contains("worker:0|alive"));
}

TEST_F(AgentLeftTest, ThatEndByThemselvesAtOnceAreNotSpokenOf) {
  RunAndLeave("sh -c 'sleep 0.1' & echo $!; exit 0");
  EXPECT_EQ(exited_.wait_status, 0);
  EXPECT_THAT(view_.said, IsEmpty());
}

TEST_F(AgentLeftTest, OfAProcessThatWasToldToLeaveGoAtOnce) {
  Script("trap 'exit 143' TERM; setsid sleep 1000 & echo up; while :; do sleep 0.01; done");
  link_.orders = {Worker(0)};
  EndAfter(1, 0);
  TimePoint told;
  Once("worker:0|up", [&] {
    told = RealClock().Now();
    link_.orders.push_back(Kill{100, seconds(10)});
  });
  Run();
  EXPECT_LT(RealClock().Now() - told, milliseconds(280));
  EXPECT_THAT(view_.said, IsEmpty());
}

TEST_F(AgentLeftTest, OfOneThatSucceededWithinMomentsAreTheProgramItselfInTheBackground) {
  RunAndLeave("setsid sleep 1000 & echo $!; exit 0");
  EXPECT_TRUE(IsGone());
  EXPECT_EQ(ExitCodeOfWaitStatus(exited_.wait_status), 78);
  EXPECT_THAT(exited_.tail, HasSubstr("put itself into the background (process "));
  EXPECT_THAT(exited_.tail, HasSubstr("run it in the foreground"));
}

// The system's, but whoever opens a file to read waits a while.
class SlowFiles : public FileSystem {
 public:
  explicit SlowFiles(Duration delay) : delay_(delay) {}
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                               Create create, int mode) override {
    return real_.OpenForWriting(path, create, mode);
  }
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path) override {
    SleepFor(delay_);
    return real_.OpenForReading(path);
  }
  absl::Status CreateDirectories(const std::string& p) override {
    return real_.CreateDirectories(p);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& p) override {
    return real_.List(p);
  }
  absl::Status Rename(const std::string& a, const std::string& b) override {
    return real_.Rename(a, b);
  }
  absl::Status Link(const std::string& a, const std::string& b) override {
    return real_.Link(a, b);
  }
  absl::Status Remove(const std::string& p) override { return real_.Remove(p); }
  absl::Status RemoveTree(const std::string& p) override { return real_.RemoveTree(p); }
  absl::Status SyncDirectory(const std::string& p) override { return real_.SyncDirectory(p); }
  bool Exists(const std::string& p) override { return real_.Exists(p); }
  bool IsDirectory(const std::string& p) override { return real_.IsDirectory(p); }
  absl::StatusOr<double> ModifiedAt(const std::string& p) override { return real_.ModifiedAt(p); }

 private:
  const Duration delay_;
  FileSystem& real_ = RealFileSystem();
};

// Of what is seen of a process from outside.
class AgentWatchTest : public AgentTest {
 protected:
  AgentWatchTest() { options_.watch_interval = milliseconds(50); }
  // Ends the job once a message of this kind fulfils `condition`.
  template <typename T>
  void EndOnce(std::function<bool(const T&)> condition) {
    link_.on_send = [this, condition](const AgentMessage& message) {
      const T* said = std::get_if<T>(&message);
      if (said != nullptr && condition(*said)) link_.orders.push_back(JobEnded{0, ""});
    };
  }
};

TEST_F(AgentWatchTest, IsToldToTheCoordinator) {
  Script("echo up; exec sleep 1000");
  link_.orders = {Worker(0)};
  EndOnce<Vitals>([](const Vitals& vitals) {
    return vitals.incarnation == 100 && vitals.idle > milliseconds(100);
  });
  Run();
  EXPECT_LT(took_, seconds(10));
}

TEST_F(AgentWatchTest, OutputIsSeen) {
  Script("sleep 0.5; while :; do echo on; sleep 0.01; done");
  link_.orders = {Worker(0)};
  bool idle = false;
  EndOnce<Vitals>([&idle](const Vitals& vitals) {
    idle = idle || vitals.idle > milliseconds(300);
    return idle && vitals.idle < milliseconds(60);
  });
  Run();
  EXPECT_TRUE(idle);
}

TEST_F(AgentWatchTest, APythonProgramFindsTheHeartbeatsModuleAndItsBeatsAreHeard) {
  options_.context.inherited["PYTHONPATH"] = "/mine";
  options_.program = {"python3", "-c",
                      "import os, time, everstep_heartbeat\n"
                      "print(os.environ['PYTHONPATH'].split(':')[0], flush=True)\n"
                      "while True:\n"
                      "    everstep_heartbeat.beat(step=7)\n"
                      "    time.sleep(0.05)\n"};
  link_.orders = {Worker(0)};
  EndOnce<Vitals>([](const Vitals& vitals) { return vitals.beats && vitals.step == 7; });
  Run();
  EXPECT_LT(took_, seconds(10));
  EXPECT_THAT(view_.lines(), ElementsAre("worker:0|/mine"));
}

TEST_F(AgentWatchTest, BetweenTwoLivesADamagedCheckpointIsNamedBeforeTheNextLifeBegins) {
  SlowFiles files(milliseconds(700));
  options_.fs = &files;
  Spawn first = Worker(0), second = Worker(0);
  second.incarnation = 200;
  first.settings["EVERSTEP_CHECKPOINT_PATH"] = second.settings["EVERSTEP_CHECKPOINT_PATH"] =
      temp_.File("saved");
  Script(
      absl::StrCat("if [ $EVERSTEP_INCARNATION = 200 ]; then exit 0; fi;"
                   "cd ",
                   temp_.path(),
                   "; mkdir saved; echo rotten > saved/ckpt-5.index;"
                   "echo rotten > saved/ckpt-5.data-00000-of-00001; sleep 1000"));
  link_.orders = {first};
  size_t exits = 0;
  link_.on_send = [&](const AgentMessage& message) {
    if (std::holds_alternative<CheckpointSeen>(message)) {
      link_.orders.push_back(Kill{100, Duration::zero()});
    }
    if (!std::holds_alternative<Exited>(message)) return;
    if (++exits == 1) link_.orders.push_back(second);
    if (exits == 2) link_.orders.push_back(JobEnded{0, ""});
  };
  Run();
  ASSERT_EQ(link_.Sent<CheckpointSeen>().size(), 1u);
  ASSERT_EQ(link_.Sent<Note>().size(), 1u);
  EXPECT_EQ(link_.Sent<Note>()[0].kind, "checkpoint_rejected");
  EXPECT_THAT(link_.Sent<Note>()[0].text, HasSubstr("ckpt-5 is damaged"));
  const auto is_note = [](const AgentMessage& m) { return std::holds_alternative<Note>(m); };
  const auto is_second = [](const AgentMessage& m) {
    const auto* exited = std::get_if<Exited>(&m);
    return exited != nullptr && exited->incarnation == 200;
  };
  EXPECT_LT(std::find_if(link_.sent.begin(), link_.sent.end(), is_note) - link_.sent.begin(),
            std::find_if(link_.sent.begin(), link_.sent.end(), is_second) - link_.sent.begin());
}

class AgentPortTest : public AgentTest {
 protected:
  AgentPortTest() {
    options_.ports = &ports_;
    options_.port_patience = milliseconds(300);
    Script("echo up");
    link_.orders = {Worker(0)};
    port_ = ports_.ports()[0];
  }
  template <typename T>
  size_t IndexOf() {
    size_t index = 0;
    while (index < link_.sent.size() && !std::holds_alternative<T>(link_.sent[index])) ++index;
    return index;
  }
  UniqueFd Take() { return *ListenTcp({"127.0.0.1", port_}); }

  int port_ = 0;
};

TEST_F(AgentPortTest, ABusyOneIsSaidAndAnotherIsOffered) {
  const UniqueFd taken = Take();
  EndAfter(1, 75);
  Run();
  EXPECT_THAT(view_.lines(), IsEmpty());
  const Exited exited = link_.Sent<Exited>().at(0);
  EXPECT_EQ(ExitCodeOfWaitStatus(exited.wait_status), 75);
  EXPECT_EQ(exited.tail, absl::StrCat("port ", port_, " is taken by another process\n"));
  EXPECT_LT(IndexOf<Ports>(), IndexOf<Exited>()) << "before the news of its end";
  const std::vector<int> offered = link_.Sent<Ports>().at(0).ports;
  EXPECT_EQ(offered, ports_.ports());
  EXPECT_THAT(offered, testing::Not(Contains(port_)));
  EXPECT_GE(took_, milliseconds(300));
}

TEST_F(AgentPortTest, OneThatIsFreeInTimeIsUsed) {
  UniqueFd taken = Take();
  EndAfter(1, 0);
  const TimePoint began = RealClock().Now();
  link_.on_poll = [&] {
    if (RealClock().Now() - began > milliseconds(100)) taken.Reset();
  };
  Run();
  EXPECT_THAT(view_.lines(), ElementsAre("worker:0|up"));
  EXPECT_THAT(link_.Sent<Ports>(), IsEmpty());
}

TEST_F(AgentPortTest, OneThatIsTakenWhenAProcessHasEndedIsReplaced) {
  UniqueFd taken;
  Once("worker:0|up", [&] { taken = Take(); });
  Script("echo up; sleep 1");
  EndAfter(1, 0);
  Run();
  ASSERT_EQ(link_.Sent<Ports>().size(), 1u);
  EXPECT_THAT(link_.Sent<Ports>()[0].ports, testing::Not(Contains(port_)));
  EXPECT_LT(IndexOf<Ports>(), IndexOf<Exited>());
}

TEST_F(AgentPortTest, OneThatItsProcessStillUsesStays) {
  options_.program = {"python3", "-c",
                      "import json, os, socket, sys, time\n"
                      "config = json.loads(os.environ['TF_CONFIG'])\n"
                      "if config['task']['index'] == 1: time.sleep(0.5); sys.exit(1)\n"
                      "port = int(config['cluster']['worker'][0].split(':')[1])\n"
                      "server = socket.create_server(('0.0.0.0', port))\n"
                      "time.sleep(1.5)\n"};
  link_.orders.push_back(Worker(1));
  EndAfter(2, 0);
  Run();
  EXPECT_EQ(link_.Sent<Exited>().at(0).incarnation, 101u);
  EXPECT_THAT(link_.Sent<Ports>(), IsEmpty());
}

TEST_F(AgentPortTest, AProcessThatWaitsForItCanBeKilled) {
  const UniqueFd taken = Take();
  options_.port_patience = seconds(30);
  link_.orders.push_back(Kill{100, seconds(10)});
  EndAfter(1, 0);
  Run();
  EXPECT_TRUE(WasKilled(link_.Sent<Exited>().at(0).wait_status));
  EXPECT_LT(took_, seconds(5));
}

class AgentStacksTest : public AgentTest {
 protected:
  // What is seen of the processes wakes the agent often.
  AgentStacksTest() { options_.watch_interval = milliseconds(20); }
  // Asks for the stacks once "up" has come.
  Stacks RunAndTake() {
    link_.orders = {Worker(0)};
    Once("worker:0|up", [&] { link_.orders.push_back(TakeStacks{100}); });
    link_.on_send = [&](const AgentMessage& message) {
      if (std::holds_alternative<Stacks>(message)) link_.orders.push_back(JobEnded{75, "a hang"});
    };
    Run();
    EXPECT_EQ(link_.Sent<Stacks>().size(), 1u);
    return link_.Sent<Stacks>().empty() ? Stacks() : link_.Sent<Stacks>()[0];
  }
  void Python(const std::string& script) {
    options_.context.inherited["PYTHONUNBUFFERED"] = "1";
    options_.program = {"python3", "-c", script};
  }
};

constexpr char kHangingPython[] = R"(
import os, signal, threading, time
def helper_that_waits():
    time.sleep(1000)
def main_that_waits():
    while True:
        print("up", flush=True)
        STOP
        time.sleep(1000)
threading.Thread(target=helper_that_waits, daemon=True).start()
time.sleep(0.1)
main_that_waits()
)";

std::string HangingPython(const std::string& stop) {
  std::string script = kHangingPython;
  return script.replace(script.find("STOP"), 4, stop);
}

TEST_F(AgentStacksTest, OfPythonAreThoseOfAllItsThreads) {
  Python(HangingPython("pass"));
  const Stacks stacks = RunAndTake();
  EXPECT_EQ(stacks.incarnation, 100u);
  EXPECT_THAT(stacks.text, HasSubstr("in main_that_waits"));
  EXPECT_THAT(stacks.text, HasSubstr("in helper_that_waits"));
  EXPECT_THAT(stacks.text, HasSubstr(": python3 -c"));
  EXPECT_EQ(stacks.path, temp_.File("logs/worker_0/stacks-100.txt"));
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), stacks.path), stacks.text);
  EXPECT_LT(took_, seconds(5));
  EXPECT_EQ(link_.Sent<Exited>().size(), 1u);
  for (const AgentMessage& message : link_.sent) {
    EXPECT_FALSE(std::holds_alternative<Exited>(message)) << "its end is told afterwards";
    if (std::holds_alternative<Stacks>(message)) break;
  }
}

TEST_F(AgentStacksTest, OfAStoppedPythonTooAndThatItWasStopped) {
  Python(HangingPython("os.kill(os.getpid(), signal.SIGSTOP)"));
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr("(stopped by a signal)"));
  EXPECT_THAT(stacks.text, HasSubstr("in main_that_waits"));
}

TEST_F(AgentStacksTest, OfAPythonWithoutAFaultHandlerAreNativeAndItLivesOn) {
  options_.context.inherited["PYTHONFAULTHANDLER"] = "";
  Python(HangingPython("pass"));
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr("#0 "));
  EXPECT_THAT(stacks.text, testing::Not(HasSubstr("in main_that_waits")));
  EXPECT_EQ(link_.Sent<Exited>().at(0).wait_status, SIGTERM) << "by the end of the job";
}

TEST_F(AgentStacksTest, OfOtherProgramsAreNativeOfTheWholeTree) {
  Script("echo up; sleep 1000; true");
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr(": sh -c echo up"));
  EXPECT_THAT(stacks.text, HasSubstr(": sleep 1000\nthread "));
  EXPECT_THAT(stacks.text, HasSubstr("nanosleep"));
}

TEST_F(AgentStacksTest, OfAPythonUnderAShellAreThePythons) {
  Python(HangingPython("pass"));
  options_.program = {"sh", "-c", "python3 -c \"$0\"; true", options_.program[2]};
  EXPECT_THAT(RunAndTake().text, HasSubstr("in main_that_waits"));
}

TEST_F(AgentStacksTest, OfAPythonWhoseErrorsGoToAnotherProcessAreNative) {
  Python(HangingPython("pass"));
  options_.program = {"sh", "-c", "python3 -c \"$0\" 2>&1 | cat", options_.program[2]};
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, testing::Not(HasSubstr("without a word")));
  EXPECT_THAT(stacks.text, HasSubstr("PyEval")) << "the interpreter's functions";
}

TEST_F(AgentStacksTest, OfAPythonThatSpeaksToSomebodyElseAreNative) {
  Python(HangingPython("os.dup2(os.open(os.devnull, os.O_WRONLY), 2)"));
  const Stacks stacks = RunAndTake();
  EXPECT_THAT(stacks.text, HasSubstr("#0 "));
}

TEST_F(AgentStacksTest, OfAProcessThatHasEndedAreAWordOfThat) {
  Script("exit 0");
  link_.orders = {Worker(0)};
  link_.on_send = [&](const AgentMessage& message) {
    if (std::holds_alternative<Exited>(message)) link_.orders.push_back(TakeStacks{100});
    if (std::holds_alternative<Stacks>(message)) link_.orders.push_back(JobEnded{0, ""});
  };
  Run();
  EXPECT_EQ(link_.Sent<Stacks>().at(0).text, "it has ended\n");
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
