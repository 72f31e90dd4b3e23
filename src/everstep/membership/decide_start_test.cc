// membership: rules from the first agent to the commit of a view.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(CheckJob, RefusesFewerReplicasThanWorkersAndSaysWhatToChange) {
  JobOptions options;
  options.workers = 4;
  options.replicas = 3;
  const absl::Status status = CheckJob(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("spares"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--replicas 4"));
  options.replicas = 4;
  EXPECT_TRUE(CheckJob(options).ok());
  options.workers = 0;
  EXPECT_FALSE(CheckJob(options).ok());
}

TEST(Gathering, NothingIsSpawnedBeforeAllSlotsAreThere) {
  TestJob job(3);
  job.AgentRegisters("one", "a", 2);
  EXPECT_THAT(job.AgentGot<Spawn>("one"), IsEmpty());
  EXPECT_EQ(job.reason, "waiting for 1 more slot");
  job.AgentRegisters("two", "b", 1);
  EXPECT_THAT(job.AgentGot<Spawn>("one"), SizeIs(2));
  EXPECT_THAT(job.AgentGot<Spawn>("two"), SizeIs(1));
}

TEST(Gathering, TellsEveryFewSecondsWhatIsMissing) {
  TestJob job(3);
  job.AgentRegisters("one", "a", 1);
  job.ForgetOrders();
  job.Pass(11 * kSecond);
  const auto notices = job.AgentGot<Notice>("one");
  ASSERT_THAT(notices, SizeIs(2));
  EXPECT_EQ(notices[0].text, "waiting for 2 more slots; here are one on a with 1");
}

TEST(Gathering, PastTheDeadlineEndsWith75AndTheList) {
  TestJob job(3);
  job.AgentRegisters("one", "a", 1);
  job.Pass(59 * kSecond);
  EXPECT_FALSE(job.end);
  job.Pass(2 * kSecond);
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("2 of 3 slots are missing"));
  EXPECT_THAT(job.end->reason, HasSubstr("one on a with 1"));
  EXPECT_EQ(job.AgentGot<JobEnded>("one").at(0).code, kExitNotNow);
}

TEST(Gathering, AnAgentThatLeavesTakesItsSlotsWithIt) {
  TestJob job(2);
  job.AgentRegisters("one", "a", 1);
  job.Feed(AgentStreamLost{"one"});
  job.AgentRegisters("two", "b", 1);
  EXPECT_THAT(job.AgentGot<Spawn>("two"), IsEmpty());
  job.AgentRegisters("one", "a", 1);
  EXPECT_THAT(job.AgentGot<Spawn>("two"), SizeIs(1));
}

TEST(Gathering, IndicesAreContiguousPerHostInTheOrderOfHostAndName) {
  TestJob job(5);
  job.AgentRegisters("x", "b", 2);
  job.AgentRegisters("z", "a", 1);
  job.AgentRegisters("y", "a", 2);
  auto tasks = [&](const std::string& agent) {
    std::vector<int> result;
    for (const Spawn& spawn : job.AgentGot<Spawn>(agent)) result.push_back(spawn.task.index);
    return result;
  };
  EXPECT_THAT(tasks("y"), ElementsAre(0, 1));
  EXPECT_THAT(tasks("z"), ElementsAre(2));
  EXPECT_THAT(tasks("x"), ElementsAre(3, 4));
}

TEST(Gathering, SpawnCarriesTheClusterTheSettingsAndANewIncarnation) {
  TestJob job(3);
  job.Gather();
  const auto a = job.AgentGot<Spawn>("agent-a"), b = job.AgentGot<Spawn>("agent-b");
  ASSERT_THAT(a, SizeIs(2));
  EXPECT_THAT(a[0].cluster.jobs.at("worker"),
              ElementsAre("a.net:5000", "a.net:5001", "b.net:5000"));
  EXPECT_EQ(b.at(0).cluster.jobs, a[0].cluster.jobs);
  EXPECT_EQ(a[0].settings.at("EVERSTEP_SEED"), "7");
  EXPECT_NE(a[0].incarnation, 0u);
  EXPECT_NE(a[0].incarnation, a[1].incarnation);
  EXPECT_NE(a[1].incarnation, b[0].incarnation);
}

TEST(Gathering, LivesOfDifferentTermsNeverShareAnIncarnation) {
  TestJob first(2), second(2);
  second.options.term = 2;
  first.Gather();
  second.Gather();
  EXPECT_EQ(first.state.workers[0].incarnation, 1u);
  EXPECT_GT(second.state.workers[0].incarnation, 1u << 31);
}

TEST(Gathering, AnAddressOfIPv6IsPutInBrackets) {
  TestJob job(1);
  job.Feed(AgentSaid{"one", Register{"one", "a", "fd00::1", 1, {5000}, "1.0"}});
  EXPECT_EQ(job.AgentGot<Spawn>("one").at(0).cluster.jobs.at("worker").at(0), "[fd00::1]:5000");
}

TEST(Gathering, AnAgentOfAnotherVersionIsRefusedAndTheJobGoesOn) {
  TestJob job(1);
  job.options.version = "2.0";
  job.AgentRegisters("old", "a", 1);  // 1.0
  const auto refused = job.AgentGot<JobEnded>("old");
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].code, kExitConfiguration);
  EXPECT_THAT(refused[0].reason, HasSubstr("runs version 1.0 and the job 2.0"));
  EXPECT_FALSE(job.end);
  job.Feed(AgentSaid{"new", Register{"new", "a", "127.0.0.1", 1, {5000}, "2.0"}});
  EXPECT_THAT(job.AgentGot<Spawn>("new"), SizeIs(1));
}

TEST(Gathering, AnAgentWithoutAPortForEachSlotIsRefused) {
  TestJob job(2);
  job.Feed(AgentSaid{"one", Register{"one", "a", "127.0.0.1", 2, {5000}, "1.0"}});
  EXPECT_EQ(job.AgentGot<JobEnded>("one").at(0).code, kExitConfiguration);
  EXPECT_THAT(job.AgentGot<Spawn>("one"), IsEmpty());
}

TEST(Starting, AnAgentThatComesBackHearsItsOrdersAgain) {
  TestJob job(2);
  job.Gather();
  job.ForgetOrders();
  job.Feed(AgentStreamLost{"agent-a"});
  job.Pass(kSecond);
  job.AgentRegisters("agent-a", "a", 2);
  EXPECT_THAT(job.AgentGot<Spawn>("agent-a"), SizeIs(2));
  job.Pass(5 * kSecond);
  EXPECT_FALSE(job.end);
}

TEST(Starting, AViewIsPreparedOnlyWhenAllHaveSaidHello) {
  TestJob job(3);
  job.Gather();
  job.SaysHello(2);
  job.SaysHello(0);
  EXPECT_THAT(job.Got<Welcome>(0), SizeIs(1));
  EXPECT_THAT(job.Got<Prepare>(0), IsEmpty());
  job.SaysHello(1);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(job.Got<Prepare>(i), SizeIs(1)) << i;
}

TEST(Starting, TheViewOrdersMembersByHostAndIndexAndPartitionsTheReplicas) {
  TestJob job(3, 8);
  job.Gather();
  for (int i : {2, 1, 0}) job.SaysHello(i);
  const View view = job.Got<Prepare>(1).at(0).view;
  EXPECT_EQ(view.id, (ViewId{1, 1}));
  EXPECT_EQ(view.num_replicas, 8);
  EXPECT_EQ(view.committer, 0);
  ASSERT_THAT(view.members, SizeIs(3));
  int next = 0;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(view.members[rank].task.index, rank);
    EXPECT_EQ(view.members[rank].replica_begin, next);
    next = view.members[rank].replica_end;
  }
  EXPECT_EQ(next, 8);
  EXPECT_EQ(view.members[2].host, "b");
  EXPECT_EQ(view.members[2].data_address, "10.0.0.1:29712");
}

TEST(Starting, AnotherFingerprintIsRefusedByNameAndValuesWith78) {
  TestJob job(2);
  job.Gather();
  job.SaysHello(0);
  Hello hello = job.HelloOf(1);
  hello.fingerprint["model"] = "m2";
  job.Says(1, hello);
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitConfiguration);
  EXPECT_THAT(job.end->reason,
              HasSubstr("worker:1 differs from worker:0: 'model' is 'm2', not 'm1'"));
  EXPECT_EQ(job.Got<Stop>(0).at(0).code, kExitConfiguration);
  EXPECT_EQ(job.Got<Stop>(1).at(0).code, kExitConfiguration);
}

TEST(Starting, AFingerprintThatLacksAFieldIsRefusedToo) {
  TestJob job(2);
  job.Gather();
  job.SaysHello(0);
  Hello hello = job.HelloOf(1);
  hello.fingerprint.erase("version");
  job.Says(1, hello);
  job.AllExit();
  EXPECT_THAT(job.end->reason, HasSubstr("'version' is nothing, not '1.0'"));
}

TEST(Starting, ALateHelloEndsTheJobOnlyOnceAnotherHasSaidIt) {
  TestJob job(2);
  job.Gather();
  job.Pass(std::chrono::minutes(20));
  EXPECT_FALSE(job.state.ending);  // may be a program that never says hello
  job.SaysHello(0);
  job.Pass(std::chrono::minutes(14));
  EXPECT_FALSE(job.state.ending);
  job.Pass(std::chrono::minutes(2));
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 did not say hello within 900.0 s"));
}

TEST(Starting, AHelloUnderAnothersNameIsAnError) {
  TestJob job(2);
  job.Gather();
  Hello hello = job.HelloOf(1);
  hello.task.index = 0;
  job.Says(1, hello);
  job.Pass(kSecond);
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 says that it is worker:0"));
}

TEST(Starting, AHelloOfNoKnownLifeIsToldToStop) {
  TestJob job(1);
  job.Gather();
  job.Feed(WorkerSaid{12345, Hello{}});
  ASSERT_THAT(job.to_workers[12345], SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<Stop>(job.to_workers[12345][0]));
  EXPECT_FALSE(job.state.ending);
}

TEST(Preparing, TheMembersAreToldWhichStateToBeginWithAndWhoHasIt) {
  TestJob job(3);
  job.Gather();
  for (int i = 0; i < 3; ++i) {
    Hello hello = job.HelloOf(i);
    if (i > 0) hello.step = 40, hello.digest = 7;
    job.Says(i, hello);
  }
  for (int i = 0; i < 3; ++i) {
    const StateOrigin origin = job.Got<Prepare>(i).at(0).origin;
    EXPECT_EQ(origin.step, 40);
    EXPECT_EQ(origin.digest, 7u);
    EXPECT_EQ(origin.donor, 1);
  }
  job.StreamBreaks(0);
  job.ForgetOrders();
  job.SaysHello(0);
  EXPECT_EQ(job.Got<Prepare>(0).at(0).origin.donor, 1) << "and told again after a reconnect";
}

TEST(Preparing, RestoredStatesWithoutAMajorityEndTheJobWith70) {
  TestJob job(2);
  job.Gather();
  for (int i = 0; i < 2; ++i) {
    Hello hello = job.HelloOf(i);
    hello.step = 40;
    hello.digest = i;
    job.Says(i, hello);
  }
  EXPECT_THAT(job.Got<Prepare>(0), IsEmpty());
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitOurFault);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 at step 40 with digest 0000000000000001"));
}

TEST(Preparing, TheViewIsCommittedWhenAllHoldTheSameState) {
  TestJob job(3);
  job.held = {0, 40, 7, -1};
  job.Gather();
  for (int i = 0; i < 3; ++i) job.SaysHello(i);
  job.Syncs(0, 40, 7);
  job.Syncs(2, 40, 7);
  job.Syncs(2, 40, 7);  // said again after a reconnect
  EXPECT_THAT(job.Got<Commit>(0), IsEmpty());
  job.Syncs(1, 40, 7);
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(job.Got<Commit>(i), SizeIs(1)) << i;
    EXPECT_EQ(job.Got<Commit>(i)[0].view, job.state.view.id);
  }
  EXPECT_EQ(job.state.phase, JobPhase::kTraining);
}

TEST(Preparing, ASyncOfAnotherViewDoesNotCount) {
  TestJob job(1);
  job.Gather();
  job.SaysHello(0);
  job.Says(0, Synced{ViewId{1, 9}, 0, 0});
  EXPECT_THAT(job.Got<Commit>(0), IsEmpty());
}

TEST(Preparing, AnotherStateEndsTheJobWith70NamingTheOddOne) {
  TestJob job(3);
  job.Gather();
  for (int i = 0; i < 3; ++i) job.SaysHello(i);
  job.Syncs(0, 40, 7);
  job.Syncs(1, 40, 8);
  job.Syncs(2, 40, 7);
  EXPECT_THAT(job.Got<Commit>(0), IsEmpty());
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitOurFault);
  EXPECT_THAT(job.end->reason,
              HasSubstr("worker:1 on a at step 40 with digest 0000000000000008; the other 2"));
  EXPECT_THAT(job.end->reason, Not(HasSubstr("worker:2")));
}

TEST(Preparing, EqualStatesThatAreNotTheOneAgreedOnEndTheJobWith70) {
  TestJob job(2);
  job.Gather();
  for (int i = 0; i < 2; ++i) job.SaysHello(i);  // step 0, digest 9
  for (int i = 0; i < 2; ++i) job.Syncs(i, 40, 7);
  EXPECT_THAT(job.Got<Commit>(0), IsEmpty());
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitOurFault);
  EXPECT_EQ(job.end->reason,
            "the workers hold another state than the view begins with: step 40 with digest "
            "0000000000000007, not step 0 with digest 0000000000000009");
}

TEST(Preparing, WithoutAMajorityBothSidesAreNamed) {
  TestJob job(2);
  job.Gather();
  for (int i = 0; i < 2; ++i) job.SaysHello(i);
  job.Syncs(0, 40, 7);
  job.Syncs(1, 41, 7);
  job.AllExit();
  EXPECT_THAT(job.end->reason, HasSubstr("worker:0 at step 40"));
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 at step 41"));
}

TEST(Preparing, WhoDoesNotLinkInTimeIsNamedWith75) {
  TestJob job(2);
  job.Gather();
  for (int i = 0; i < 2; ++i) job.SaysHello(i);
  job.Syncs(0);
  job.Pass(std::chrono::minutes(3));
  job.AllExit();
  ASSERT_TRUE(job.end);
  EXPECT_EQ(job.end->code, kExitNotNow);
  EXPECT_THAT(job.end->reason, HasSubstr("worker:1 did not link"));
}

TEST(Reconnecting, AWorkerThatComesBackCatchesUpAndNothingEnds) {
  TestJob job(2);
  job.Gather();
  for (int i = 0; i < 2; ++i) job.SaysHello(i);
  job.Syncs(0);
  job.StreamBreaks(1);
  job.ForgetOrders();
  job.Pass(kSecond);
  job.SaysHello(1);
  EXPECT_THAT(job.Got<Prepare>(1), SizeIs(1));
  job.Syncs(1);
  EXPECT_THAT(job.Got<Commit>(1), SizeIs(1));
  job.StreamBreaks(1);
  job.ForgetOrders();
  job.Pass(kSecond);
  job.SaysHello(1);
  EXPECT_THAT(job.Got<Prepare>(1), SizeIs(1));
  EXPECT_THAT(job.Got<Commit>(1), SizeIs(1));
  job.Pass(10 * kSecond);
  EXPECT_FALSE(job.state.ending);
  EXPECT_FALSE(job.state.trouble_since);
}

TEST(Coordinator, ThatWasItselfNotRunningDoesNotTakeOthersForLost) {
  TestJob job(2);
  job.Train();
  job.StreamBreaks(1);
  job.now += 30 * kSecond;  // stopped: no tick in between
  job.Feed(Tick{});
  EXPECT_FALSE(job.state.ending);
  job.SaysHello(1);
  job.Pass(5 * kSecond);
  EXPECT_FALSE(job.state.ending);
}

TEST(Fingerprints, AProgramThatChangedItsSettingsIsRefusedEvenWhenAllWorkersAgree) {
  TestJob job(2);
  job.Gather();
  Hello hello = job.HelloOf(0);
  hello.fingerprint["seed"] = "8";  // the job has 7
  job.Says(0, hello);
  ASSERT_TRUE(job.state.ending);
  EXPECT_EQ(job.state.ending->code, kExitConfiguration);
  EXPECT_EQ(
      job.state.ending->reason,
      "worker:0 runs with seed 8 but the job has 7; the program must leave EVERSTEP_SEED as it "
      "finds it");
}

}  // namespace
}  // namespace everstep
