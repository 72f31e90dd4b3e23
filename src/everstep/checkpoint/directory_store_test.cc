// checkpoint: whole or absent, whatever happens when; and damage is always found.
#include "everstep/checkpoint/directory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "everstep/base/status.h"
#include "everstep/checkpoint/digest.h"
#include "everstep/checkpoint/find.h"
#include "everstep/checkpoint/format.h"
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

absl::Status SaveAndCommit(DirectoryStore& store, const CheckpointId& id, TestState& state,
                           int shards = 1) {
  for (int i = 0; i < shards; ++i) {
    EV_RETURN_IF_ERROR(store.SaveShard(id, state.tensors(), {i, shards}));
  }
  return store.Commit(id, state.tensors(), shards);
}

// The contract of a CheckpointStore, on the real file system and on the one in memory.
class DirectoryStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  DirectoryStoreTest()
      : fs_(GetParam() ? RealFileSystem() : memory_), directory_(temp_.File("job/checkpoints")) {
    EXPECT_TRUE(fs_.CreateDirectories(temp_.File("job")).ok());
  }
  absl::Status SaveAndCommit(Step step) {
    TestState state(step);
    return everstep::SaveAndCommit(store_, Id(step), state);
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
  DirectoryStore store_{fs_, {directory_, 0, 0, ""}};
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
  ASSERT_TRUE(store_.SaveShard(Id(2), state.tensors(), {}).ok());
  EXPECT_EQ(Latest(), 1);
  EXPECT_EQ(ListCheckpoints(fs_, directory_).value().size(), 1u);
  ASSERT_TRUE(store_.Commit(Id(2), state.tensors(), 1).ok());
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
            "all_model_checkpoint_paths: \"step-1-h0-v1.1/state\"\n"
            "all_model_checkpoint_paths: \"step-2-h0-v1.1/state\"\n");
}

TEST_P(DirectoryStoreTest, CommittingWhatIsThereAlreadyIsFineIfItIsTheSame) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  EXPECT_TRUE(SaveAndCommit(1).ok());
  EXPECT_FALSE(fs_.Exists(JoinPath(directory_, ".tmp-step-1-h0-v1.1")));
  TestState other(5);
  EXPECT_EQ(everstep::SaveAndCommit(store_, Id(1), other).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Latest(), 1);
  // The committer may ask again after it did not hear the answer.
  TestState one(1);
  EXPECT_TRUE(store_.Commit(Id(1), one.tensors(), 1).ok());
}

TEST_P(DirectoryStoreTest, ADamagedOneOfItsNameMakesRoom) {
  ASSERT_TRUE(SaveAndCommit(1).ok());
  ASSERT_TRUE(PublishFile(fs_, File(1, "state.data-00000-of-00001"), "junk").ok());
  ASSERT_TRUE(SaveAndCommit(1).ok());
  EXPECT_TRUE(Verify(1).ok());
  EXPECT_EQ(fs_.List(directory_).value(),
            (std::vector<std::string>{"checkpoint", "step-1-h0-v1.1"}));
}

TEST_P(DirectoryStoreTest, ACommitOfWhatWasNotSavedWholeIsRefusedAndNamesTheShard) {
  TestState state(9);
  EXPECT_EQ(store_.Commit(Id(9), state.tensors(), 1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_.SaveShard(Id(9), state.tensors(), {0, 3}).ok());
  ASSERT_TRUE(store_.SaveShard(Id(9), state.tensors(), {2, 3}).ok());
  const absl::Status missing = store_.Commit(Id(9), state.tensors(), 3);
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("state.data-00001-of-00003: commit of"));
  ASSERT_TRUE(store_.SaveShard(Id(9), state.tensors(), {1, 3}).ok());
  const std::string shard = JoinPath(directory_, ".tmp-step-9-h0-v1.1/state.data-00002-of-00003");
  const std::string good = ReadWholeFile(fs_, shard).value();
  ASSERT_TRUE(PublishFile(fs_, shard, good + "x").ok());
  EXPECT_EQ(store_.Commit(Id(9), state.tensors(), 3).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Latest(), -1);
  ASSERT_TRUE(PublishFile(fs_, shard, good).ok());
  EXPECT_TRUE(store_.Commit(Id(9), state.tensors(), 3).ok());
  EXPECT_EQ(Latest(), 9);
  EXPECT_EQ(store_.Commit(Id(8), state.tensors(), 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_.SaveShard(Id(8), state.tensors(), {1, 1}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(DirectoryStoreTest, WritersOfEqualStatesMakeOneCheckpoint) {
  for (int count : {1, 2, 3, 4, 9}) {
    const CheckpointId id = {7, 0, {1, count}};
    std::vector<TestState> states(static_cast<size_t>(count), TestState(7));
    for (int i = count - 1; i >= 0; --i) {
      DirectoryStore writer(fs_, {directory_, 0, 0, ""});
      ASSERT_TRUE(writer.SaveShard(id, states[i].tensors(), {i, count}).ok());
    }
    ASSERT_TRUE(store_.Commit(id, states[0].tensors(), count).ok());
    EXPECT_EQ(fs_.List(store_.PathOf(id)).value().size(), static_cast<size_t>(count) + 1);
    const auto stored = StoredState::Open(fs_, JoinPath(store_.PathOf(id), "state"));
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_TRUE((*stored)->Verify().ok()) << (*stored)->Verify();
    EXPECT_EQ((*stored)->id(), id);
  }
}

TEST_P(DirectoryStoreTest, AShardOfAnotherStateIsFoundWhenRead) {
  TestState right(1), wrong(1);
  wrong.weights[5] += 1;
  ASSERT_TRUE(store_.SaveShard(Id(1), wrong.tensors(), {0, 2}).ok());
  ASSERT_TRUE(store_.SaveShard(Id(1), wrong.tensors(), {1, 2}).ok());
  ASSERT_TRUE(store_.Commit(Id(1), right.tensors(), 2).ok());
  EXPECT_EQ(Verify(1).code(), absl::StatusCode::kDataLoss);
}

TEST_P(DirectoryStoreTest, WhatIsAbandonedIsGone) {
  TestState state(1);
  ASSERT_TRUE(store_.SaveShard(Id(1), state.tensors(), {0, 2}).ok());
  store_.Abandon(Id(1));
  store_.Abandon(Id(2));
  EXPECT_TRUE(fs_.List(directory_).value().empty());
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
  const std::string digest = FullDigest(other.tensors());
  BundleWriter writer(fs_, temp_.File("job/state"));
  ASSERT_TRUE(AddCheckpoint(Id(1), state.tensors(), digest, &writer).ok());
  ASSERT_TRUE(writer.WriteShard(0, 1).ok());
  ASSERT_TRUE(writer.WriteIndex(1).ok());
  const auto stored = StoredState::Open(fs_, temp_.File("job/state"));
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ((*stored)->Verify().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string((*stored)->Verify().message()), HasSubstr("the stored one is"));
  EXPECT_EQ((*stored)->Restore(state.tensors()).code(), absl::StatusCode::kDataLoss);
}

TEST_P(DirectoryStoreTest, ATensorOfTheSaveCountersNameIsRefused) {
  TestState state(1);
  std::vector<TensorSpan> tensors = state.tensors();
  tensors[2].name = "save_counter";
  EXPECT_EQ(store_.SaveShard(Id(1), tensors, {}).code(), absl::StatusCode::kInvalidArgument);
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
    DirectoryStore store(fs, {"/job/checkpoints", 0, 0, ""});
    TestState one(1), two(2);
    ASSERT_TRUE(SaveAndCommit(store, Id(1), one, 3).ok());
    const int before = fs.changes();
    fs.FailAfter(operations);
    const absl::Status status = SaveAndCommit(store, Id(2), two, 3);
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
    DirectoryStore again(fs, {"/job/checkpoints", 0, 0, ""});
    ASSERT_TRUE(SaveAndCommit(again, Id(2), two).ok());
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
  DirectoryStore blocked(RealFileSystem(), {temp.File("file/checkpoints"), 0, 0, ""});
  const absl::Status status = blocked.SaveShard(Id(1), state.tensors(), {});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(temp.File("file")));
}

TEST(DirectoryStoreCrash, ASaveThatFailsLeavesNothingOfItsShard) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectories("/job/checkpoints").ok());
  DirectoryStore store(fs, {"/job/checkpoints", 0, 0, ""});
  TestState state;
  ASSERT_TRUE(store.SaveShard(Id(1), state.tensors(), {1, 2}).ok());
  std::vector<TensorSpan> twice = state.tensors();
  twice.push_back(twice[0]);
  EXPECT_EQ(store.SaveShard(Id(1), twice, {0, 2}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fs.List("/job/checkpoints/.tmp-step-1-h0-v1.1").value(),
            std::vector<std::string>{"state.data-00001-of-00002"});
}

}  // namespace
}  // namespace everstep
