// supervise: rules of logs, on a disk in memory that hangs and fills up.
#include "everstep/supervise/log_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "everstep/env/clock.h"
#include "everstep/env/memory_file_system.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// Whoever opens a file waits while `hangs`.
class HangingFiles : public MemoryFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                               Create create, int mode) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !hangs_; });
    if (full_) return absl::ResourceExhaustedError("disk full");
    return MemoryFileSystem::OpenForWriting(path, create, mode);
  }
  void Set(bool hangs, bool full) {
    std::lock_guard lock(mutex_);
    hangs_ = hangs;
    full_ = full;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false, full_ = false;
};

TEST(LogWriter, WritesInOrderAndMakesTheDirectory) {
  HangingFiles files;
  LogWriter writer(files);
  auto log = writer.Open("/logs/worker_1/1.log");
  log->Append("a\n");
  log->Append("b\n");
  log->Close();
  ASSERT_TRUE(writer.Flush(seconds(5)));
  EXPECT_EQ(*ReadWholeFile(files, "/logs/worker_1/1.log"), "a\nb\n");
  EXPECT_EQ(log->TakeError(), "");
}

TEST(LogWriter, MakesNoFileForOneThatSaidNothing) {
  HangingFiles files;
  LogWriter writer(files);
  writer.Open("/logs/1.log")->Close();
  ASSERT_TRUE(writer.Flush(seconds(5)));
  EXPECT_FALSE(files.Exists("/logs/1.log"));
}

TEST(LogWriter, ADiskThatHangsHoldsUpNobodyAndLosesNothingThatFits) {
  HangingFiles files;
  files.Set(true, false);
  LogWriter writer(files);
  auto log = writer.Open("/1.log");
  const TimePoint began = RealClock().Now();
  for (int i = 0; i < 100; ++i) log->Append("line\n");
  EXPECT_LT(RealClock().Now() - began, seconds(1));
  EXPECT_FALSE(writer.Flush(milliseconds(50)));
  files.Set(false, false);
  ASSERT_TRUE(writer.Flush(seconds(5)));
  EXPECT_EQ(ReadWholeFile(files, "/1.log")->size(), 500u);
}

TEST(LogWriter, WhatDoesNotFitIsCountedInTheLog) {
  HangingFiles files;
  files.Set(true, false);
  LogWriter writer(files);
  auto log = writer.Open("/1.log");
  const std::string megabyte(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) log->Append(megabyte);
  EXPECT_THAT(log->TakeError(), HasSubstr("does not keep up"));
  EXPECT_EQ(log->TakeError(), "") << "told once";
  files.Set(false, false);
  ASSERT_TRUE(writer.Flush(seconds(5)));
  log->Append("later\n");
  ASSERT_TRUE(writer.Flush(seconds(5)));
  const std::string text = *ReadWholeFile(files, "/1.log");
  EXPECT_THAT(text, HasSubstr("4194304 bytes are missing here"));
  EXPECT_THAT(text, testing::EndsWith("later\n"));
}

TEST(LogWriter, AfterAFullDiskItGoesOn) {
  HangingFiles files;
  files.Set(false, true);
  LogWriter writer(files);
  auto log = writer.Open("/1.log");
  log->Append("lost\n");
  ASSERT_TRUE(writer.Flush(seconds(5)));
  EXPECT_THAT(log->TakeError(), HasSubstr("disk full"));
  files.Set(false, false);
  log->Append("kept\n");
  ASSERT_TRUE(writer.Flush(seconds(5)));
  EXPECT_EQ(*ReadWholeFile(files, "/1.log"),
            "\n[5 bytes are missing here: the disk did not take them]\nkept\n");
}

TEST(LogWriter, ALogThatGrowsTooLargeKeepsItsLastTwoParts) {
  HangingFiles files;
  LogWriter writer(files, /*max_part=*/10);
  auto log = writer.Open("/1.log");
  for (const char* line : {"one...\n", "two\n", "three..\n", "four....\n", "five\n"}) {
    log->Append(line);
  }
  log->Close();
  ASSERT_TRUE(writer.Flush(seconds(5)));
  EXPECT_EQ(*ReadWholeFile(files, "/1.log"), "five\n");
  EXPECT_EQ(*ReadWholeFile(files, "/1.log.1"), "four....\n");
  EXPECT_EQ(log->TakeError(), "");
}

}  // namespace
}  // namespace everstep
