// engine: rules of a worker's life.
#include "everstep/engine/worker_machine.h"

#include <gtest/gtest.h>

namespace everstep {
namespace {

using State = WorkerMachine::State;

View ViewOf(int64_t term, int64_t id) {
  View view;
  view.id = {term, id};
  view.num_replicas = 2;
  view.members.resize(2);
  view.members[0].incarnation = 7;
  return view;
}

template <typename T>
const T* Said(const Actions& actions, size_t i) {
  if (i >= actions.size()) return nullptr;
  auto* say = std::get_if<SayAction>(&actions[i]);
  return say ? std::get_if<T>(&say->message) : nullptr;
}

class WorkerMachineTest : public ::testing::Test {
 protected:
  WorkerMachineTest() : machine_(Hello{{"worker", 0}, 7, "host", "a:1", {}, {}, 0, 0, 0}) {}

  void Run(int64_t id) {
    if (machine_.state() == State::kNew) machine_.Start({});
    machine_.OnOrder(Prepare{ViewOf(1, id)}, at_);
    machine_.Linked(absl::OkStatus(), -1, at_);
    machine_.OnOrder(Commit{{1, id}}, at_);
    ASSERT_EQ(machine_.state(), State::kRunning);
  }

  WorkerMachine machine_;
  Position at_{5, 0, 99};
};

TEST_F(WorkerMachineTest, SaysHelloLinksSyncsAndRuns) {
  Actions actions = machine_.Start(at_);
  ASSERT_NE(Said<Hello>(actions, 0), nullptr);
  EXPECT_EQ(Said<Hello>(actions, 0)->step, 5);
  machine_.OnOrder(Welcome{1}, at_);
  actions = machine_.OnOrder(Prepare{ViewOf(1, 1)}, at_);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<LinkAction>(actions[0]));
  actions = machine_.Linked(absl::OkStatus(), -1, at_);
  ASSERT_NE(Said<Synced>(actions, 0), nullptr);
  EXPECT_EQ(Said<Synced>(actions, 0)->digest, 99u);
  EXPECT_EQ(machine_.state(), State::kSynced);
  machine_.OnOrder(Commit{{1, 1}}, at_);
  EXPECT_EQ(machine_.state(), State::kRunning);
}

TEST_F(WorkerMachineTest, RunsNothingBeforeCommitAndNothingOfAnotherView) {
  machine_.Start(at_);
  machine_.OnOrder(Prepare{ViewOf(1, 2)}, at_);
  machine_.OnOrder(Commit{{1, 2}}, at_);  // before it is linked: not meant for this state
  EXPECT_EQ(machine_.state(), State::kLinking);
  machine_.Linked(absl::OkStatus(), -1, at_);
  machine_.OnOrder(Commit{{1, 1}}, at_);
  EXPECT_EQ(machine_.state(), State::kSynced);
}

TEST_F(WorkerMachineTest, ObeysOnlyTheHighestTermAndRisingViews) {
  Run(3);
  EXPECT_TRUE(machine_.OnOrder(Prepare{ViewOf(1, 3)}, at_).empty());
  EXPECT_TRUE(machine_.OnOrder(Prepare{ViewOf(1, 2)}, at_).empty());
  machine_.OnOrder(Welcome{4}, at_);
  EXPECT_TRUE(machine_.OnOrder(Prepare{ViewOf(3, 9)}, at_).empty());
  EXPECT_FALSE(machine_.OnOrder(Prepare{ViewOf(4, 1)}, at_).empty());
}

TEST_F(WorkerMachineTest, AnswersClosedOnlyAfterItsLinksAreDown) {
  Run(1);
  Actions actions = machine_.OnOrder(Close{{1, 1}, "worker:1 died"}, at_);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<UnlinkAction>(actions[0]));
  ASSERT_NE(Said<Closed>(actions, 1), nullptr);
  EXPECT_EQ(Said<Closed>(actions, 1)->step, 5);
  EXPECT_TRUE(machine_.OnOrder(Close{{1, 9}, ""}, at_).empty());
}

TEST_F(WorkerMachineTest, AFailedRoundIsReportedOnceAndWaitsForClose) {
  Run(1);
  Actions actions = machine_.RoundFailed(absl::UnavailableError("worker:1 died"), 1);
  ASSERT_NE(Said<LinkLost>(actions, 0), nullptr);
  EXPECT_EQ(machine_.state(), State::kBroken);
  EXPECT_TRUE(machine_.RoundFailed(absl::UnavailableError("again"), 1).empty());
  machine_.OnOrder(Close{{1, 1}, ""}, at_);
  Run(2);
}

TEST_F(WorkerMachineTest, AViewThatCannotBeLinkedIsReported) {
  machine_.Start(at_);
  machine_.OnOrder(Prepare{ViewOf(1, 1)}, at_);
  Actions actions = machine_.Linked(absl::DeadlineExceededError("no answer"), 1, at_);
  ASSERT_NE(Said<LinkLost>(actions, 0), nullptr);
  EXPECT_EQ(Said<LinkLost>(actions, 0)->why, "no answer");
  EXPECT_EQ(Said<LinkLost>(actions, 0)->peer, 1);
}

TEST_F(WorkerMachineTest, FinishingKeepsItsLinksUntilStopFailingDropsThem) {
  Run(1);
  Actions actions = machine_.Leave({LeaveReason::kFinished, {}, 0, 0, 0, ""}, at_);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(Said<Leaving>(actions, 0)->step, 5);
  actions = machine_.OnOrder(Stop{0, {}, ""}, at_);
  EXPECT_TRUE(std::holds_alternative<UnlinkAction>(actions[0]));
  EXPECT_EQ(machine_.state(), State::kEnded);
  EXPECT_TRUE(machine_.OnOrder(Stop{1, {}, ""}, at_).empty());
  EXPECT_EQ(machine_.end().code, 0);
}

TEST_F(WorkerMachineTest, FailingDropsItsLinksFirst) {
  Run(1);
  Actions actions = machine_.Leave({LeaveReason::kFailed, {}, 0, 0, 70, "bad"}, at_);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<UnlinkAction>(actions[0]));
  EXPECT_NE(Said<Leaving>(actions, 1), nullptr);
}

TEST_F(WorkerMachineTest, WhoNeverSaidHelloLeavesAtOnce) {
  Actions actions = machine_.Leave({LeaveReason::kFailed, {}, 0, 0, 65, "no data"}, at_);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<EndAction>(actions[0]).code, 65);
}

}  // namespace
}  // namespace everstep
