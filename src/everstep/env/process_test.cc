// env: tests of processes.
#include "everstep/env/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

SpawnOptions Shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  options.pipe_output = true;
  return options;
}

Process MustSpawn(const SpawnOptions& options) {
  absl::StatusOr<Process> process = Process::Spawn(options);
  if (!process.ok()) {
    ADD_FAILURE() << process.status();
    abort();
  }
  return *std::move(process);
}

std::string ReadToEnd(int fd) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ptrdiff_t n = ReadSome(fd, buffer, sizeof buffer);
    if (n <= 0) return text;
    text.append(buffer, n);
  }
}

std::string ReadLine(int fd) {
  std::string line;
  char c;
  while (ReadSome(fd, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

Deadline In(Duration d) { return After(RealClock(), d); }

bool WaitReadable(int fd, Duration timeout) {
  PollItem item{fd, true};
  EXPECT_TRUE(Poll(absl::MakeSpan(&item, 1), timeout).ok());
  return item.readable;
}

bool Alive(pid_t pid) { return kill(pid, 0) == 0; }

TEST(Process, GivesOutputAndStatus) {
  Process p = MustSpawn(Shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(ReadToEnd(p.out().get()), "out\n");
  EXPECT_EQ(ReadToEnd(p.err().get()), "err\n");
  const auto status = p.Wait(In(seconds(5)));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(ExitCodeOfWaitStatus(*status), 3);
  EXPECT_EQ(DescribeWaitStatus(*status), "exited with code 3");
  EXPECT_EQ(p.Wait(In(seconds(0))), status) << "the status stays known";
}

TEST(Process, ChildHasExactlyTheEnvironmentItIsGiven) {
  SpawnOptions options = Shell("env");
  options.argv = {"env"};
  options.environment["A"] = "b = c";
  Process p = MustSpawn(options);
  EXPECT_EQ(ReadToEnd(p.out().get()), "A=b = c\nPATH=/usr/bin:/bin\n");
}

TEST(Process, ChildInheritsOnlyWhatIsNamed) {
  const int leaked = open("/dev/zero", O_RDONLY);  // without close-on-exec
  ASSERT_GE(leaked, 3);
  absl::StatusOr<Pipe> pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  SpawnOptions options = Shell("ls -l /proc/self/fd | grep -c -e /dev/zero; echo hi >&7; cat");
  options.descriptors = {{pipe->write.get(), 7}};
  Process p = MustSpawn(options);
  pipe->write.Reset();
  EXPECT_EQ(ReadToEnd(pipe->read.get()), "hi\n");
  EXPECT_EQ(ReadToEnd(p.out().get()), "0\n") << "and standard input is empty";
  close(leaked);
}

TEST(Process, DescriptorsMayTradeNumbers) {
  absl::StatusOr<Pipe> a = MakePipe(), b = MakePipe();
  const int x = a->write.get(), y = b->write.get();
  SpawnOptions options = Shell(absl::StrCat("echo to-b >&", x, "; echo to-a >&", y));
  options.argv[0] = "bash";  // dash knows one-digit descriptors only
  options.descriptors = {{x, y}, {y, x}};
  Process p = MustSpawn(options);
  a->write.Reset();
  b->write.Reset();
  EXPECT_EQ(ReadToEnd(a->read.get()), "to-a\n");
  EXPECT_EQ(ReadToEnd(b->read.get()), "to-b\n");
}

TEST(Process, WhatIsExecutedMayBeAnotherThanItsName) {
  SpawnOptions options = Shell("echo $0");
  options.executable = "/bin/sh";
  options.argv = {"of-this-name", "-c", "tr '\\0' ' ' < /proc/$$/cmdline | head -c 12"};
  Process p = MustSpawn(options);
  EXPECT_EQ(ReadToEnd(p.out().get()), "of-this-name");
  options.executable = "/no/such";
  EXPECT_EQ(Process::Spawn(options).status().code(), absl::StatusCode::kNotFound);
}

TEST(Process, MissingProgramIsNamed) {
  SpawnOptions options = Shell("");
  options.argv = {"no-such-program-here"};
  EXPECT_EQ(Process::Spawn(options).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Process::Spawn(options).status().message()),
              HasSubstr("'no-such-program-here'"));
  options.argv = {"/no/such"};
  EXPECT_EQ(Process::Spawn(options).status().code(), absl::StatusCode::kNotFound);
}

TEST(Process, FileWithoutExecuteBitIsRefused) {
  char path[] = "/tmp/ev-process-XXXXXX";
  close(mkstemp(path));
  SpawnOptions options = Shell("");
  options.argv = {path};
  const absl::Status status = Process::Spawn(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  options.argv = {"/tmp"};
  EXPECT_EQ(Process::Spawn(options).status().code(), absl::StatusCode::kPermissionDenied);
  unlink(path);
}

TEST(Process, ExecErrorsAfterTheForkComeBack) {
  char path[] = "/tmp/ev-process-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_EQ(write(fd, "#!/no/such/interpreter\n", 23), 23);
  close(fd);
  chmod(path, 0755);
  SpawnOptions options = Shell("");
  options.argv = {path};
  EXPECT_EQ(Process::Spawn(options).status().code(), absl::StatusCode::kNotFound);
  unlink(path);
  options = Shell("true");
  options.working_directory = "/no/such/directory";
  EXPECT_FALSE(Process::Spawn(options).ok());
  EXPECT_EQ(ExitedChild(), 0) << "the failed child is reaped";
}

TEST(Process, ScriptWithoutInterpreterLineRunsInTheShell) {
  char path[] = "/tmp/ev-process-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_EQ(write(fd, "echo $0 $1\n", 11), 11);
  close(fd);
  chmod(path, 0755);
  SpawnOptions options = Shell("");
  options.argv = {path, "arg"};
  Process p = MustSpawn(options);
  EXPECT_EQ(ReadToEnd(p.out().get()), absl::StrCat(path, " arg\n"));
  unlink(path);
}

TEST(Process, ChildHasDefaultSignalsAndAnEmptyMask) {
  signal(SIGUSR1, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Process p = MustSpawn(Shell("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
  EXPECT_EQ(ReadToEnd(p.out().get()), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  signal(SIGUSR1, SIG_DFL);
}

TEST(Process, SignalsReachTheWholeGroup) {
  Process p = MustSpawn(Shell("sleep 1000 & echo $!; wait"));
  const pid_t grandchild = atoi(ReadLine(p.out().get()).c_str());
  ASSERT_GT(grandchild, 0);
  p.SignalGroup(SIGTERM);
  const auto status = p.Wait(In(seconds(5)));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(DescribeWaitStatus(*status), "killed by SIGTERM");
  EXPECT_EQ(ExitCodeOfWaitStatus(*status), 143);
  EXPECT_EQ(ReadToEnd(p.out().get()), "") << "nobody holds the pipe any more";
}

TEST(Process, WaitKeepsItsDeadline) {
  Process p = MustSpawn(Shell("exec sleep 1000"));
  const TimePoint start = RealClock().Now();
  EXPECT_FALSE(p.Wait(In(milliseconds(30))).has_value());
  EXPECT_FALSE(p.Poll().has_value());
  EXPECT_FALSE(p.HasExited());
  EXPECT_GE(RealClock().Now() - start, milliseconds(30));
}

TEST(Process, DestroyingKillsAndReaps) {
  pid_t pid;
  {
    Process p = MustSpawn(Shell("exec sleep 1000"));
    pid = p.pid();
    Process moved = std::move(p);
    EXPECT_TRUE(Alive(pid));
  }
  EXPECT_FALSE(Alive(pid));
}

TEST(Process, DiesWithTheThreadThatSpawnedIt) {
  SpawnOptions options = Shell("exec sleep 1000");
  options.parent_death_signal = SIGKILL;
  std::optional<Process> p;
  std::thread([&] { p.emplace(MustSpawn(options)); }).join();
  const auto status = p->Wait(In(seconds(5)));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(ExitCodeOfWaitStatus(*status), 137);
}

TEST(Process, ForkRunsACopyInItsOwnGroup) {
  absl::StatusOr<Process> p = Process::Fork([] { return getpgrp() == getpid() ? 7 : 1; });
  ASSERT_TRUE(p.ok());
  const auto status = p->Wait(In(seconds(5)));
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(ExitCodeOfWaitStatus(*status), 7);
}

TEST(Process, SpawnsAmongBusyThreads) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) free(malloc(64));
    });
  }
  for (int i = 0; i < 50; ++i) {
    Process p = MustSpawn(Shell("exit 0"));
    ASSERT_TRUE(p.Wait(In(seconds(10))).has_value());
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

TEST(Children, OrphansThatLeftTheirGroupAreKilledAndReapedToo) {
  BecomeSubreaper();
  Process p = MustSpawn(Shell("setsid sh -c 'echo $$; sleep 1000; true' & wait"));
  const pid_t orphan = atoi(ReadLine(p.out().get()).c_str());
  ASSERT_GT(orphan, 0);
  p.SignalGroup(SIGKILL);
  ASSERT_TRUE(p.Wait(In(seconds(5))).has_value());
  EXPECT_TRUE(Alive(orphan)) << "the test tests nothing if the group's kill reached it";
  EXPECT_TRUE(KillAllChildren(In(seconds(5))));
  EXPECT_FALSE(Alive(orphan));
  EXPECT_EQ(ReadToEnd(p.out().get()), "") << "its own child is gone as well";
}

TEST(Children, AnExitedOneIsSeenAndReapedOnce) {
  Process p = MustSpawn(Shell("exit 0"));
  ASSERT_TRUE(WaitReadable(p.pidfd(), seconds(5)));
  EXPECT_EQ(ExitedChild(), p.pid());
  EXPECT_TRUE(p.HasExited());
  EXPECT_TRUE(p.Poll().has_value());
  EXPECT_EQ(ExitedChild(), 0);
}

TEST(SignalQueue, HearsWhatIsBlocked) {
  sigset_t before;
  sigprocmask(SIG_BLOCK, nullptr, &before);
  {
    SignalQueue queue({SIGUSR2});
    EXPECT_FALSE(queue.Next().has_value());
    raise(SIGUSR2);
    EXPECT_TRUE(WaitReadable(queue.fd(), seconds(1)));
    EXPECT_EQ(queue.Next(), SIGUSR2);
    EXPECT_FALSE(queue.Next().has_value());
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST(SignalQueue, LeavesAnIgnoredHangUpIgnored) {
  sigset_t before;
  sigprocmask(SIG_BLOCK, nullptr, &before);
  signal(SIGHUP, SIG_IGN);
  {
    SignalQueue queue({SIGHUP, SIGUSR2});
    raise(SIGHUP);
    EXPECT_FALSE(queue.Next().has_value());
  }
  signal(SIGHUP, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace everstep
