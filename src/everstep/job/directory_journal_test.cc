// job: rules of the journal of a job directory, on disks that are full, fail or hang.
#include "everstep/job/directory_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"
#include "everstep/job/directory.h"
#include "everstep/job/incident_log.h"

namespace everstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Files in memory; appending to one may find little room, fail to sync, or hang.
class TroubledDisk : public MemoryFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                               Create create, int mode) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool refused = absl::StrContains(path, refuse) && !refuse.empty();
    lock.unlock();
    if (refused) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot open ", path, ": no space"));
    }
    auto file = MemoryFileSystem::OpenForWriting(path, create, mode);
    if (!file.ok() || !absl::EndsWith(path, "incidents.jsonl")) return file;
    return std::make_unique<File>(this, *std::move(file));
  }
  // Appends block until Release.
  void Hang() { Set(&hangs_, true); }
  void Release() { Set(&hangs_, false); }
  void Refuse(const std::string& paths) { Set(&refuse, paths); }
  void SetRoom(int64_t bytes) { Set(&room_, bytes); }
  void FailSyncs(int count) { Set(&failing_syncs_, count); }

  std::string refuse;  // paths that contain this cannot be written; set before the journal

 private:
  class File : public WritableFile {
   public:
    File(TroubledDisk* disk, std::unique_ptr<WritableFile> file)
        : disk_(disk), file_(std::move(file)) {}
    absl::Status Append(absl::Span<const std::byte> bytes) override {
      std::unique_lock<std::mutex> lock(disk_->mutex_);
      disk_->changed_.wait(lock, [&] { return !disk_->hangs_; });
      const size_t fits = std::min<size_t>(bytes.size(), std::max<int64_t>(disk_->room_, 0));
      disk_->room_ -= static_cast<int64_t>(fits);
      (void)file_->Append(bytes.subspan(0, fits));
      if (fits == bytes.size()) return absl::OkStatus();
      return absl::ResourceExhaustedError("cannot write: No space left on device");
    }
    absl::Status Sync() override {
      std::unique_lock<std::mutex> lock(disk_->mutex_);
      if (disk_->failing_syncs_ > 0 && disk_->failing_syncs_-- > 0) {
        return absl::UnavailableError("cannot sync: Input/output error");
      }
      return file_->Sync();
    }
    absl::Status Close() override { return file_->Close(); }

   private:
    TroubledDisk* const disk_;
    std::unique_ptr<WritableFile> file_;
  };

  template <typename T>
  void Set(T* field, T value) {
    std::lock_guard<std::mutex> lock(mutex_);
    *field = value;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  int64_t room_ = 1 << 30;
  int failing_syncs_ = 0;
};

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() {
    EXPECT_TRUE(disk_.CreateDirectories("/j").ok());
    EXPECT_TRUE(disk_.SyncDirectory("/").ok());
    options_.interval = milliseconds(20);
    options_.warn = [this](const std::string& line) {
      std::lock_guard<std::mutex> lock(mutex_);
      warnings_.push_back(line);
    };
  }
  void Open() {
    TakeTermOptions take;
    take.still_for = milliseconds(50);
    take.poll = milliseconds(5);
    auto term = TakeTerm(disk_, "/j", take);
    ASSERT_TRUE(term.ok()) << term.status();
    auto journal = DirectoryJournal::Open(disk_, "/j", *std::move(term), options_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
  }
  bool Close(std::optional<JobOutcome> outcome = std::nullopt, Duration within = seconds(10)) {
    return journal_->Close(std::move(outcome), After(RealClock(), within));
  }
  void Record(const char* kind, int64_t incident = 0) {
    JobRecord record;
    record.kind = kind;
    record.incident = incident;
    journal_->Record(std::move(record));
  }
  bool Await(const std::function<bool()>& check) {
    for (const Deadline end = After(RealClock(), seconds(10)); !check();) {
      if (RealClock().Now() > end) return false;
      SleepFor(milliseconds(2));
    }
    return true;
  }
  bool AwaitDurable(int64_t count) {
    return Await([&] { return journal_->durable() >= count; });
  }
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(PublishFile(disk_, path, text).ok());
  }
  std::string Text(const std::string& path) {
    const auto text = ReadWholeFile(disk_, path);
    return text.ok() ? *text : std::string();
  }
  IncidentLog Log() { return ParseIncidents(Text("/j/incidents.jsonl")); }
  std::vector<std::string> Kinds() {
    std::vector<std::string> kinds;
    for (const JobRecord& record : Log().records) kinds.push_back(record.kind);
    return kinds;
  }
  std::vector<std::string> warnings() {
    std::lock_guard<std::mutex> lock(mutex_);
    return warnings_;
  }

  TroubledDisk disk_;
  DirectoryJournalOptions options_;
  std::unique_ptr<DirectoryJournal> journal_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(JournalTest, WhatIsDurableSurvivesACrash) {
  Open();
  Record("run_started");
  Record("training");
  ASSERT_TRUE(AwaitDurable(2));
  EXPECT_EQ(journal_->durable(), 2);
  disk_.Crash();
  EXPECT_THAT(Kinds(), ElementsAre("run_started", "training"));
  EXPECT_EQ(Log().records[0].term, 1);
  EXPECT_TRUE(SecondsOfTimestamp(Log().records[0].time).has_value()) << Log().records[0].time;
  EXPECT_TRUE(Close());
}

TEST_F(JournalTest, NothingCountsAsDurableBeforeItIsSynced) {
  Open();
  disk_.FailSyncs(1000000);
  Record("run_started");
  SleepFor(milliseconds(100));
  EXPECT_EQ(journal_->durable(), 0);
  disk_.FailSyncs(0);
  EXPECT_TRUE(AwaitDurable(1));
  EXPECT_THAT(Kinds(), ElementsAre("run_started")) << "what was written twice is read once";
  EXPECT_TRUE(Close());
}

TEST_F(JournalTest, OnAFullDiskRecordsAreKeptAndAppearWhenThereIsRoom) {
  Open();
  Record("run_started");
  ASSERT_TRUE(AwaitDurable(1));
  disk_.SetRoom(30);  // the next line is torn
  Record("training");
  Record("stopped");
  ASSERT_TRUE(Await([&] { return !warnings().empty(); }));
  disk_.SetRoom(5);
  SleepFor(milliseconds(60));
  EXPECT_EQ(journal_->durable(), 1);
  disk_.SetRoom(1 << 30);
  ASSERT_TRUE(AwaitDurable(3));
  EXPECT_THAT(Kinds(), ElementsAre("run_started", "training", "stopped"));
  EXPECT_EQ(Log().unreadable, 0) << "a torn line is gone on with, not begun again";
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("No space left"))) << "said once";
  EXPECT_TRUE(Close());
}

TEST_F(JournalTest, EveryFailureOfTheDiskIsOutlived) {
  Open();
  for (int operations = 0; operations < 40; ++operations) {
    disk_.FailAfter(operations % 8);
    Record("training");
    SleepFor(milliseconds(3));
    disk_.FailAfter(-1);
    ASSERT_TRUE(AwaitDurable(operations + 1)) << operations;
  }
  EXPECT_TRUE(Close());
  EXPECT_GT(Kinds().size(), 0u);
  EXPECT_EQ(Log().unreadable, 0);
}

TEST_F(JournalTest, ADiskThatHangsBlocksNobodyAndEndsTheLease) {
  options_.lease = milliseconds(100);
  Open();
  EXPECT_TRUE(journal_->lease_held());
  disk_.Hang();
  const TimePoint start = RealClock().Now();
  for (int i = 0; i < 1000; ++i) {
    Record("training");
    journal_->Publish(JobStatus{"training"});
  }
  EXPECT_LT(RealClock().Now() - start, seconds(1));
  EXPECT_TRUE(Await([&] { return !journal_->lease_held(); }));
  EXPECT_FALSE(journal_->superseded());
  EXPECT_FALSE(Close(std::nullopt, milliseconds(50)));
  EXPECT_LT(RealClock().Now() - start, seconds(5));
  disk_.Release();
  EXPECT_TRUE(Await([&] { return (*NewestTerm(disk_, "/j"))->ended; }));
  EXPECT_EQ(Kinds().size() > 0, true);
}

TEST_F(JournalTest, OnAFullDiskTheLeaseIsHeldUntilAnotherRunHasTheNextTerm) {
  options_.lease = milliseconds(200);
  Open();
  disk_.Refuse("terms");
  SleepFor(milliseconds(600));
  EXPECT_TRUE(journal_->lease_held());
  EXPECT_FALSE(journal_->superseded());
  disk_.Refuse("");
  auto file = disk_.OpenForWriting("/j/terms/9", FileSystem::Create::kExclusive, 0644);
  ASSERT_TRUE(file.ok());
  disk_.Refuse("terms");
  EXPECT_TRUE(Await([&] { return journal_->superseded(); }));
  (void)Close();
}

TEST_F(JournalTest, ATermThatIsTakenAwayIsNotMadeAgainAndTheRunIsSuperseded) {
  Open();
  ASSERT_TRUE(disk_.RemoveTree("/j/terms").ok());
  EXPECT_TRUE(Await([&] { return journal_->superseded(); }));
  EXPECT_FALSE(disk_.Exists("/j/terms"));
  (void)Close();
}

TEST_F(JournalTest, AnIncidentFileThatIsRemovedIsBegunAgain) {
  Open();
  Record("training");
  ASSERT_TRUE(AwaitDurable(1));
  ASSERT_TRUE(disk_.Remove("/j/incidents.jsonl").ok());
  Record("stopped");
  ASSERT_TRUE(AwaitDurable(2));
  EXPECT_TRUE(Close());
  EXPECT_THAT(Kinds(), ElementsAre("stopped"));
}

TEST_F(JournalTest, TheLeaseIsHeldAsLongAsTheTermIsRenewed) {
  options_.lease = milliseconds(200);
  Open();
  SleepFor(milliseconds(500));
  EXPECT_TRUE(journal_->lease_held());
  EXPECT_GT((*NewestTerm(disk_, "/j"))->counter, 3);
  EXPECT_TRUE(Close());
}

TEST_F(JournalTest, AHigherTermSupersedesForEverAndNothingMoreIsWritten) {
  Open();
  Record("run_started");
  ASSERT_TRUE(AwaitDurable(1));
  TermHolder other;
  other.term = 2;
  Put("/j/terms/2", ToTermJson(other));
  ASSERT_TRUE(Await([&] { return journal_->superseded(); }));
  const std::string before = Text("/j/incidents.jsonl");
  Record("training");
  journal_->Publish(JobStatus{"training"});
  EXPECT_TRUE(Close(JobOutcome{}));
  EXPECT_EQ(Text("/j/incidents.jsonl"), before);
  EXPECT_EQ(Text("/j/status.json"), "");
  EXPECT_EQ(Text("/j/outcome.json"), "");
}

TEST_F(JournalTest, OnlyTheNewestStatusIsPublishedAndNotTooOften) {
  options_.interval = seconds(600);
  Open();
  journal_->Publish(JobStatus{"gathering"});
  ASSERT_TRUE(Await([&] { return disk_.Exists("/j/status.json"); }));
  for (Step step = 0; step < 100; ++step) {
    JobStatus status{"training"};
    status.step = step;
    journal_->Publish(status);
  }
  SleepFor(milliseconds(30));
  EXPECT_THAT(Text("/j/status.json"), HasSubstr("gathering"));
  EXPECT_TRUE(Close()) << "the last one is written at the end";
  const auto status = FromStatusJson(Text("/j/status.json"), "status.json");
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->step, 99);
  EXPECT_EQ(status->term, 1);
  EXPECT_TRUE(SecondsOfTimestamp(status->time).has_value());
}

TEST_F(JournalTest, TooManyRecordsAreLostAndCounted) {
  options_.most_records = 10;
  Open();
  disk_.Hang();
  Record("run_started");
  SleepFor(milliseconds(50));  // it is in the write that hangs
  for (int i = 0; i < 25; ++i) Record("training");
  disk_.Release();
  ASSERT_TRUE(AwaitDurable(26)) << "nobody waits for a record that is lost";
  EXPECT_TRUE(Close());
  EXPECT_LE(Text("/j/incidents.jsonl").size(), 10u * 200);
  EXPECT_THAT(warnings(), ::testing::Contains(HasSubstr("16 records are lost")));
}

TEST_F(JournalTest, TheEndIsWrittenInOrderAndGivesUpTheTerm) {
  Open();
  Record("run_ended");
  JobStatus status{"ended"};
  status.step = 120;
  journal_->Publish(status);
  EXPECT_TRUE(Close(JobOutcome{0, "", 0, {"train", "\xff"}}));
  EXPECT_THAT(Kinds(), ElementsAre("run_ended"));
  const auto outcome = ReadOutcome(disk_, "/j");
  ASSERT_TRUE(outcome.ok() && outcome->has_value()) << outcome.status();
  EXPECT_EQ((*outcome)->step, 120);
  EXPECT_THAT((*outcome)->program, ElementsAre("train", "\xff")) << "any bytes";
  EXPECT_TRUE((*NewestTerm(disk_, "/j"))->ended);
}

TEST_F(JournalTest, WhatIsHalfWrittenIsRemovedAtTheEndByTheRunThatHasTheDirectoryOnly) {
  std::atomic<int> tidied{0};
  options_.tidy = [&] {
    ++tidied;
    // Nobody can have taken the directory yet.
    EXPECT_EQ(Text("/j/outcome.json"), "");
  };
  Open();
  EXPECT_EQ(tidied, 0);
  EXPECT_TRUE(Close(JobOutcome{}));
  EXPECT_EQ(tidied, 1);
  EXPECT_NE(Text("/j/outcome.json"), "");

  Open();
  ASSERT_TRUE(disk_.RemoveTree("/j/terms").ok());
  ASSERT_TRUE(Await([&] { return journal_->superseded(); }));
  (void)Close(JobOutcome{});
  EXPECT_EQ(tidied, 1);
}

TEST_F(JournalTest, WithoutAnEndTheTermIsNotGivenUp) {
  Open();
  Record("run_started");
  journal_.reset();
  EXPECT_THAT(Kinds(), ElementsAre("run_started"));
  EXPECT_FALSE((*NewestTerm(disk_, "/j"))->ended);
}

TEST_F(JournalTest, ARunThatEndedWithoutAWordIsToldByTheNext) {
  Open();
  Record("run_started");
  Record("worker_failed", 7);
  ASSERT_TRUE(AwaitDurable(2));
  JobStatus status{"training"};
  status.step = 120;
  journal_->Publish(status);
  ASSERT_TRUE(Await([&] { return disk_.Exists("/j/status.json"); }));
  journal_.reset();
  Open();
  EXPECT_EQ(journal_->term(), 2);
  EXPECT_EQ(journal_->first_incident(), 9);
  Record("run_started");
  ASSERT_TRUE(AwaitDurable(1));
  EXPECT_EQ(journal_->durable(), 1) << "the one of its own is not counted";
  EXPECT_THAT(Kinds(), ElementsAre("run_started", "worker_failed", "run_vanished", "run_started"));
  const JobRecord vanished = Log().records[2];
  EXPECT_EQ(vanished.incident, 8);
  EXPECT_EQ(vanished.term, 1);
  EXPECT_EQ(vanished.step, 120);
  ASSERT_TRUE(vanished.lost_seconds.has_value()) << "since it was heard last";
  EXPECT_GE(*vanished.lost_seconds, 0);
  EXPECT_LT(*vanished.lost_seconds, 60);
  EXPECT_THAT(vanished.cause, HasSubstr("the run of term 1 ended without a word; last heard at "
                                        "step 120, 20"));
  EXPECT_TRUE(Close());
}

TEST_F(JournalTest, ARunThatSaidHowItEndedHasNotVanished) {
  Open();
  Record("run_started");
  Record("run_ended");
  EXPECT_TRUE(Close());
  Open();
  EXPECT_EQ(journal_->first_incident(), 1);
  EXPECT_TRUE(Close());
  EXPECT_THAT(Kinds(), ElementsAre("run_started", "run_ended"));
}

TEST_F(JournalTest, ATornLineOfAnEarlierCrashIsCompletedFirst) {
  JobRecord record;
  record.kind = "run_ended";
  const std::string line = ToJsonLine(record);
  Put("/j/incidents.jsonl", line + "\n" + line.substr(0, 20));
  Open();
  Record("run_started");
  ASSERT_TRUE(AwaitDurable(1));
  EXPECT_TRUE(Close());
  EXPECT_THAT(Kinds(), ElementsAre("run_ended", "run_started"));
  EXPECT_EQ(Log().unreadable, 1);
}

TEST_F(JournalTest, AStatusThatCannotBeWrittenHoldsUpNoRecords) {
  disk_.refuse = "status.json";
  Open();
  journal_->Publish(JobStatus{"training"});
  Record("run_started");
  EXPECT_TRUE(AwaitDurable(1));
  ASSERT_TRUE(Await([&] { return !warnings().empty(); }));
  EXPECT_THAT(warnings()[0], HasSubstr("the status cannot be written"));
  EXPECT_TRUE(Close());
}

}  // namespace
}  // namespace everstep
