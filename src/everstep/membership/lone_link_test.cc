// membership: rules of the coordinator of a program that runs alone.
#include "everstep/membership/lone_link.h"

#include <gtest/gtest.h>

#include <thread>

#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"

namespace everstep {
namespace {

template <typename T>
T Take(ControlLink& link) {
  auto order = link.Next(TimePoint());
  if (!order || !std::holds_alternative<T>(*order)) {
    ADD_FAILURE() << "another order, or none";
    return T{};
  }
  return std::get<T>(*order);
}

TEST(LoneLink, GivesAllReplicasToTheOneMember) {
  auto link = MakeLoneLink(8);
  Hello hello;
  hello.task = {"worker", 0};
  hello.incarnation = 77;
  hello.history = 2;
  hello.step = 40;
  hello.digest = 9;
  link->Send(hello);
  EXPECT_EQ(Take<Welcome>(*link).term, 1);
  const Prepare prepare = Take<Prepare>(*link);
  EXPECT_EQ(prepare.origin.history, 2);
  EXPECT_EQ(prepare.origin.step, 40);
  EXPECT_EQ(prepare.origin.digest, 9u);
  EXPECT_EQ(prepare.origin.donor, -1) << "its state is its own";
  const View& view = prepare.view;
  EXPECT_EQ(view.id, (ViewId{1, 1}));
  EXPECT_EQ(view.num_replicas, 8);
  ASSERT_EQ(view.members.size(), 1u);
  EXPECT_EQ(view.RankOf(77), 0);
  EXPECT_EQ(view.members[0].replica_begin, 0);
  EXPECT_EQ(view.members[0].replica_end, 8);
  link->Send(Synced{view.id, 40, 9});
  EXPECT_EQ(Take<Commit>(*link).view, view.id);
  EXPECT_FALSE(link->Next(TimePoint()));
  EXPECT_EQ(link->AwayFor(), Duration(0));
}

TEST(LoneLink, LeavingIsAnsweredByStopWithTheCodeOfTheReason) {
  auto link = MakeLoneLink(1);
  link->Send(Leaving{LeaveReason::kFinished, {}, 5, 1, 0, ""});
  EXPECT_EQ(Take<Stop>(*link).code, kExitDone);
  link->Send(Leaving{LeaveReason::kToldToLeave, {}, 5, 1, 0, ""});
  EXPECT_EQ(Take<Stop>(*link).code, kExitToldToLeave);
  link->Send(Leaving{LeaveReason::kFailed, {}, 5, 1, 65, "bad"});
  EXPECT_EQ(Take<Stop>(*link).code, kExitBadData);
}

TEST(LoneLink, NextWaitsForAnOrderOfAnotherThreadsMaking) {
  auto link = MakeLoneLink(1);
  std::thread sender([&] { link->Send(Hello{}); });
  EXPECT_TRUE(link->Next(After(RealClock(), std::chrono::seconds(20))));
  sender.join();
}

}  // namespace
}  // namespace everstep
