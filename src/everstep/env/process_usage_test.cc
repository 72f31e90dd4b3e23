// env: what is seen of processes from outside, with real ones.
#include "everstep/env/process_usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>

#include "everstep/env/clock.h"
#include "everstep/env/process.h"
#include "everstep/env/socket.h"
#include "everstep/env/temp_directory.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Process Start(std::vector<std::string> argv, const std::string& directory = "") {
  SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = CurrentEnvironment();
  options.working_directory = directory;
  return Process::Spawn(options).value();
}
Process StartPython(const std::string& program, const std::string& directory = "") {
  return Start({"python3", "-c", program}, directory);
}

bool Eventually(const std::function<bool()>& condition) {
  const Deadline deadline = After(RealClock(), seconds(20));
  while (!condition()) {
    if (RealClock().Now() > deadline) return false;
    SleepFor(milliseconds(20));
  }
  return true;
}

ProcessUsage LookAll(UsageMeter& meter, pid_t pid) {
  return meter.Look(UsageMeter::Scope::kAll)[pid];
}
ProcessUsage LookKnown(UsageMeter& meter, pid_t pid) {
  return meter.Look(UsageMeter::Scope::kKnown)[pid];
}

TEST(ProcessUsageTest, ASleepingShellUsesNothing) {
  Process shell = Start({"sleep", "60"});
  UsageMeter meter;
  meter.Add(shell.pid());
  const ProcessUsage before = LookAll(meter, shell.pid());
  SleepFor(milliseconds(200));
  const ProcessUsage after = LookKnown(meter, shell.pid());
  EXPECT_TRUE(after.alive);
  EXPECT_FALSE(after.stopped);
  EXPECT_FALSE(after.python);
  EXPECT_THAT(after.pids, SizeIs(1));
  EXPECT_GT(after.memory, 0);
  EXPECT_EQ(after.cpu, before.cpu);
  EXPECT_EQ(after.written, before.written);
}

TEST(ProcessUsageTest, CpuTimeOfTheWholeTreeIsCounted) {
  Process burner = Start({"bash", "-c", "(while :; do :; done) & wait"});
  UsageMeter meter;
  meter.Add(burner.pid());
  ASSERT_TRUE(Eventually([&] { return LookAll(meter, burner.pid()).pids.size() == 2; }));
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, burner.pid()).cpu > milliseconds(100); }));
}

TEST(ProcessUsageTest, WhatEndedIsNeitherForgottenNorCountedTwice) {
  const TempDirectory dir;  // a child burns half a second, seen as its own, then as its parent's
  Process parent = StartPython(
      "import os, time\n"
      "if os.fork() == 0:\n"
      "  open('ready', 'w')\n"
      "  end = time.process_time() + 0.5\n"
      "  while time.process_time() < end: pass\n"
      "  os._exit(0)\n"
      "os.wait()\n"
      "time.sleep(60)\n",
      dir.path());
  UsageMeter meter;
  meter.Add(parent.pid());
  ASSERT_TRUE(Eventually([&] { return RealFileSystem().Exists(dir.File("ready")); }));
  ASSERT_EQ(LookAll(meter, parent.pid()).pids.size(), 2u);
  Duration last{};
  ASSERT_TRUE(Eventually([&] {
    const ProcessUsage now = LookKnown(meter, parent.pid());
    EXPECT_GE(now.cpu, last) << "it only rises";
    last = now.cpu;
    return now.pids.size() == 1;
  }));
  ProcessEntry entry;
  ASSERT_TRUE(ReadProcess(parent.pid(), &entry));
  const Duration kernel = milliseconds(10) * (entry.own_ticks + entry.child_ticks);
  EXPECT_NEAR(ToSeconds(LookKnown(meter, parent.pid()).cpu), ToSeconds(kernel), 0.03);
}

TEST(ProcessUsageTest, AStoppedProcessIsSeenAsLongAsItIs) {
  Process sleeper = Start({"sleep", "60"});
  UsageMeter meter;
  meter.Add(sleeper.pid());
  EXPECT_FALSE(LookAll(meter, sleeper.pid()).stopped);
  sleeper.Signal(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, sleeper.pid()).stopped; }));
  sleeper.Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return !LookKnown(meter, sleeper.pid()).stopped; }));
}

TEST(ProcessUsageTest, AStoppedPythonUnderAShellIsAStoppedProgram) {
  Process shell = Start({"bash", "-c", "python3 -c 'import time; time.sleep(60)'; true"});
  UsageMeter meter;
  meter.Add(shell.pid());
  ASSERT_TRUE(Eventually([&] {
    const ProcessUsage usage = LookAll(meter, shell.pid());
    return usage.python && usage.pids.size() == 2;
  }));
  kill(LookAll(meter, shell.pid()).pids[1], SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, shell.pid()).stopped; }));
}

TEST(ProcessUsageTest, AStoppedShellAroundAProgramThatWorksIsNone) {
  Process shell = Start({"bash", "-c", "(while :; do :; done); true"});
  UsageMeter meter;
  meter.Add(shell.pid());
  ASSERT_TRUE(Eventually([&] { return LookAll(meter, shell.pid()).pids.size() == 2; }));
  shell.Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] {
    ProcessEntry entry;
    return ReadProcess(shell.pid(), &entry) && entry.state == 'T';
  }));
  for (int i = 0; i < 5; ++i) {
    SleepFor(milliseconds(100));
    EXPECT_FALSE(LookKnown(meter, shell.pid()).stopped);
  }
}

TEST(ProcessUsageTest, AStoppedHelperIsNotTheProgramButIsNamed) {
  const TempDirectory dir;
  Process program = StartPython(
      "import signal, subprocess, time\n"
      "subprocess.Popen(['sleep', '61']).send_signal(signal.SIGSTOP)\n"
      "open('ready', 'w')\n"
      "time.sleep(60)\n",
      dir.path());
  ASSERT_TRUE(Eventually([&] { return RealFileSystem().Exists(dir.File("ready")); }));
  UsageMeter meter;
  meter.Add(program.pid());
  ASSERT_TRUE(Eventually([&] {
    const ProcessUsage usage = LookAll(meter, program.pid());
    return usage.python && usage.pids.size() == 2;
  }));
  for (int i = 0; i < 5; ++i) {
    SleepFor(milliseconds(50));
    const ProcessUsage usage = LookKnown(meter, program.pid());
    EXPECT_FALSE(usage.stopped) << "though nothing of it uses CPU time";
    EXPECT_EQ(usage.stopped_process, "process " + std::to_string(usage.pids[1]) + " (sleep 61)");
  }
  program.Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return LookKnown(meter, program.pid()).stopped; }));
  EXPECT_THAT(LookKnown(meter, program.pid()).stopped_process, HasSubstr("python3 -c"));
  program.SignalGroup(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, program.pid()).stopped_process.empty(); }));
}

TEST(ProcessUsageTest, AStoppedShellAroundAnIdlePythonIsNone) {
  Process shell = Start({"bash", "-c", "python3 -c 'import time; time.sleep(60)'; true"});
  UsageMeter meter;
  meter.Add(shell.pid());
  ASSERT_TRUE(Eventually([&] { return LookAll(meter, shell.pid()).python; }));
  shell.Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return !LookKnown(meter, shell.pid()).stopped_process.empty(); }));
  EXPECT_FALSE(LookKnown(meter, shell.pid()).stopped);
  shell.SignalGroup(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, shell.pid()).stopped; }));
}

TEST(ProcessUsageTest, AStoppedShellAroundAnIdleProgramIsNoneUntilAllIsStopped) {
  Process shell = Start({"bash", "-c", "sleep 60; true"});
  UsageMeter meter;
  meter.Add(shell.pid());
  ASSERT_TRUE(Eventually([&] { return LookAll(meter, shell.pid()).pids.size() == 2; }));
  shell.Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return !LookKnown(meter, shell.pid()).stopped_process.empty(); }));
  EXPECT_FALSE(LookKnown(meter, shell.pid()).stopped);
  shell.SignalGroup(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, shell.pid()).stopped; }));
}

TEST(ProcessUsageTest, WhatAWrapperStartedAndDoesTheWorkIsTheProgram) {
  Process launcher = StartPython(
      "import os, time\n"
      "if os.fork() == 0:\n"
      "  end = time.process_time() + 1.5\n"
      "  while time.process_time() < end: pass\n"
      "  time.sleep(60)\n"
      "time.sleep(60)\n");
  UsageMeter meter;
  meter.Add(launcher.pid());
  ASSERT_TRUE(Eventually([&] {
    const ProcessUsage usage = LookAll(meter, launcher.pid());
    return usage.python && usage.pids.size() == 2 && usage.cpu > milliseconds(1500);
  }));
  SleepFor(milliseconds(200));
  const pid_t worker = LookAll(meter, launcher.pid()).pids[1];
  launcher.Signal(SIGSTOP);
  ASSERT_TRUE(
      Eventually([&] { return !LookKnown(meter, launcher.pid()).stopped_process.empty(); }));
  EXPECT_FALSE(LookKnown(meter, launcher.pid()).stopped);
  launcher.Signal(SIGCONT);
  kill(worker, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return LookKnown(meter, launcher.pid()).stopped; }));
}

TEST(ProcessUsageTest, WhoWasContinuedBetweenTwoLooksHasRun) {
  Process sleeper = Start({"sleep", "60"});
  UsageMeter meter;
  meter.Add(sleeper.pid());
  const auto stop = [&] {
    sleeper.Signal(SIGSTOP);
    EXPECT_TRUE(Eventually([&] {
      ProcessEntry entry;
      return ReadProcess(sleeper.pid(), &entry) && entry.state == 'T';
    }));
  };
  stop();
  const auto before = LookAll(meter, sleeper.pid()).stop;
  SleepFor(milliseconds(200));
  EXPECT_EQ(LookKnown(meter, sleeper.pid()).stop, before);
  sleeper.Signal(SIGCONT);
  SleepFor(milliseconds(50));
  stop();
  const ProcessUsage after = LookKnown(meter, sleeper.pid());
  EXPECT_TRUE(after.stopped);
  EXPECT_NE(after.stop, before);
}

TEST(ProcessUsageTest, PythonIsKnownByItsNameOrItsLibrary) {
  Process python = StartPython("import time; time.sleep(60)");
  Process other = Start({"sleep", "60"});
  EXPECT_TRUE(Eventually([&] { return IsPython(python.pid()); }));
  EXPECT_FALSE(IsPython(other.pid()));
  EXPECT_FALSE(IsPython(0x3fffffff)) << "no such process";
}

TEST(ProcessUsageTest, OrphansOfTheGroupBelongToTheTree) {
  Process shell = Start({"bash", "-c", "(sleep 60 & sleep 60 &) ; exec sleep 61"});
  EXPECT_TRUE(Eventually([&] { return ProcessTree(shell.pid()).size() == 3; }));
  EXPECT_EQ(ProcessTree(shell.pid()).front(), shell.pid());
}

TEST(ProcessUsageTest, AnOrphanThatLeftTheGroupStaysInATreeThatHasSeenIt) {
  const TempDirectory dir;
  Process program = StartPython(
      "import os, time\n"
      "child = os.fork()\n"
      "if child == 0:\n"
      "  if os.fork() == 0:\n"
      "    os.setsid()\n"
      "    open('pid', 'w').write('%9d' % os.getpid())\n"
      "  time.sleep(60)\n"
      "while not os.path.exists('go'): time.sleep(0.01)\n"
      "os.kill(child, 9)\n"
      "os.wait()\n"
      "time.sleep(60)\n",
      dir.path());
  std::string text;
  ASSERT_TRUE(Eventually([&] {
    text = ReadWholeFile(RealFileSystem(), dir.File("pid")).value_or("");
    return text.size() == 9;
  }));
  const pid_t orphan = std::stoi(text);
  UsageMeter meter;
  meter.Add(program.pid());
  EXPECT_THAT(LookAll(meter, program.pid()).pids, Contains(orphan));
  ASSERT_TRUE(RealFileSystem().OpenForWriting(dir.File("go"), FileSystem::Create::kTruncate).ok());
  ASSERT_TRUE(Eventually([&] { return LookAll(meter, program.pid()).pids.size() == 2; }));
  EXPECT_THAT(LookAll(meter, program.pid()).pids, Contains(orphan));
  kill(orphan, SIGKILL);
}

TEST(ProcessUsageTest, AMainThreadThatEndedIsNoEndWhileOthersRun) {
  const TempDirectory dir;
  Process program = StartPython(
      "import ctypes, threading, time\n"
      "f = open('held', 'w')\n"
      "threading.Thread(target=time.sleep, args=(60,)).start()\n"
      "time.sleep(0.2)\n"
      "ctypes.CDLL(None).pthread_exit(None)\n",
      dir.path());
  UsageMeter meter;
  meter.Add(program.pid());
  ProcessEntry entry;
  ASSERT_TRUE(Eventually([&] { return ReadProcess(program.pid(), &entry) && entry.state == 'Z'; }));
  const ProcessUsage usage = LookAll(meter, program.pid());
  EXPECT_TRUE(usage.alive);
  EXPECT_FALSE(usage.stopped);
  EXPECT_FALSE(OpenFilesOf(program.pid()).empty()) << "its other thread holds them";
  program.Signal(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return LookAll(meter, program.pid()).stopped; }));
}

TEST(ProcessUsageTest, AnEndedProcessIsNotAliveAndNothingThrows) {
  Process program = Start({"true"});
  UsageMeter meter;
  meter.Add(program.pid());
  ASSERT_TRUE(Eventually([&] { return program.HasExited(); }));
  EXPECT_FALSE(LookAll(meter, program.pid()).alive) << "a zombie";
  const pid_t pid = program.pid();
  program.Wait(Deadline::max());
  EXPECT_FALSE(LookAll(meter, pid).alive);
  EXPECT_FALSE(LookKnown(meter, pid).alive);
  EXPECT_TRUE(OpenFilesOf(pid).empty());
  EXPECT_TRUE(ArgumentsOf(pid).empty());
  EXPECT_EQ(WorkingDirectoryOf(pid), "");
}

TEST(ProcessUsageTest, ArgumentsDirectoryAndOpenFilesAreSeen) {
  const TempDirectory dir;
  Process program = StartPython(
      "import sys, time\n"
      "w, r = open('written', 'w'), open('/etc/passwd')\n"
      "gone = open('gone', 'w')\n"
      "__import__('os').remove('gone')\n"
      "open('ready', 'w').close()\n"
      "time.sleep(60)\n",
      dir.path());
  ASSERT_TRUE(Eventually([&] { return RealFileSystem().Exists(dir.File("ready")); }));
  EXPECT_EQ(WorkingDirectoryOf(program.pid()), dir.path());
  EXPECT_EQ(ArgumentsOf(program.pid())[1], "-c");
  bool written = false, read = false;
  for (const OpenFile& file : OpenFilesOf(program.pid())) {
    written |= file.path == dir.File("written") && file.writable;
    read |= file.path == "/etc/passwd" && !file.writable;
    EXPECT_EQ(file.path.find("gone"), std::string::npos);
  }
  EXPECT_TRUE(written);
  EXPECT_TRUE(read);
}

TEST(ProcessUsageTest, BytesWrittenAndReadAreCounted) {
  const TempDirectory dir;
  Process program = StartPython(
      "import time\n"
      "f = open('data', 'wb', buffering=0)\n"
      "f.write(bytes(300000))\n"
      "open('data', 'rb').read()\n"
      "time.sleep(60)\n",
      dir.path());
  UsageMeter meter;
  meter.Add(program.pid());
  EXPECT_TRUE(Eventually([&] {
    const ProcessUsage usage = LookKnown(meter, program.pid());
    return usage.written >= 300000 && usage.read >= 300000;
  }));
}

void ExpectTraffic(const std::string& host, const std::string& family) {
  const UniqueFd listener = ListenTcp({host, 0}).value();
  const std::string port = std::to_string(PortOf(listener.get()).value());
  Process sender = StartPython(
      "import socket, time\n"
      "s = socket.socket(socket." +
      family +
      ")\n"
      "s.connect(('" +
      host + "', " + port +
      "))\n"
      "s.sendall(bytes(200000))\n"
      "time.sleep(60)\n");
  ASSERT_TRUE(AwaitReadable(listener.get(), After(RealClock(), seconds(20))).ok());
  const UniqueFd peer = std::move(**Accept(listener.get()));
  std::vector<std::byte> bytes(200000);
  ASSERT_TRUE(ReceiveAll(peer.get(), absl::MakeSpan(bytes), After(RealClock(), seconds(20))).ok());
  UsageMeter meter;
  meter.Add(sender.pid());
  EXPECT_TRUE(Eventually([&] { return LookAll(meter, sender.pid()).network >= 200000; }));
  const int64_t sent = LookAll(meter, sender.pid()).network;
  ASSERT_TRUE(SendAll(peer.get(), absl::MakeSpan(bytes).first(10000), Deadline::max()).ok());
  EXPECT_TRUE(Eventually([&] { return LookAll(meter, sender.pid()).network >= sent + 10000; }));
}

TEST(ProcessUsageTest, TrafficOverTcpIsCountedBothWays) { ExpectTraffic("127.0.0.1", "AF_INET"); }
TEST(ProcessUsageTest, TrafficOverTcp6IsCountedToo) { ExpectTraffic("::1", "AF_INET6"); }

}  // namespace
}  // namespace everstep
