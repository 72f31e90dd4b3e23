// supervise: the watch, with real processes.
#include "everstep/supervise/watch_test_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "everstep/env/datagram.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/poll.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProcessEntry Self() {
  ProcessEntry entry;
  EXPECT_TRUE(ReadProcess(OwnPid(), &entry));
  return entry;
}

TEST_F(WatchTest, ASleepingProgramIsIdleAndNothingElse) {
  Shell(1, "sleep 60");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.idle > seconds(1); }));
  const Vitals& v = vitals_[1];
  EXPECT_EQ(v.idle_limit, seconds(60));
  EXPECT_EQ(v.stopped, Duration::zero());
  EXPECT_FALSE(v.beats);
  EXPECT_EQ(v.step, -1);
  EXPECT_FALSE(v.wrote);
  EXPECT_GT(v.memory, 0);
  EXPECT_LT(v.cpu, 0.05);
  EXPECT_THAT(v.seen, HasSubstr("0.0 cores"));
  EXPECT_GT(news_, 0);
}

TEST_F(WatchTest, AProgramThatComputesIsNotIdle) {
  Shell(1, "while :; do :; done");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.cpu > 0.3; }));
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.idle < milliseconds(200); }));
  EXPECT_THAT(vitals_[1].seen, HasSubstr("CPU 0 s ago"));
}

TEST_F(WatchTest, OutputIsASign) {
  Shell(1, "sleep 60");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.idle > milliseconds(700); }));
  watch_->SawOutput(1, 1);
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.idle < milliseconds(500); }));
  EXPECT_THAT(vitals_[1].seen, HasSubstr("output"));
  watch_->SawOutput(77, 5);  // nobody's
}

TEST_F(WatchTest, BytesWrittenAreASignUnlessTheyWerePrinted) {
  Python(1,
         "import time\n"
         "while True:\n"
         "  open('data', 'wb').write(bytes(100000))\n"
         "  time.sleep(0.1)\n");
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.seen.find("files") != v.seen.npos; }));
}

TEST_F(WatchTest, WhatIsPrintedIsNotTakenForFiles) {
  Python(1,
         "import os, time\n"
         "while not os.path.exists('go'): time.sleep(0.01)\n"
         "open('/dev/null', 'wb').write(bytes(1000000))\n"
         "open('written', 'w')\n"
         "time.sleep(60)\n");
  watch_->SawOutput(1, 1000000);
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.seen.find("output") != v.seen.npos; }));
  ASSERT_TRUE(RealFileSystem().OpenForWriting(dir_.File("go"), FileSystem::Create::kTruncate).ok());
  ASSERT_TRUE(Eventually([&] { return RealFileSystem().Exists(dir_.File("written")); }));
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.idle > seconds(1); }));
  EXPECT_EQ(vitals_[1].seen.find("files"), std::string::npos) << vitals_[1].seen;
}

TEST_F(WatchTest, TrafficIsASign) {
  const UniqueFd listener = ListenTcp({"127.0.0.1", 0}).value();
  Python(1, absl::StrCat("import socket, time\n"
                         "s = socket.create_connection(('127.0.0.1', ",
                         PortOf(listener.get()).value(),
                         "))\n"
                         "time.sleep(1)\n"
                         "s.sendall(bytes(200000))\n"
                         "time.sleep(60)\n"));
  ASSERT_TRUE(AwaitReadable(listener.get(), After(RealClock(), seconds(20))).ok());
  const UniqueFd peer = std::move(**Accept(listener.get()));
  std::vector<std::byte> bytes(200000);
  ASSERT_TRUE(ReceiveAll(peer.get(), absl::MakeSpan(bytes), After(RealClock(), seconds(20))).ok());
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.seen.find("network") != v.seen.npos; }));
}

TEST_F(WatchTest, HeartbeatsTellStepPhaseAndLimit) {
  Python(1,
         "import os, socket, time\n"
         "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
         "for step in range(4):\n"
         "  s.sendto(b'everstep1 step=%d phase=train loss=0.5' % step,"
         " os.environ['EVERSTEP_HEARTBEAT'])\n"
         "  time.sleep(0.1)\n"
         "s.sendto(b'everstep1 step=4 phase=save expect=77', os.environ['EVERSTEP_HEARTBEAT'])\n"
         "time.sleep(60)\n");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.step == 4; }));
  EXPECT_TRUE(vitals_[1].beats);
  EXPECT_EQ(vitals_[1].phase, "save");
  EXPECT_EQ(vitals_[1].beat_limit, seconds(77));
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.beat_age > milliseconds(500); }));
}

TEST_F(WatchTest, ThePythonModuleIsFoundByTheProgram) {
  Python(1, "import everstep_heartbeat, time; everstep_heartbeat.beat(step=1); time.sleep(60)");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.memory > 0; }));
  SleepFor(milliseconds(500));
  EXPECT_FALSE(processes_.at(1).HasExited()) << "it could import it";
}

TEST_F(WatchTest, BeatsOfBeforeAddAreHeard) {
  const Watch::Endpoint endpoint = watch_->Expect(1);
  EXPECT_TRUE(DatagramSender(endpoint.heartbeat).Send("everstep1 step=9"));
  SleepFor(4 * kInterval);
  SpawnOptions options;
  options.argv = {"sleep", "60"};
  options.environment = CurrentEnvironment();
  const Process process = Process::Spawn(options).value();
  Spawn spawn;
  spawn.incarnation = 1;
  watch_->Add(spawn, process.pid());
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.step == 9; }));
}

TEST_F(WatchTest, AFloodOfHeartbeatsCostsLittleAndIsHeard) {
  Shell(1, "sleep 60");
  std::atomic<bool> stop = false;
  std::atomic<int> taken = 0;
  std::thread flood([&] {
    DatagramSender sender(endpoint_.heartbeat);
    for (int64_t i = 0; !stop; ++i) {
      taken += sender.Send(i % 2 == 0 ? absl::StrCat("everstep1 step=", i) : std::string(600, 'x'));
    }
  });
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.step > 0; }));
  const int64_t before = Self().resident;
  const int taken_before = taken;
  SleepFor(seconds(1));
  EXPECT_LT(taken - taken_before, 6000) << "64 of them, 50 times a second";
  Take();
  const Step step = vitals_[1].step;
  EXPECT_TRUE(Until(1, [&](const Vitals& v) { return v.step > step; })) << "it goes on";
  // A sanitizer keeps what was freed for a while.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(Self().resident - before, 5 << 20);
#else
  (void)before;
#endif
  stop = true;
  flood.join();
}

TEST_F(WatchTest, WhoIsRemovedIsNoMoreToldOf) {
  Shell(1, "sleep 60");
  Shell(2, "sleep 60");
  const std::string heartbeat = endpoint_.heartbeat;
  EXPECT_TRUE(RealFileSystem().Exists(heartbeat));
  ASSERT_TRUE(Until(2, [](const Vitals&) { return true; }));
  SleepFor(4 * kInterval);  // there is more to take
  watch_->Remove(2);
  processes_.erase(2);
  vitals_.clear();
  Take();
  EXPECT_EQ(vitals_.count(2), 0u);
  SleepFor(4 * kInterval);
  ASSERT_TRUE(Until(1, [](const Vitals&) { return true; }));
  EXPECT_EQ(vitals_.count(2), 0u);
  EXPECT_TRUE(Eventually([&] { return !RealFileSystem().Exists(heartbeat); }));
}

TEST_F(WatchTest, CheckpointsAndEventFilesOfTheProgramAreFound) {
  Python(1,
         "import os, time\n"
         "os.makedirs('out/logs')\n"
         "e = open('out/logs/events.out.tfevents.1.host', 'w')\n"
         "e.write('x'); e.flush()\n"
         "time.sleep(1)\n"
         "open('out/model.pt', 'w').write('weights')\n"
         "time.sleep(60)\n");
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.wrote; }));
  ASSERT_TRUE(UntilSeen(dir_.File("out/model.pt")));
  EXPECT_EQ(seen_[0].incarnation, 1u);
  EXPECT_LT(seen_[0].age, seconds(15));
  EXPECT_GE(seen_[0].age, Duration::zero());
}

TEST_F(WatchTest, AGivenPathIsTheOnlyOneThatCounts) {
  const TempDirectory elsewhere;
  Start(1,
        {"bash", "-c",
         absl::StrCat("echo x > here.pt; sleep 1; echo x > ", elsewhere.path(),
                      "/there.pt; sleep 60")},
        {{"EVERSTEP_CHECKPOINT_PATH", elsewhere.path()}});
  ASSERT_TRUE(UntilSeen(elsewhere.File("there.pt")));
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(WatchTest, WhatLiesAboutWhereItWorksCountsUntilOneIsFoundThatItNames) {
  Start(1, {"bash", "-c", "sleep 60; true", "bash", "mine.pt"});
  Save("anothers-1");
  ASSERT_TRUE(UntilSeen(dir_.File("anothers-1"))) << "it might save there";
  Save("named");  // no file of a model by its name
  ASSERT_TRUE(UntilSeen(dir_.File("named")));
  ASSERT_TRUE(
      (*RealFileSystem().OpenForWriting(dir_.File("mine.pt"), FileSystem::Create::kTruncate))
          ->Append("weights")
          .ok());
  ASSERT_TRUE(UntilSeen(dir_.File("mine.pt")));
  Save("anothers-2");
  SleepFor(20 * kInterval);
  Take();
  std::vector<std::string> paths;
  for (const CheckpointSeen& seen : seen_) paths.push_back(seen.path);
  EXPECT_THAT(paths,
              ElementsAre(dir_.File("anothers-1"), dir_.File("named"), dir_.File("mine.pt")));
}

TEST_F(WatchTest, AGivenPathMayBeAPrefix) {
  Save("other-1");
  Start(1, {"sleep", "60"}, {{"EVERSTEP_CHECKPOINT_PATH", dir_.File("ckpt")}});
  Save("other-2");
  Save("ckpt-1");
  ASSERT_TRUE(UntilSeen(dir_.File("ckpt-1")));
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(WatchTest, WhatTheLifeBeforeWroteIsNotThisOnes) {
  Shell(1, "echo x > a.pt; sleep 60");
  ASSERT_TRUE(UntilSeen(dir_.File("a.pt")));
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.wrote; }));
  watch_->Remove(1);
  processes_.erase(1);
  Save("late-1");  // found in the next life only
  SleepFor(milliseconds(50));
  Shell(2, "sleep 60");
  ASSERT_TRUE(UntilSeen(dir_.File("late-1")));
  ASSERT_TRUE(Until(2, [](const Vitals& v) { return v.idle > seconds(2); }));
  EXPECT_FALSE(vitals_[2].wrote);
  EXPECT_EQ(seen_.size(), 2u) << "and each told once";
}

TEST_F(WatchTest, ADamagedNewestCheckpointIsNamedBetweenTwoLives) {
  Shell(1, "sleep 60");
  Save("ckpt-4");
  ASSERT_TRUE(UntilSeen(dir_.File("ckpt-4")));
  SleepFor(milliseconds(50));
  Save("ckpt-5");
  watch_->Remove(1);  // before it was seen
  processes_.erase(1);
  const std::string data = dir_.File("ckpt-5.data-00000-of-00001");
  std::string bytes = ReadWholeFile(RealFileSystem(), data).value();
  bytes[100] ^= 1;
  ASSERT_TRUE(
      (*RealFileSystem().OpenForWriting(data, FileSystem::Create::kTruncate))->Append(bytes).ok());
  const int news = news_;
  watch_->VerifyNewest();
  ASSERT_TRUE(Eventually([&] { return !watch_->Verifying(); }));
  EXPECT_TRUE(Eventually([&] { return news_ > news; }));
  const std::vector<Note> notes = watch_->TakeNotes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0].text, HasSubstr(dir_.File("ckpt-5") + " is damaged"));
  EXPECT_THAT(notes[0].text, HasSubstr(dir_.File("ckpt-4") + ", is good"));
  watch_->VerifyNewest();
  ASSERT_TRUE(Eventually([&] { return !watch_->Verifying(); }));
  EXPECT_TRUE(watch_->TakeNotes().empty()) << "told once";
}

TEST_F(WatchTest, WithoutCheckpointsVerifyingEndsAtOnce) {
  watch_->VerifyNewest();
  EXPECT_TRUE(Eventually([&] { return !watch_->Verifying(); }, seconds(5)));
  EXPECT_TRUE(watch_->TakeNotes().empty());
}

// Every List waits until it is let go.
class HangingFileSystem : public MemoryFileSystem {
 public:
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    std::unique_lock<std::mutex> lock(mutex_);
    ++hanging_;
    changed_.wait(lock, [&] { return free_; });
    return std::vector<std::string>();
  }
  bool IsDirectory(const std::string&) override { return true; }
  void LetGo() {
    std::lock_guard<std::mutex> lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }
  int hanging() {
    std::lock_guard<std::mutex> lock(mutex_);
    return hanging_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool free_ = false;
  int hanging_ = 0;
};

TEST_F(WatchTest, AFileSystemThatHangsHoldsUpNobody) {
  static HangingFileSystem* const fs = new HangingFileSystem;  // a thread of the watch keeps it
  WatchOptions options;
  options.fs = fs;
  Begin(options);
  Shell(1, "sleep 60");
  ASSERT_TRUE(Eventually([&] { return fs->hanging() > 0; }));
  ASSERT_TRUE(Until(1, [](const Vitals& v) { return v.idle > seconds(1); }));
  processes_.at(1).Signal(SIGSTOP);
  EXPECT_TRUE(Until(1, [](const Vitals& v) { return v.stopped > Duration::zero(); }));
  const TimePoint start = RealClock().Now();
  watch_.reset();
  EXPECT_LT(RealClock().Now() - start, seconds(4));
  fs->LetGo();
}

TEST_F(WatchTest, NothingIsLeftBehindAndNoNewsComeAfterTheEnd) {
  Shell(1, "sleep 60");
  const std::string directory = endpoint_.python_path.substr(0, endpoint_.python_path.rfind('/'));
  EXPECT_TRUE(RealFileSystem().IsDirectory(directory));
  ASSERT_TRUE(Until(1, [](const Vitals&) { return true; }));
  const TimePoint start = RealClock().Now();
  const int threads = Self().threads;
  watch_.reset();
  EXPECT_LT(RealClock().Now() - start, seconds(1));
  const int news = news_;
  SleepFor(4 * kInterval);
  EXPECT_EQ(news_, news);
  EXPECT_FALSE(RealFileSystem().Exists(directory));
  EXPECT_TRUE(Eventually([&] { return Self().threads == threads - 2; }));
}

}  // namespace
}  // namespace everstep
