// checkpoint: what stays and what goes.
#include "everstep/checkpoint/retention.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "everstep/checkpoint/directory_store.h"
#include "everstep/checkpoint/test_state.h"
#include "everstep/env/memory_file_system.h"
#include "everstep/io/publish.h"

namespace everstep {
namespace {

CheckpointInfo At(Step step, absl::Status opened = absl::OkStatus()) {
  const CheckpointId id{step, 0, {1, 1}};
  return {id, "/c/" + id.DirectoryName(), std::move(opened)};
}

using Steps = std::vector<Step>;

Steps StepsOf(const std::vector<CheckpointInfo>& infos) {
  Steps steps;
  for (const CheckpointInfo& info : infos) steps.push_back(info.id.step);
  return steps;
}

struct Case {
  std::vector<CheckpointInfo> all;
  RetentionRule rule;
  std::set<Step> foreign, bad;
  Step committed = -1;  // -1: the newest
};

RetentionPlan Plan(const Case& c, std::vector<Step>* read = nullptr) {
  const CheckpointId committed =
      c.committed < 0 ? c.all.back().id : CheckpointId{c.committed, 0, {1, 1}};
  return PlanRetention(
      c.all, c.rule, committed,
      [&](const CheckpointInfo& info) { return c.foreign.count(info.id.step) == 0; },
      [&](const CheckpointInfo& info) {
        if (read != nullptr) read->push_back(info.id.step);
        return c.bad.count(info.id.step) == 0;
      });
}

TEST(Retention, WhatSomebodyHasNamedIsLeftAlone) {
  Case c{{At(1), At(2), At(3)}, {1, 0}};
  c.all[0].path = "/c/my best";
  const RetentionPlan plan = Plan(c);
  EXPECT_EQ(StepsOf(plan.kept), (Steps{3}));
  EXPECT_EQ(StepsOf(plan.retired), (Steps{2}));
}

TEST(Retention, AllStayUnlessTold) {
  Steps read;
  const auto plan = Plan({{At(1), At(2), At(3)}, {0, 2}}, &read);
  EXPECT_EQ(StepsOf(plan.kept), (Steps{1, 2, 3}));
  EXPECT_TRUE(plan.retired.empty());
  EXPECT_TRUE(read.empty());
}

TEST(Retention, TheNewestAndTheMultiplesStay) {
  Steps read;
  const auto plan = Plan({{At(0), At(5), At(10), At(15), At(20), At(25)}, {2, 10}}, &read);
  EXPECT_EQ(StepsOf(plan.kept), (Steps{0, 10, 20, 25}));
  EXPECT_EQ(StepsOf(plan.retired), (Steps{5, 15}));
  EXPECT_EQ(read, (Steps{25})) << "the new one is read before anything goes, and no more";
}

TEST(Retention, NothingIsReadWhenNothingGoes) {
  Steps read;
  EXPECT_TRUE(Plan({{At(1), At(2)}, {2, 0}}, &read).retired.empty());
  EXPECT_TRUE(read.empty());
}

TEST(Retention, OneThatStaysMustBeGood) {
  Steps read;
  auto plan = Plan({{At(1), At(2), At(3), At(4)}, {2, 0}, {}, {4}}, &read);
  EXPECT_EQ(StepsOf(plan.retired), (Steps{1, 2}));
  EXPECT_EQ(read, (Steps{4, 3}));
  // Else the newest good one of the others stays too.
  plan = Plan({{At(1), At(2), At(3), At(4), At(5)}, {2, 0}, {}, {5, 4, 3}});
  EXPECT_EQ(StepsOf(plan.kept), (Steps{2, 4, 5}));
  EXPECT_EQ(StepsOf(plan.retired), (Steps{1, 3}));
  // And when there is none, all.
  plan = Plan({{At(1), At(2), At(3)}, {1, 0}, {}, {1, 2, 3}});
  EXPECT_TRUE(plan.retired.empty());
}

TEST(Retention, OthersCheckpointsNeitherCountNorGo) {
  const auto plan = Plan({{At(1), At(2), At(3), At(90), At(99)}, {1, 0}, {1, 90, 99}, {}, 3});
  EXPECT_EQ(StepsOf(plan.kept), (Steps{3}));
  EXPECT_EQ(StepsOf(plan.retired), (Steps{2}));
}

TEST(Retention, TheNewOneStaysThoughItIsNotTheNewest) {
  const auto plan = Plan({{At(1), At(2), At(3), At(4)}, {1, 0}, {}, {}, 2});
  EXPECT_EQ(StepsOf(plan.kept), (Steps{2, 4}));
  EXPECT_EQ(StepsOf(plan.retired), (Steps{1, 3}));
}

TEST(Retention, DamagedOnesDoNotCountAndGoWithTheirAge) {
  const auto plan = Plan({{At(1, absl::DataLossError("")), At(2), At(3, absl::UnavailableError("")),
                           At(4), At(5, absl::DataLossError("")), At(6)},
                          {2, 0}});
  EXPECT_EQ(StepsOf(plan.kept), (Steps{4, 6}));
  EXPECT_EQ(StepsOf(plan.retired), (Steps{1, 2}));
}

// The same through the store.
class RetentionStoreTest : public ::testing::Test {
 protected:
  RetentionStoreTest() { EXPECT_TRUE(fs_.CreateDirectories("/c").ok()); }
  void Save(Step step, int keep_last, Step keep_every = 0) {
    TestState state(step);
    DirectoryStore store(fs_, {"/c", keep_last, keep_every, ""});
    ASSERT_TRUE(store.SaveShard({step, 0, {1, 1}}, state.tensors(), {}).ok());
    ASSERT_TRUE(store.Commit({step, 0, {1, 1}}, state.tensors(), 1).ok());
  }
  using Names = std::vector<std::string>;
  MemoryFileSystem fs_;
};

TEST_F(RetentionStoreTest, ACommitRetiresAndTheNoteNamesWhatStays) {
  for (Step s : {10, 15, 20, 25}) Save(s, 2, 10);
  EXPECT_EQ(fs_.List("/c").value(),
            (Names{"checkpoint", "step-10-h0-v1.1", "step-20-h0-v1.1", "step-25-h0-v1.1"}));
  EXPECT_EQ(ReadWholeFile(fs_, "/c/checkpoint").value(),
            "model_checkpoint_path: \"step-25-h0-v1.1/state\"\n"
            "all_model_checkpoint_paths: \"step-10-h0-v1.1/state\"\n"
            "all_model_checkpoint_paths: \"step-20-h0-v1.1/state\"\n"
            "all_model_checkpoint_paths: \"step-25-h0-v1.1/state\"\n");
}

TEST_F(RetentionStoreTest, WhatTheNewOneReplacesStaysWhileTheNewOneIsBad) {
  Save(1, 1);
  TestState two(2), wrong(2);
  wrong.weights[3] += 1;
  DirectoryStore store(fs_, {"/c", 1, 0, ""});
  ASSERT_TRUE(store.SaveShard({2, 0, {1, 1}}, wrong.tensors(), {}).ok());
  ASSERT_TRUE(store.Commit({2, 0, {1, 1}}, two.tensors(), 1).ok());
  EXPECT_EQ(fs_.List("/c").value(), (Names{"checkpoint", "step-1-h0-v1.1", "step-2-h0-v1.1"}));
  TestState got;
  EXPECT_EQ(store.Restore(got.tensors()).value().id.step, 1);
  Save(3, 1);
  EXPECT_EQ(fs_.List("/c").value(), (Names{"checkpoint", "step-3-h0-v1.1"}));
}

}  // namespace
}  // namespace everstep
