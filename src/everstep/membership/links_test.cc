// membership: worker and agent links against a server that the test plays: loss, reconnect,
// repetition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/socket.h"
#include "everstep/membership/agent_link.h"
#include "everstep/membership/translate.h"
#include "everstep/membership/worker_link.h"
#include "everstep/wire/server.h"

namespace everstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Duration kLong = std::chrono::seconds(20);

Deadline Soon() { return After(RealClock(), kLong); }

// Keeps all that is said but beats.
class Ear : public ControlHandler {
 public:
  void OnMessage(SessionId session, wire::FromWorker message) override {
    auto m = FromProto(message);
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto* beat = std::get_if<Beat>(&*m)) {
      beats_.push_back(*beat);
    } else {
      worker_.push_back({session, *m});
    }
    changed_.notify_all();
  }
  void OnMessage(SessionId session, wire::FromAgent message) override {
    std::lock_guard<std::mutex> lock(mutex_);
    agent_.push_back({session, *FromProto(message)});
    changed_.notify_all();
  }
  void OnClosed(SessionId) override {
    std::lock_guard<std::mutex> lock(mutex_);
    ++closed_;
    changed_.notify_all();
  }
  std::vector<std::pair<SessionId, WorkerMessage>> Worker(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, Soon(), [&] { return worker_.size() >= count; }));
    return worker_;
  }
  std::vector<std::pair<SessionId, AgentMessage>> Agent(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, Soon(), [&] { return agent_.size() >= count; }));
    return agent_;
  }
  std::vector<Beat> Beats(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, Soon(), [&] { return beats_.size() >= count; }));
    return beats_;
  }
  void AwaitClosed(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, Soon(), [&] { return closed_ >= count; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<SessionId, WorkerMessage>> worker_;
  std::vector<std::pair<SessionId, AgentMessage>> agent_;
  std::vector<Beat> beats_;
  int closed_ = 0;
};

class LinksTest : public ::testing::Test {
 protected:
  void Serve() {
    auto result = ControlServer::Start({address, {secret}}, &ear);
    ASSERT_TRUE(result.ok()) << result.status();
    server = std::move(*result);
    address = absl::StrCat("127.0.0.1:", server->port());
  }
  void Fall() {
    server->Shutdown(RealClock().Now());
    server.reset();
  }
  std::unique_ptr<ControlLink> Worker(WorkerLinkOptions o) {
    auto link = ConnectWorker(std::move(o));
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? std::move(*link) : nullptr;
  }
  std::unique_ptr<ControlLink> Worker() { return Worker({address, {secret}}); }
  AgentLinkOptions AgentOptions() {
    return {address, {secret}, Register{"agent", "host", "127.0.0.1", 1, {5000}, "1.0"}};
  }
  Hello SomeHello() {
    Hello hello;
    hello.task = {"worker", 3};
    hello.incarnation = 9;
    hello.fingerprint["args"] = "\xff";
    return hello;
  }

  const JobSecret secret = JobSecret::Generate();
  Ear ear;
  std::string address = "127.0.0.1:0";
  std::unique_ptr<ControlServer> server;
};

View SomeView(int64_t id) {
  View view;
  view.id = {1, id};
  view.num_replicas = 2;
  view.members.push_back({{"worker", 3}, 9, "host", "127.0.0.1:7000", 0, 2});
  return view;
}

// ---- the worker's link ----

TEST_F(LinksTest, AWorkerThatComesBackSaysAgainWhatItSaidOfItsView) {
  Serve();
  auto link = Worker();
  link->Send(SomeHello());
  const SessionId first = ear.Worker(1)[0].first;
  server->Send({first}, ToProto(WorkerOrder(Welcome{1})));
  server->Send({first}, ToProto(WorkerOrder(Prepare{SomeView(1)})));
  server->Send({first}, ToProto(WorkerOrder(Commit{{1, 1}})));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(link->Next(Soon()));
  link->Send(Synced{{1, 1}, 0, 4});
  ear.Worker(2);
  EXPECT_EQ(link->AwayFor(), Duration(0));

  Fall();
  while (link->AwayFor() == Duration(0)) SleepFor(std::chrono::milliseconds(5));
  link->Send(LinkLost{{1, 1}, 2, "gone"});  // said while nobody hears it
  Serve();
  const auto said = ear.Worker(5);
  ASSERT_THAT(said, SizeIs(5));
  const auto& hello = std::get<Hello>(said[2].second);
  EXPECT_EQ(hello.incarnation, 9u);
  EXPECT_EQ(hello.view, (ViewId{1, 1}));
  EXPECT_EQ(hello.fingerprint.at("args"), "\xff");
  EXPECT_TRUE(std::holds_alternative<Synced>(said[3].second));
  EXPECT_EQ(std::get<LinkLost>(said[4].second).why, "gone");
  EXPECT_EQ(link->AwayFor(), Duration(0));

  // The coordinator repeats itself too; what the worker knows is not handed out twice.
  const SessionId second = said[4].first;
  server->Send({second}, ToProto(WorkerOrder(Welcome{1})));
  server->Send({second}, ToProto(WorkerOrder(Prepare{SomeView(1)})));
  server->Send({second}, ToProto(WorkerOrder(Commit{{1, 1}})));
  server->Send({second}, ToProto(WorkerOrder(Prepare{SomeView(2)})));
  auto order = link->Next(Soon());
  ASSERT_TRUE(order && std::holds_alternative<Prepare>(*order));
  EXPECT_EQ(std::get<Prepare>(*order).view.id.id, 2);
}

TEST_F(LinksTest, WhatWasSaidOfAnOlderViewIsNotRepeated) {
  Serve();
  auto link = Worker();
  link->Send(SomeHello());
  link->Send(Synced{{1, 1}, 0, 4});
  link->Send(Synced{{1, 2}, 0, 4});
  ear.Worker(3);
  Fall();
  Serve();
  const auto said = ear.Worker(5);
  EXPECT_TRUE(std::holds_alternative<Hello>(said[3].second));
  EXPECT_EQ(std::get<Synced>(said[4].second).view.id, 2);
}

TEST_F(LinksTest, TheNewestCheckpointAndTheLastNotesAreSaidAgain) {
  Serve();
  auto link = Worker();
  link->Send(SomeHello());
  for (Step step : {10, 20}) link->Send(CheckpointCommitted{{1, 1}, 0, step, "p", 1, {}});
  for (int i = 0; i < 10; ++i) link->Send(Note{"storage_slow", i, "slow"});
  for (int i = 0; i < 64; ++i) link->Send(Synced{{1, 1}, i, 4});  // crowds nothing else out
  ear.Worker(77);
  Fall();
  Serve();
  const auto said = ear.Worker(77 + 1 + 1 + 8 + 64);
  EXPECT_TRUE(std::holds_alternative<Hello>(said[77].second));
  EXPECT_EQ(std::get<CheckpointCommitted>(said[78].second).step, 20);
  EXPECT_EQ(std::get<Note>(said[79].second).step, 2);
  EXPECT_EQ(std::get<Note>(said[86].second).step, 9);
  EXPECT_TRUE(std::holds_alternative<Synced>(said[87].second));
}

TEST_F(LinksTest, ACoordinatorOfAnOlderTermIsNotObeyed) {
  Serve();
  auto link = Worker();
  link->Send(SomeHello());
  const SessionId session = ear.Worker(1)[0].first;
  server->Send({session}, ToProto(WorkerOrder(Welcome{5})));
  ASSERT_TRUE(link->Next(Soon()));
  server->Send({session}, ToProto(WorkerOrder(Welcome{4})));
  server->Send({session}, ToProto(WorkerOrder(Stop{70, {}, "old"})));
  server->Send({session}, ToProto(WorkerOrder(Welcome{6})));
  server->Send({session}, ToProto(WorkerOrder(Stop{0, {}, "new"})));
  auto order = link->Next(Soon());
  ASSERT_TRUE(order && std::holds_alternative<Welcome>(*order));
  order = link->Next(Soon());
  ASSERT_TRUE(order && std::holds_alternative<Stop>(*order));
  EXPECT_EQ(std::get<Stop>(*order).reason, "new");
}

TEST_F(LinksTest, BeatsCarryPhaseWaitsAndScalars) {
  Serve();
  PhaseBoard phases(RealClock());
  phases.Enter(Phase::kReduce);
  phases.SetStep(12);
  WorkerLinkOptions o{address, {secret}};
  o.beat_interval = std::chrono::milliseconds(10);
  o.phases = &phases;
  o.waits = [] { return std::vector<int>{1, 3}; };
  o.scalars = [] {
    Scalars s;
    s.values = {{"loss", 0.5}};
    return s;
  };
  auto link = Worker(std::move(o));
  const Beat beat = ear.Beats(3)[2];
  EXPECT_EQ(beat.phase, "reduce");
  EXPECT_EQ(beat.step, 12);
  EXPECT_GT(beat.in_phase, Duration(0));
  EXPECT_EQ(beat.waits, (std::vector<int>{1, 3}));
  EXPECT_EQ(beat.scalars.values[0].second, 0.5);
}

TEST_F(LinksTest, ClearingTheInterruptWaitsForARunningCall) {
  Serve();
  auto link = Worker();
  link->Send(SomeHello());
  const SessionId session = ear.Worker(1)[0].first;
  std::atomic<int> state{0};
  link->OnInterrupt([&](const WorkerOrder&) {
    state = 1;
    SleepFor(std::chrono::milliseconds(100));
    state = 2;
  });
  server->Send({session}, ToProto(WorkerOrder(Stop{143, {}, ""})));
  while (state == 0) SleepFor(std::chrono::milliseconds(1));
  link->OnInterrupt(nullptr);
  EXPECT_EQ(state, 2);
  server->Send({session}, ToProto(WorkerOrder(Stop{143, {}, ""})));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(link->Next(Soon()));
  EXPECT_EQ(state, 2);
}

TEST_F(LinksTest, AWorkerThatCannotReachItSaysWhereAndWhyAtTheDeadline) {
  Serve();
  Fall();
  WorkerLinkOptions o{address, {secret}};
  o.connect_timeout = std::chrono::milliseconds(300);
  auto link = ConnectWorker(std::move(o));
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(ExitCodeFor(link.status()), kExitNotNow);
  EXPECT_THAT(std::string(link.status().message()), HasSubstr(address));
  EXPECT_THAT(std::string(link.status().message()), HasSubstr("refused"));
}

TEST_F(LinksTest, SomethingThatNeverAnswersIsGivenUpAtTheDeadline) {
  auto listener = ListenTcp({"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok());
  address = absl::StrCat("127.0.0.1:", *PortOf(listener->get()));
  AgentLinkOptions o = AgentOptions();
  o.connect_timeout = std::chrono::milliseconds(300);
  const TimePoint begin = RealClock().Now();
  auto link = ConnectAgent(std::move(o));
  ASSERT_FALSE(link.ok());
  EXPECT_LT(RealClock().Now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(ExitCodeFor(link.status()), kExitNotNow);
  EXPECT_THAT(std::string(link.status().message()), HasSubstr(address));
}

TEST_F(LinksTest, ACoordinatorThatStartsLateIsFoundWithinTheDeadline) {
  Serve();
  Fall();
  AgentLinkOptions o = AgentOptions();
  std::thread late([&] {
    SleepFor(std::chrono::milliseconds(300));
    Serve();
  });
  auto link = ConnectAgent(std::move(o));
  late.join();
  EXPECT_TRUE(link.ok()) << link.status();
}

TEST_F(LinksTest, AnAgentThatComesBackRegistersAndRepeatsWhatEndedAndWasSeen) {
  Serve();
  auto link = ConnectAgent(AgentOptions());
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE(std::holds_alternative<Register>(ear.Agent(1)[0].second));
  Fall();
  (*link)->Send(Exited{{"worker", 0}, 5, 256, "tail"});
  (*link)->Send(CheckpointSeen{5, "/ckpt-1", std::chrono::seconds(1)});
  Serve();
  const auto said = ear.Agent(4);
  ASSERT_THAT(said, SizeIs(4));
  EXPECT_TRUE(std::holds_alternative<Register>(said[1].second));
  EXPECT_EQ(std::get<Exited>(said[2].second).incarnation, 5u);
  EXPECT_GT(std::get<CheckpointSeen>(said[3].second).age, std::chrono::seconds(1)) << "it grew";
}

TEST_F(LinksTest, AnAgentThatWasGivenAnotherSecretComesBackWithThat) {
  Serve();
  auto link = ConnectAgent(AgentOptions());
  ASSERT_TRUE(link.ok()) << link.status();
  ear.Agent(1);
  const JobSecret other = JobSecret::Generate();
  (*link)->ProveBy(other);
  Fall();
  auto again = ControlServer::Start({address, {other}}, &ear);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(std::holds_alternative<Register>(ear.Agent(2)[1].second));
  link->reset();
}

TEST_F(LinksTest, AnAgentThatComesBackClaimsWhatItClaimed) {
  Serve();
  AgentLinkOptions o = AgentOptions();
  o.self.task = Task{"worker", 3};
  o.self.cluster = "the cluster";
  o.self.pid = 4711;
  o.self.ports = {7777};
  auto link = ConnectAgent(std::move(o));
  ASSERT_TRUE(link.ok()) << link.status();
  (*link)->Send(Ports{{8888}});
  ear.Agent(2);
  Fall();
  Serve();
  const auto said = ear.Agent(3);
  ASSERT_GE(said.size(), 3u);
  for (const size_t i : {size_t{0}, said.size() - 1}) {
    const auto& self = std::get<Register>(said[i].second);
    EXPECT_EQ(self.task, (Task{"worker", 3}));
    EXPECT_EQ(self.cluster, "the cluster");
    EXPECT_EQ(self.pid, 4711);
    EXPECT_THAT(self.ports, ElementsAre(7777)) << "the others know it by that address";
  }
}

TEST_F(LinksTest, ASpawnThatIsRepeatedComesOnceAndArrivalsWakeTheAgent) {
  Serve();
  std::atomic<int> woken{0};
  AgentLinkOptions o = AgentOptions();
  o.on_arrival = [&] { ++woken; };
  auto link = ConnectAgent(std::move(o));
  ASSERT_TRUE(link.ok()) << link.status();
  const SessionId session = ear.Agent(1)[0].first;
  Spawn spawn;
  spawn.incarnation = 4;
  for (int i = 0; i < 2; ++i) server->Send({session}, ToProto(AgentOrder(spawn)));
  server->Send({session}, ToProto(AgentOrder(Notice{"after"})));
  auto order = (*link)->Next(Soon());
  ASSERT_TRUE(order && std::holds_alternative<Spawn>(*order));
  order = (*link)->Next(Soon());
  ASSERT_TRUE(order && std::holds_alternative<Notice>(*order));
  while (woken < 2) SleepFor(std::chrono::milliseconds(1));
}

TEST_F(LinksTest, AfterJobEndedTheAgentEndsItsStreamAndStaysAway) {
  Serve();
  auto link = ConnectAgent(AgentOptions());
  ASSERT_TRUE(link.ok()) << link.status();
  server->Send({ear.Agent(1)[0].first}, ToProto(AgentOrder(JobEnded{0, ""})));
  ear.AwaitClosed(1);
  auto order = (*link)->Next(Soon());
  ASSERT_TRUE(order && std::holds_alternative<JobEnded>(*order));
  SleepFor(std::chrono::milliseconds(200));
  EXPECT_THAT(ear.Agent(1), SizeIs(1));
  EXPECT_EQ((*link)->AwayFor(), Duration(0));
}

}  // namespace
}  // namespace everstep
