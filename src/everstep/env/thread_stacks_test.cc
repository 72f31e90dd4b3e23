// env: rules of stacks of other processes, which the tests make.
#include "everstep/env/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/process.h"

namespace everstep {

// Names to look for.
[[gnu::noinline]] void InnermostOfTheMainThread() {
  while (true) pause();
}
[[gnu::noinline]] void OuterOfTheMainThread() {
  InnermostOfTheMainThread();
  asm volatile("");  // no tail call
}
[[gnu::noinline]] void WhatTheHelperDoes() {
  while (true) pause();
}

namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

char StateOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  return line.substr(line.rfind(')') + 2)[0];
}

void AwaitState(pid_t pid, char state) {
  const Deadline deadline = After(RealClock(), seconds(5));
  while (StateOf(pid) != state && RealClock().Now() < deadline) {
    SleepFor(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(StateOf(pid), state);
}

// A copy of this process that has called `prepare`, said so, and is in `body`.
Process Start(const std::function<void()>& prepare, const std::function<int()>& body) {
  absl::StatusOr<Pipe> ready = MakePipe();
  absl::StatusOr<Process> process = Process::Fork([&] {
    prepare();
    WriteAll(ready->write.get(), "x");
    return body();
  });
  EXPECT_TRUE(process.ok());
  char byte = 0;
  EXPECT_EQ(ReadSome(ready->read.get(), &byte, 1), 1);
  return *std::move(process);
}

Process StartTwoThreads() {
  Process process = Start(
      [] {
        std::thread([] {
          prctl(PR_SET_NAME, "helper");
          WhatTheHelperDoes();
        }).detach();
      },
      [] {
        OuterOfTheMainThread();
        return 0;
      });
  SleepFor(std::chrono::milliseconds(50));  // for both to be where they stay
  return process;
}

TEST(NativeStacks, NamesTheFunctionsOfAllThreadsInnermostFirst) {
  const Process process = StartTwoThreads();
  const std::string text = NativeStacks(process.pid());
  const size_t inner = text.find("everstep::InnermostOfTheMainThread()");
  const size_t outer = text.find("everstep::OuterOfTheMainThread()");
  EXPECT_NE(inner, std::string::npos) << text;
  EXPECT_NE(outer, std::string::npos) << text;
  EXPECT_LT(inner, outer) << text;
  EXPECT_THAT(text, HasSubstr("\"helper\", asleep:\n  #0 "));
  EXPECT_THAT(text, HasSubstr("everstep::WhatTheHelperDoes()"));
  EXPECT_THAT(text, HasSubstr("main in "));
}

TEST(NativeStacks, NamesTheLinesWhereThereIsDebugInformation) {
  const Process process = StartTwoThreads();
  EXPECT_THAT(NativeStacks(process.pid()), HasSubstr("thread_stacks_test.cc:"));
}

TEST(NativeStacks, ThreadsThatDoTheSameStandTogether) {
  const Process process = Start(
      [] {
        for (int i = 0; i < 40; ++i) std::thread(WhatTheHelperDoes).detach();
      },
      [] {
        OuterOfTheMainThread();
        return 0;
      });
  SleepFor(std::chrono::milliseconds(100));
  const std::string text = NativeStacks(process.pid());
  EXPECT_THAT(text, HasSubstr("40 threads: ")) << text;
  EXPECT_LT(text.size(), 8000u);
}

TEST(NativeStacks, TheProcessGoesOnAsBefore) {
  Process process = StartTwoThreads();
  NativeStacks(process.pid());
  AwaitState(process.pid(), 'S');
  std::ifstream status("/proc/" + std::to_string(process.pid()) + "/status");
  const std::string text((std::istreambuf_iterator<char>(status)), {});
  EXPECT_THAT(text, HasSubstr("TracerPid:\t0\n"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(After(RealClock(), seconds(5))), SIGTERM);
}

TEST(NativeStacks, AStoppedProcessStaysStoppedAndCanBeWoken) {
  const Process process = StartTwoThreads();
  process.Signal(SIGSTOP);
  AwaitState(process.pid(), 'T');
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(NativeStacks(process.pid()), HasSubstr("InnermostOfTheMainThread"));
    SleepFor(std::chrono::milliseconds(20));
    EXPECT_EQ(StateOf(process.pid()), 'T');
  }
  process.Signal(SIGCONT);
  AwaitState(process.pid(), 'S');
}

std::atomic<int> signals_heard{0};

TEST(NativeStacks, NoSignalIsLost) {
  constexpr int kSignals = 100;  // queued, unlike others
  Process process = Start([] { signal(SIGRTMIN, [](int) { ++signals_heard; }); },
                          [] {
                            while (signals_heard < kSignals) pause();
                            return 7;
                          });
  std::thread sender([&] {
    for (int i = 0; i < kSignals; ++i) {
      kill(process.pid(), SIGRTMIN);
      SleepFor(std::chrono::milliseconds(1));
    }
  });
  for (int i = 0; i < 10; ++i) NativeStacks(process.pid());
  sender.join();
  // The last one may have come between its look at the count and its pause.
  for (int i = 0; i < 50 && !process.HasExited(); ++i) {
    SleepFor(std::chrono::milliseconds(20));
    kill(process.pid(), SIGRTMIN + 1);
  }
  EXPECT_EQ(process.Wait(After(RealClock(), seconds(5))), 7 << 8);
}

TEST(NativeStacks, WhereItIsNotAllowedTheTextSaysWhyAndWhatThreadsThereAre) {
  const Process process = Start([] { ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); },
                                [] {
                                  OuterOfTheMainThread();
                                  return 0;
                                });
  const std::string text = NativeStacks(process.pid());
  EXPECT_THAT(text, HasSubstr("cannot be taken: process " + std::to_string(getpid()) +
                              " traces it already"));
  EXPECT_THAT(text, HasSubstr("thread " + std::to_string(process.pid())));
  EXPECT_THAT(text, Not(HasSubstr("Innermost")));
}

TEST(NativeStacks, OfAProcessThatHasEndedThereAreNone) {
  Process process = Start([] {}, [] { return 0; });
  while (!process.HasExited()) SleepFor(std::chrono::milliseconds(1));
  const TimePoint began = RealClock().Now();
  EXPECT_THAT(NativeStacks(process.pid()), HasSubstr("ended"));
  EXPECT_LT(RealClock().Now() - began, seconds(1));
  EXPECT_EQ(process.Poll(), 0) << "its end was not taken from us";
  EXPECT_THAT(NativeStacks(1 << 30), HasSubstr("has ended"));
}

}  // namespace
}  // namespace everstep
