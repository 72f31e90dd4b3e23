// checkpoint: whole or absent, whatever happens when; and damage is always found.
#include "everstep/checkpoint/directory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/env/temp_directory.h"
#include "everstep/io/bundle_writer.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

CheckpointId Id(Step step) { return {step, 0, {1, 1}}; }

// The contract of a CheckpointStore, on the real file system and on the one in memory.
class DirectoryStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  DirectoryStoreTest()
      : fs_(GetParam() ? RealFileSystem() : memory_), directory_(temp_.File("job/checkpoints")) {
    EXPECT_TRUE(fs_.CreateDirectories(temp_.File("job")).ok());
  }
  absl::Status SaveAndCommit(Step step) {
    TestState state(step);
    const absl::Status status = store_.Save(Id(step), state.tensors());
    return status.ok() ? store_.Commit(Id(step)) : status;
  }
  // The step of the newest good checkpoint, -1 for none.
  Step Latest() {
    const auto latest = LatestCheckpoint(fs_, directory_);
    return latest.ok() ? latest->id.step : -1;
  }
  std::string File(Step step, const std::string& name) {
    return JoinPath(store_.PathOf(Id(step)), name);
  }
  absl::Status Verify(Step step) {
    const auto stored = StoredState::Open(fs_, File(step, "state"));
    return stored.ok() ? (*stored)->Verify() : stored.status();
  }

  MemoryFileSystem memory_;
  TempDirectory temp_;
  FileSystem& fs_;
  const std::string directory_;
  DirectoryStore store_{fs_, directory_};
};
INSTANTIATE_TEST_SUITE_P(FileSystems, DirectoryStoreTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Real" : "Memory"; });

TEST_P(DirectoryStoreTest, WhatIsCommittedIsRestoredBitForBit) {
  ASSERT_TRUE(SaveAndCommit(7).ok());
  const auto stored = StoredState::Open(fs_, File(7, "state"));
  ASSERT_TRUE(stored.ok()) << stored.status();
  TestState want(7), got(0);
  ASSERT_TRUE((*stored)->Restore(got.tensors()).ok());
  EXPECT_EQ(FullDigest(got.tensors()), FullDigest(want.tensors()));
  EXPECT_EQ((*stored)->stored_digest(), FullDigest(want.tensors()));
  EXPECT_EQ((*stored)->ComputeDigest().value(), FullDigest(want.tensors()));
  EXPECT_EQ((*stored)->tensors().size(), 4u);
  EXPECT_EQ(fs_.List(store_.PathOf(Id(7))).value(),
            (std::vector<std::string>{"state.data-00000-of-00001", "state.index"}));
}

TEST_P(DirectoryStoreTest, BetweenSaveAndCommitNothingIsVisible) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  TestState state(2);
  ASSERT_TRUE(store_.Save(Id(2), state.tensors()).ok());
  EXPECT_EQ(Latest(), 1);
  EXPECT_EQ(ListCheckpoints(fs_, directory_).value().size(), 1u);
  ASSERT_TRUE(store_.Commit(Id(2)).ok());
  EXPECT_EQ(Latest(), 2);
}

TEST_P(DirectoryStoreTest, ASaveCleansWhatAnEarlierOneOfItsNameLeft) {
  const std::string leftover = JoinPath(directory_, ".tmp-step-3-h0-v1.1");
  ASSERT_TRUE(fs_.CreateDirectories(leftover).ok());
  ASSERT_TRUE(PublishFile(fs_, JoinPath(leftover, "state.data-00000-of-00002"), "junk").ok());
  ASSERT_TRUE(SaveAndCommit(3).ok());
  EXPECT_EQ(fs_.List(store_.PathOf(Id(3))).value().size(), 2u);
  EXPECT_FALSE(fs_.Exists(leftover));
  ASSERT_TRUE(fs_.CreateDirectories(leftover).ok());
  ASSERT_TRUE(store_.RemoveLeftovers().ok());
  EXPECT_FALSE(fs_.Exists(leftover));
  EXPECT_EQ(Latest(), 3);
}

TEST_P(DirectoryStoreTest, TensorFlowsNoteNamesTheNewest) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  ASSERT_TRUE(SaveAndCommit(2).ok());
  EXPECT_EQ(ReadWholeFile(fs_, JoinPath(directory_, "checkpoint")).value(),
            "model_checkpoint_path: \"step-2-h0-v1.1/state\"\n"
            "all_model_checkpoint_paths: \"step-2-h0-v1.1/state\"\n");
}

TEST_P(DirectoryStoreTest, CommittingWhatIsThereAlreadyIsFineIfItIsTheSame) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  EXPECT_TRUE(SaveAndCommit(1).ok());
  EXPECT_FALSE(fs_.Exists(JoinPath(directory_, ".tmp-step-1-h0-v1.1")));
  TestState other(5);
  ASSERT_TRUE(store_.Save(Id(1), other.tensors()).ok());
  EXPECT_EQ(store_.Commit(Id(1)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_.Commit(Id(9)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(DirectoryStoreTest, OnlyTheNewestAreKeptWhenToldSo) {
  DirectoryStore store(fs_, directory_, /*keep=*/2);
  for (Step s = 1; s <= 5; ++s) {
    TestState state(s);
    ASSERT_TRUE(store.Save(Id(s), state.tensors()).ok());
    ASSERT_TRUE(store.Commit(Id(s)).ok());
  }
  EXPECT_EQ(fs_.List(directory_).value(),
            (std::vector<std::string>{"checkpoint", "step-4-h0-v1.1", "step-5-h0-v1.1"}));
}

TEST_P(DirectoryStoreTest, AFlippedBitAnywhereIsFoundAndTheFileNamed) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  for (const char* name : {"state.index", "state.data-00000-of-00001"}) {
    const std::string good = ReadWholeFile(fs_, File(1, name)).value();
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      ASSERT_TRUE(PublishFile(fs_, File(1, name), bad).ok());
      const absl::Status status = Verify(1);
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << name << " byte " << i;
      ASSERT_THAT(std::string(status.message()), HasSubstr(File(1, name)));
      TestState state(0);
      const auto stored = StoredState::Open(fs_, File(1, "state"));
      ASSERT_FALSE(stored.ok() && (*stored)->Restore(state.tensors()).ok()) << name << " " << i;
    }
    ASSERT_TRUE(PublishFile(fs_, File(1, name), good).ok());
  }
  EXPECT_TRUE(Verify(1).ok());
}

TEST_P(DirectoryStoreTest, TruncationAndDeletionAreFound) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  for (const char* name : {"state.index", "state.data-00000-of-00001"}) {
    const std::string good = ReadWholeFile(fs_, File(1, name)).value();
    for (size_t size = 0; size < good.size(); ++size) {
      ASSERT_TRUE(PublishFile(fs_, File(1, name), good.substr(0, size)).ok());
      ASSERT_EQ(Verify(1).code(), absl::StatusCode::kDataLoss) << name << " size " << size;
    }
    ASSERT_TRUE(fs_.Remove(File(1, name)).ok());
    EXPECT_FALSE(Verify(1).ok());
    EXPECT_EQ(Latest(), -1);
    ASSERT_TRUE(PublishFile(fs_, File(1, name), good).ok());
  }
  EXPECT_TRUE(Verify(1).ok());
}

TEST_P(DirectoryStoreTest, AStateThatIsWholeButNotTheOneDigestedIsFound) {
  // Every CRC is right; only the digest is that of another state.
  TestState state(1), other(2);
  std::string digest = DigestToBytes(FullDigest(other.tensors()));
  auto writer = BundleWriter::Open(fs_, temp_.File("job/state"));
  ASSERT_TRUE(writer.ok());
  for (const TensorSpan& tensor : state.tensors()) ASSERT_TRUE((*writer)->Add(tensor).ok());
  ASSERT_TRUE(
      (*writer)
          ->Add({kDigestKey, DType::kUInt8, {16}, reinterpret_cast<std::byte*>(digest.data())})
          .ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto stored = StoredState::Open(fs_, temp_.File("job/state"));
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ((*stored)->Verify().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string((*stored)->Verify().message()), HasSubstr("the stored one is"));
  EXPECT_EQ((*stored)->Restore(state.tensors()).code(), absl::StatusCode::kDataLoss);
}

TEST_P(DirectoryStoreTest, ATensorOfTheDigestsNameIsRefused) {
  TestState state(1);
  std::vector<TensorSpan> tensors = state.tensors();
  tensors[2].name = kDigestKey;
  EXPECT_EQ(store_.Save(Id(1), tensors).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(DirectoryStoreTest, AnotherModelsCheckpointIsRefusedUntouchedAndTheTensorNamed) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  const auto stored = StoredState::Open(fs_, File(1, "state"));
  ASSERT_TRUE(stored.ok());
  TestState state(0);
  const std::string before = FullDigest(state.tensors());
  auto error = [&](std::vector<TensorSpan> tensors) {
    const absl::Status status = (*stored)->Restore(tensors);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(FullDigest(state.tensors()), before);
    return std::string(status.message());
  };
  std::vector<TensorSpan> tensors = state.tensors();
  tensors[0].shape = {4, 3};
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"model/dense/kernel\" is float32[3,4] there, "
                                        "float32[4,3] here"));
  tensors = state.tensors();
  tensors[0].dtype = DType::kInt32;
  EXPECT_THAT(error(tensors), HasSubstr("int32[3,4] here"));
  tensors = state.tensors();
  tensors[2].name = "model/other";
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"model/other\" is not in it"));
  tensors = state.tensors();
  tensors.pop_back();
  EXPECT_THAT(error(tensors), HasSubstr("tensor \"empty\" is in it but not in the model"));
}

TEST(DirectoryStoreCrash, AfterACrashAnywhereTheNewestIsTheOldOneOrTheNewOneWhole) {
  int newest_seen = 0, total = 0;
  for (int operations = 0;; ++operations) {
    MemoryFileSystem fs;
    ASSERT_TRUE(fs.CreateDirectories("/job").ok());
    ASSERT_TRUE(fs.SyncDirectory("/").ok());
    DirectoryStore store(fs, "/job/checkpoints");
    TestState one(1), two(2);
    ASSERT_TRUE(store.Save(Id(1), one.tensors()).ok());
    ASSERT_TRUE(store.Commit(Id(1)).ok());
    const int before = fs.changes();
    fs.FailAfter(operations);
    absl::Status status = store.Save(Id(2), two.tensors());
    if (status.ok()) status = store.Commit(Id(2));
    total = fs.changes() - before;
    fs.Crash();
    const auto latest = LatestCheckpoint(fs, "/job/checkpoints");
    ASSERT_TRUE(latest.ok()) << latest.status() << " after " << operations;
    const Step step = latest->id.step;
    ASSERT_TRUE(step == 2 || (step == 1 && !status.ok())) << step << " after " << operations;
    newest_seen += step == 2;
    TestState got;
    ASSERT_TRUE((*StoredState::Open(fs, latest->prefix()))->Restore(got.tensors()).ok());
    ASSERT_EQ(FullDigest(got.tensors()), FullDigest((step == 1 ? one : two).tensors()));
    // The next life saves the same again.
    DirectoryStore again(fs, "/job/checkpoints");
    ASSERT_TRUE(again.Save(Id(2), two.tensors()).ok());
    ASSERT_TRUE(again.Commit(Id(2)).ok());
    ASSERT_EQ(LatestCheckpoint(fs, "/job/checkpoints")->id.step, 2);
    if (total < operations) break;  // it was over before the disk failed
  }
  EXPECT_GT(total, 10);
  EXPECT_GT(newest_seen, 1);
  EXPECT_LT(newest_seen, total);
}

TEST(DirectoryStoreCrash, ADirectoryThatCannotBeMadeIsNamed) {
  TempDirectory temp;
  TestState state;
  ASSERT_TRUE(PublishFile(RealFileSystem(), temp.File("file"), "x").ok());
  DirectoryStore blocked(RealFileSystem(), temp.File("file/checkpoints"));
  const absl::Status status = blocked.Save(Id(1), state.tensors());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(temp.File("file")));
}

TEST(DirectoryStoreCrash, ASaveThatFailsLeavesNothingBehind) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectories("/job/checkpoints").ok());
  DirectoryStore store(fs, "/job/checkpoints");
  TestState state;
  std::vector<TensorSpan> twice = state.tensors();
  twice.push_back(twice[0]);
  EXPECT_EQ(store.Save(Id(1), twice).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(fs.List("/job/checkpoints").value().empty());
}

}  // namespace
}  // namespace everstep
