// checkpoint: names, and which one is the newest good one.
#include "everstep/checkpoint/find.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;

class FindTest : public ::testing::Test {
 protected:
  FindTest() { EXPECT_TRUE(fs_.CreateDirectories("/job").ok()); }
  void Save(const CheckpointId& id) {
    TestState state(id.step);
    ASSERT_TRUE(store_.SaveShard(id, state.tensors(), Shard{}).ok());
    ASSERT_TRUE(store_.Commit(id, state.tensors(), 1).ok());
  }
  void Damage(const CheckpointId& id) {
    const std::string path = JoinPath(store_.PathOf(id), "state.data-00000-of-00001");
    std::string bytes = ReadWholeFile(fs_, path).value();
    bytes[5] ^= 1;
    ASSERT_TRUE(PublishFile(fs_, path, bytes).ok());
  }

  MemoryFileSystem fs_;
  DirectoryStore store_{fs_, {"/job/checkpoints", 0, 0, ""}};
};

TEST_F(FindTest, NamesAreThoseOfIdsAndNoOthers) {
  const CheckpointId id = {1175, 2, {3, 4}};
  EXPECT_EQ(id.DirectoryName(), "step-1175-h2-v3.4");
  const auto parsed = ParseCheckpointName("step-1175-h2-v3.4");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->step, 1175);
  EXPECT_EQ(parsed->history, 2);
  EXPECT_EQ(parsed->view, (ViewId{3, 4}));
  for (const char* name : {"step-1175-h2-v3.4x", "step-01-h0-v1.1", "step--1-h0-v1.1",
                           ".tmp-step-1", "step-1-h0-v1", "step- 1-h0-v1.1", "step-+1-h0-v1.1", "",
                           "checkpoint", "step-99999999999999999999-h0-v1.1"}) {
    EXPECT_FALSE(ParseCheckpointName(name).has_value()) << name;
  }
}

TEST_F(FindTest, ThereIsNoneInADirectoryThatDoesNotExist) {
  EXPECT_TRUE(ListCheckpoints(fs_, "/none").value().empty());
  EXPECT_EQ(LatestCheckpoint(fs_, "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FindTest, NewestIsByHistoryThenStepThenView) {
  for (const CheckpointId& id :
       {CheckpointId{9, 0, {1, 1}}, CheckpointId{10, 0, {1, 1}}, CheckpointId{100, 0, {1, 2}},
        CheckpointId{9, 1, {2, 1}}, CheckpointId{9, 1, {1, 7}}}) {
    Save(id);
  }
  std::vector<std::string> names;
  const auto all = ListCheckpoints(fs_, "/job/checkpoints");
  for (const CheckpointInfo& info : *all) {
    names.push_back(info.id.DirectoryName());
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"step-9-h0-v1.1", "step-10-h0-v1.1", "step-100-h0-v1.2",
                                      "step-9-h1-v1.7", "step-9-h1-v2.1"}));
}

TEST_F(FindTest, ADamagedOneIsPassedOverAndReported) {
  for (Step s : {10, 20, 30}) Save({s, 0, {1, 1}});
  Damage({30, 0, {1, 1}});
  std::vector<RejectedCheckpoint> rejected;
  EXPECT_EQ(LatestCheckpoint(fs_, "/job/checkpoints", &rejected).value().id.step, 20);
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].id.step, 30);
  EXPECT_EQ(rejected[0].why.code(), absl::StatusCode::kDataLoss);
  Damage({20, 0, {1, 1}});
  Damage({10, 0, {1, 1}});
  const absl::Status none = LatestCheckpoint(fs_, "/job/checkpoints").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(none.message()), HasSubstr("none of its 3 checkpoints is good"));
}

TEST_F(FindTest, PeopleNameACheckpointInFiveWays) {
  Save({10, 0, {1, 1}});
  Save({20, 0, {1, 1}});
  const std::string ten = "/job/checkpoints/step-10-h0-v1.1";
  const std::string twenty = "/job/checkpoints/step-20-h0-v1.1/state";
  EXPECT_EQ(FindCheckpoint(fs_, "/job").value(), twenty);
  EXPECT_EQ(FindCheckpoint(fs_, "/job/checkpoints").value(), twenty);
  EXPECT_EQ(FindCheckpoint(fs_, ten).value(), ten + "/state");
  EXPECT_EQ(FindCheckpoint(fs_, ten + "/state").value(), ten + "/state");
  EXPECT_EQ(FindCheckpoint(fs_, ten + "/state.index").value(), ten + "/state");
  EXPECT_EQ(FindCheckpoint(fs_, "/none").status().message(), "/none: no such file");
  ASSERT_TRUE(fs_.CreateDirectories("/other").ok());
  EXPECT_THAT(std::string(FindCheckpoint(fs_, "/other").status().message()),
              HasSubstr("neither a job directory"));
}

}  // namespace
}  // namespace everstep
