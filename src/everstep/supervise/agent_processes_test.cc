// supervise: tests of the agent: what is seen of processes, what they leave behind, their ports.
#include <signal.h>

#include "absl/strings/numbers.h"
#include "everstep/supervise/agent_test_job.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

// Of a shell that dies of SIGTERM at once, and of the program that it wraps.
class AgentWrapperTest : public AgentTest {
 protected:
  // Tells worker:0 to leave once the program is up; how long that took.
  Duration RunAndTell(const std::string& before, const std::string& program, Duration grace) {
    options_.program = {"sh", "-c", before + " sh -c \"$0\"; true", program};
    link_.orders = {Worker(0)};
    EndAfter(1, 0);
    TimePoint told;
    Once("worker:0|up", [&] {
      told = RealClock().Now();
      link_.orders.push_back(Kill{100, grace});
    });
    Run();
    EXPECT_EQ(link_.Sent<Exited>().at(0).wait_status, SIGTERM);
    EXPECT_THAT(view_.said, IsEmpty());
    return RealClock().Now() - told;
  }
  const std::string saves_ =
      "trap 'sleep 1; echo saved; exit' TERM; echo up; while :; do sleep 0.01; done";
};

TEST_F(AgentWrapperTest, TheProgramHasTheGraceToSave) {
  EXPECT_LT(RunAndTell("", saves_, seconds(20)), seconds(5));
  EXPECT_THAT(view_.lines(), Contains("worker:0|saved"));
}

TEST_F(AgentWrapperTest, TheProgramHearsThatItIsToLeaveInAGroupOfItsOwnToo) {
  EXPECT_LT(RunAndTell("timeout 100", saves_, seconds(20)), seconds(5));
  EXPECT_THAT(view_.lines(), Contains("worker:0|saved"));
}

TEST_F(AgentWrapperTest, AProgramThatDoesNotLeaveIsKilledWhenTheGraceIsOver) {
  const Duration took = RunAndTell("", "trap '' TERM; echo up; sleep 1000; true", seconds(1));
  EXPECT_GE(took, seconds(1));
  EXPECT_LT(took, seconds(3));
}

TEST_F(AgentWrapperTest, AtTheEndOfTheJobTheProgramHasItsGraceToo) {
  options_.program = {"sh", "-c", "sh -c \"$0\"; true", saves_};
  link_.orders = {Worker(0)};
  Once("worker:0|up", [&] { link_.orders.push_back(JobEnded{75, "enough"}); });
  Run();
  EXPECT_THAT(view_.lines(), Contains("worker:0|saved"));
}

TEST_F(AgentLeftTest, OfAProcessThatWasToldToLeaveHearItAndGoAtOnce) {
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

}  // namespace
}  // namespace everstep
