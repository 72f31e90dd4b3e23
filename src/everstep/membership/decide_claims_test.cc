// membership: rules of Decide about tasks that processes were started as, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "everstep/base/exit_code.h"
#include "everstep/membership/claims_test_job.h"
#include "everstep/membership/job_status.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// ---- who gets what ----

TEST_F(Claims, ATaskGoesToItsClaimerWhateverTheOrderInWhichTheyCome) {
  for (int i : {3, 0, 2, 1}) Come(i);
  for (int i = 0; i < 4; ++i) {
    const auto spawns = job.AgentGot<Spawn>(std::string(1, static_cast<char>('a' + i)));
    ASSERT_THAT(spawns, SizeIs(1));
    EXPECT_EQ(spawns[0].task, (Task{"worker", i}));
    EXPECT_THAT(spawns[0].cluster.jobs.at("worker"),
                ElementsAre("a.net:29711", "b.net:29711", "c.net:29711", "d.net:29711"));
  }
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
}

TEST_F(Claims, AllTasksMustHaveAPlaceNotJustEnoughSlotsBeThere) {
  job.AgentRegisters("spare", "s", 4);
  for (int i : {0, 1, 3}) Come(i);
  EXPECT_EQ(job.state.phase, JobPhase::kGathering) << "worker:2 is for who is started as it";
  EXPECT_THAT(job.AgentGot<Notice>("spare").at(0).text, HasSubstr("stays idle"));
  Come(2);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.AgentGot<Spawn>("spare"), IsEmpty());
}

TEST_F(Claims, WithoutAFixedClusterUnclaimedTasksGoToUnclaimedSlots) {
  job.options.cluster.clear();
  job.Claims("x", "a", "worker:2");
  job.AgentRegisters("slots", "b", 2);
  EXPECT_EQ(job.state.phase, JobPhase::kGathering);
  job.Claims("y", "c", "worker:0");
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_EQ(job.AgentGot<Spawn>("x").at(0).task.ToString(), "worker:2");
  EXPECT_EQ(job.AgentGot<Spawn>("y").at(0).task.ToString(), "worker:0");
  EXPECT_EQ(job.AgentGot<Spawn>("slots").at(0).task.ToString(), "worker:1");
  EXPECT_EQ(job.AgentGot<Spawn>("slots").at(1).task.ToString(), "worker:3");
}

TEST_F(Claims, AClaimedSlotServesNothingElse) {
  job.options.cluster.clear();
  job.options.workers = 2;
  job.Claims("x", "a", "worker:0");
  job.Claims("late", "b", "worker:0");  // refused: it is no slot for worker:1 either
  EXPECT_EQ(job.reason, "waiting for 1 of 2 tasks: worker:1");
  EXPECT_THAT(job.Spawned(), IsEmpty());
}

TEST_F(Claims, AJobWithAChiefIsNativeAndTrains) {
  job.options.cluster = kWithChief;
  job.options.chiefs = 1;
  job.options.workers = 2;
  job.options.replicas = 3;
  ASSERT_TRUE(CheckJob(job.options).ok());
  ASSERT_FALSE(job.options.SaidToBeGang());
  job.Claims("c", "c", "worker:1", kWithChief);
  job.Claims("b", "b", "worker:0", kWithChief);
  job.Claims("a", "b", "chief:0", kWithChief);  // of worker:0's host
  job.Pass(60 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting) << "however long its programs load data";
  job.SaysHello(1);  // the first to greet is not the first of the workers
  job.SaysHello(0);
  job.SaysHello(2);
  for (int i = 0; i < 3; ++i) job.Syncs(i);
  ASSERT_EQ(job.state.phase, JobPhase::kTraining);
  std::vector<std::string> members;
  for (const Member& member : job.state.view.members) members.push_back(member.task.ToString());
  EXPECT_THAT(members, ElementsAre("chief:0", "worker:0", "worker:1"));
  EXPECT_EQ(StatusOf(job.now, job.state).workers_wanted, 3);
  job.options.replicas = 2;
  EXPECT_FALSE(CheckJob(job.options).ok()) << "the chief runs a replica, too";
}

TEST_F(Claims, AFingerprintThatDiffersIsToldAgainstWhoGreetedFirst) {
  job.options.cluster = kWithChief;
  job.options.chiefs = 1;
  job.options.workers = 2;
  job.Claims("a", "a", "chief:0", kWithChief);
  job.Claims("b", "b", "worker:0", kWithChief);
  job.Claims("c", "c", "worker:1", kWithChief);
  job.SaysHello(2);
  Hello other = job.HelloOf(0);
  other.fingerprint["model"] = "m2";
  job.Says(0, other);
  ASSERT_EQ(job.state.phase, JobPhase::kEnding);
  EXPECT_THAT(job.state.ending->reason, HasSubstr("chief:0 on a differs from worker:1 on c"));
}

TEST_F(Claims, ChiefAndFirstWorkerAreTwoPlacesForFailuresThatComeAgain) {
  job.options.cluster = kWithChief;
  job.options.chiefs = 1;
  job.options.workers = 2;
  job.Claims("a", "a", "chief:0", kWithChief);
  job.Claims("b", "b", "worker:0", kWithChief);
  job.Claims("c", "c", "worker:1", kWithChief);
  job.Join();
  auto fail = [&](int who) {
    job.Exits(who, KilledBy(11));
    for (int i = 0; i < 3; ++i) {
      if (i != who) job.Exits(i, ExitedWith(75));
    }
    job.Pass(40 * kSecond);
  };
  for (int who : {0, 1, 0, 1}) {
    fail(who);
    ASSERT_EQ(job.state.phase, JobPhase::kStarting) << who;
  }
}

// ---- who is refused ----

TEST_F(Claims, ATaskOutOfRangeOrOfNoKnownTypeIsRefusedByName) {
  Come(0);
  job.Claims("x", "x", "worker:5");
  ExpectRefused("x", "worker:5: this job has 4 workers, worker:0 to worker:3");
  EXPECT_THAT(LastNotice("a"), HasSubstr("worker:5: this job has 4 workers"));
  Register self = TestJob::ClaimOf("m", "m", "worker:0");
  self.task = Task{"master", 0};
  job.Feed(AgentSaid{"m", self});
  ExpectRefused("m", "master:0: there is no such type of task");
  job.Claims("c", "c", "chief:0");
  ExpectRefused("c", "chief:0: this job has no chief");
  self.agent = "n";
  self.task = Task{"worker", -1};
  job.Feed(AgentSaid{"n", self});
  ExpectRefused("n", "this job has 4 workers");
  for (int i : {1, 2, 3}) Come(i);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting) << "undisturbed";
}

TEST_F(Claims, AClaimHasOneSlot) {
  Register self = TestJob::ClaimOf("x", "x", "worker:0", kFour);
  self.slots = 2;
  self.ports = {1, 2};
  job.Feed(AgentSaid{"x", self});
  ExpectRefused("x", "claims worker:0 with 2 slots");
}

TEST_F(Claims, AnotherClusterIsRefusedWithWhatDiffers) {
  Come(0);
  const std::string other =
      R"({"cluster":{"worker":["a.net:29711","b.net:29711","c.net:29711","e.net:29711"]}})";
  job.Claims("d", "d", "worker:3", other);
  ExpectRefused("d", "worker:3 was told another cluster than this job has");
  EXPECT_THAT(job.AgentGot<JobEnded>("d")[0].reason, HasSubstr("e.net:29711"));
  EXPECT_THAT(job.AgentGot<JobEnded>("d")[0].reason, HasSubstr("d.net:29711"));
  EXPECT_LT(job.AgentGot<JobEnded>("d")[0].reason.size(), 500u);
}

TEST_F(Claims, WithoutAFixedClusterTheFirstClaimersCounts) {
  job.options.cluster.clear();
  job.options.workers = 2;
  job.Claims("a", "a", "worker:0", kTwo);
  job.Claims("b", "b", "worker:1", R"({"cluster":{"worker":["a.net:29711","x.net:29711"]}})");
  ExpectRefused("b", "another cluster");
  job.Feed(AgentStreamLost{"a"});
  job.Claims("c", "b", "worker:1", R"({"cluster":{"worker":["z.net:29711","b.net:29711"]}})");
  EXPECT_THAT(job.AgentGot<JobEnded>("c"), IsEmpty()) << "nobody is here who was told another";
}

TEST_F(Claims, AClusterOfAnotherSizeThanTheJobIsRefused) {
  job.options.cluster.clear();
  job.Claims("a", "a", "worker:0", kTwo);
  ExpectRefused("a", "a cluster with 2 of type worker, and this job has 4");
  job.Claims("c", "c", "worker:0", kWithChief);
  ExpectRefused("c", "a cluster with 1 of type chief, and this job has 0");
}

TEST_F(Claims, ATaskThatALivingProcessHasIsRefusedAndTheOthersGoOn) {
  Come(0);
  Come(1);
  job.Claims("z", "z", "worker:1", kFour);
  job.Pass(5 * kSecond);
  ExpectRefused("z",
                "worker:1 is taken: process 4711 on host b (b.net:29711) has it; two processes "
                "were started with the same task: give each its own index");
  EXPECT_THAT(LastNotice("a"), HasSubstr("worker:1 was started twice"));
  Come(2);
  Come(3);
  job.Join();
  ASSERT_EQ(job.state.phase, JobPhase::kTraining);
  job.ForgetOrders();
  job.Claims("y", "y", "worker:1", kFour);
  job.Pass(kSecond);
  job.Beats(1, 5);
  job.Pass(200 * kMs);
  EXPECT_THAT(job.AgentGot<JobEnded>("y"), SizeIs(1)) << "beats prove that worker:1 lives";
  ExpectRefused("y", "worker:1 is taken");
  EXPECT_EQ(job.state.phase, JobPhase::kTraining);
}

TEST_F(Claims, ATaskThatRunsInASlotIsTakenToo) {
  job.options.cluster.clear();
  job.options.workers = 2;
  job.AgentRegisters("slots", "s", 2);
  job.Claims("x", "x", "worker:1");
  job.Pass(5 * kSecond);
  ExpectRefused("x", "worker:1 is taken: agent slots on host s");
}

TEST_F(Claims, WhoTriesAgainAndAgainDoesNotFillTheTerminals) {
  Come(0);
  job.ForgetOrders();
  for (int i = 0; i < 40; ++i) {
    job.Claims(absl::StrCat("again", i), "z", "worker:0", kFour);
    job.Pass(100 * kMs);
  }
  job.Pass(5 * kSecond);
  int told = 0;
  for (const Notice& notice : job.AgentGot<Notice>("a")) {
    told += notice.text.find("refused") == 0 ? 1 : 0;
  }
  EXPECT_LE(told, 2);
  EXPECT_THAT(job.AgentGot<JobEnded>("again39"), SizeIs(1));
}

// ---- who takes whose place ----

TEST_F(Claims, WhoComesJustBeforeTheNewsOfAFormerOnesEndIsItsSuccessor) {
  AllCome();
  job.Join();
  // Its host lost power; nothing is heard of it, and its stream still stands.
  Come(3, "2");
  job.Pass(400 * kMs);
  EXPECT_THAT(job.AgentGot<JobEnded>("d2"), IsEmpty());
  job.StreamBreaks(3);
  job.Feed(AgentStreamLost{"d"});
  job.Pass(kSecond);
  EXPECT_THAT(job.AgentGot<JobEnded>("d2"), IsEmpty());
  for (int i : {0, 1, 2}) job.Exits(i, ExitedWith(75));
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.AgentGot<Spawn>("d2").at(0).task.ToString(), "worker:3");
}

TEST_F(Claims, WhoGoesAwayWhileInDoubtIsForgotten) {
  Come(0);
  job.Claims("z", "z", "worker:0", kFour);
  job.Feed(AgentStreamLost{"z"});
  EXPECT_THAT(job.state.doubts, IsEmpty());
  job.Pass(5 * kSecond);
  EXPECT_THAT(job.AgentGot<JobEnded>("z"), IsEmpty());
}

TEST_F(Claims, WhileItsHoldersStreamIsLostANewcomerTakesItsPlace) {
  AllCome();
  job.Join();
  const Incarnation old = job.state.workers[3].incarnation;
  job.Feed(AgentStreamLost{"d"});
  Come(3, "2");
  EXPECT_THAT(job.AgentGot<JobEnded>("d2"), IsEmpty());
  EXPECT_THAT(job.AgentGot<Notice>("d2").back().text, HasSubstr("worker:3"));
  job.Pass(kSecond);
  ASSERT_EQ(job.state.phase, JobPhase::kRestarting) << "before lost_after";
  for (int i : {0, 1, 2}) job.Exits(i, ExitedWith(75));
  job.Pass(2 * kSecond);
  ASSERT_EQ(job.state.phase, JobPhase::kStarting);
  ASSERT_THAT(job.AgentGot<Spawn>("d2"), SizeIs(1));
  EXPECT_EQ(job.AgentGot<Spawn>("d2")[0].task.ToString(), "worker:3");
  // The former one was only cut off.
  job.ForgetOrders();
  Come(3);
  const auto& orders = job.to_agents["d"];
  ASSERT_GE(orders.size(), 2u);
  EXPECT_EQ(std::get<Kill>(orders[0]).incarnation, old);
  ASSERT_THAT(job.AgentGot<JobEnded>("d"), SizeIs(1));
  EXPECT_EQ(job.AgentGot<JobEnded>("d")[0].code, kExitNotNow);
  EXPECT_THAT(job.AgentGot<JobEnded>("d")[0].reason, HasSubstr("started anew"));
  job.Join();
  EXPECT_EQ(job.state.phase, JobPhase::kTraining);
}

TEST_F(Claims, TheFormerHolderMayComeBackBeforeTheRestartIsOver) {
  AllCome();
  job.Join();
  const Incarnation old = job.state.workers[3].incarnation;
  job.Feed(AgentStreamLost{"d"});
  Come(3, "2");
  job.ForgetOrders();
  Come(3);
  const auto kills = job.AgentGot<Kill>("d");
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills[0].incarnation, old);
  EXPECT_THAT(job.AgentGot<JobEnded>("d"), SizeIs(1));
  job.Pass(kSecond);
  for (int i : {0, 1, 2}) job.Exits(i, ExitedWith(75));
  job.Pass(2 * kSecond);
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.AgentGot<Spawn>("d"), IsEmpty());
  EXPECT_THAT(job.AgentGot<Spawn>("d2"), SizeIs(1));
}

TEST_F(Claims, WhoIsLostForGoodIsWaitedForByName) {
  AllCome();
  job.Join();
  job.AgentRegisters("spare", "s", 1);
  LoseTheLast();
  EXPECT_EQ(job.state.phase, JobPhase::kGathering);
  EXPECT_EQ(job.reason, "waiting for 1 of 4 tasks: worker:3");
  EXPECT_THAT(LastNotice("a"),
              HasSubstr("waiting for 1 of 4 tasks: worker:3 (last seen on host d, d.net:29711, "));
  EXPECT_THAT(LastNotice("a"), EndsWith(" s ago)"));
  EXPECT_THAT(job.AgentGot<Spawn>("spare"), IsEmpty()) << "the cluster is fixed";
  Come(3, "2");
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  EXPECT_THAT(job.AgentGot<Spawn>("d2"), SizeIs(1));
}

TEST_F(Claims, ASlotForAnythingTakesTheTaskOfALostClaimerWhenNoClusterIsFixed) {
  job.options.cluster.clear();
  for (int i = 0; i < 4; ++i) {
    const std::string host(1, static_cast<char>('a' + i));
    job.Claims(host, host, absl::StrCat("worker:", i));
  }
  job.Join();
  job.AgentRegisters("spare", "s", 1);
  LoseTheLast();
  EXPECT_EQ(job.state.phase, JobPhase::kStarting);
  ASSERT_THAT(job.AgentGot<Spawn>("spare"), SizeIs(1));
  EXPECT_EQ(job.AgentGot<Spawn>("spare")[0].task.ToString(), "worker:3");
}

TEST_F(Claims, TheAddressOfAClaimedTaskStaysWhatTheOthersWereTold) {
  AllCome();
  job.Feed(AgentSaid{"b", Ports{{9999}}});
  EXPECT_EQ(job.state.agents.at("b").self.ports, std::vector<int>{29711});
}

}  // namespace
}  // namespace everstep
