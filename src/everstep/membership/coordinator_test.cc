// membership: the coordinator with real streams on loopback; agents and workers are links driven by
// the test.
#include "everstep/membership/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/env/clock.h"
#include "everstep/env/socket.h"
#include "everstep/membership/agent_link.h"
#include "everstep/membership/worker_link.h"

namespace everstep {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Duration kLong = std::chrono::seconds(20);

Deadline Soon() { return After(RealClock(), kLong); }

// The next order of type T; others before it are passed over.
template <typename T, typename Link>
T Await(Link& link) {
  const Deadline deadline = Soon();
  while (auto order = link.Next(deadline)) {
    if (T* t = std::get_if<T>(&*order)) return *t;
  }
  ADD_FAILURE() << "the order did not come";
  return T{};
}

class CoordinatorTest : public ::testing::Test {
 protected:
  void Begin(int workers) {
    options.listen = "127.0.0.1:0";
    options.job.workers = workers;
    options.job.replicas = 2 * workers;
    options.job.settings["EVERSTEP_SEED"] = "3";
    auto result = Coordinator::Start(options);
    ASSERT_TRUE(result.ok()) << result.status();
    coordinator = std::move(*result);
    address = absl::StrCat("127.0.0.1:", coordinator->port());
  }

  std::unique_ptr<AgentLink> Agent(const std::string& name, int slots) {
    AgentLinkOptions o{address, {secret}, Register{name, "here", "127.0.0.1", slots, {}, "1"}};
    for (int i = 0; i < slots; ++i) o.self.ports.push_back(6000 + i);
    auto link = ConnectAgent(std::move(o));
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? std::move(*link) : nullptr;
  }

  std::unique_ptr<ControlLink> Worker(const Spawn& spawn) {
    WorkerLinkOptions o{address, {secret}};
    o.beat_interval = std::chrono::milliseconds(20);
    o.scalars = [] {
      Scalars scalars;
      scalars.total_steps = 100;
      return scalars;
    };
    auto link = ConnectWorker(std::move(o));
    EXPECT_TRUE(link.ok()) << link.status();
    if (!link.ok()) return nullptr;
    Hello hello;
    hello.task = spawn.task;
    hello.incarnation = spawn.incarnation;
    hello.host = "here";
    hello.data_address = absl::StrCat("127.0.0.1:", 7000 + spawn.task.index);
    hello.fingerprint["version"] = "1";
    (*link)->Send(hello);
    return std::move(*link);
  }

  // An agent with `n` workers that train.
  void Train(int n) {
    Begin(n);
    agent = Agent("agent", n);
    for (int i = 0; i < n; ++i) spawns.push_back(Await<Spawn>(*agent));
    for (const Spawn& spawn : spawns) workers.push_back(Worker(spawn));
    for (auto& worker : workers) {
      view = Await<Prepare>(*worker).view;
      worker->Send(Synced{view.id, 0, 42});
    }
    for (auto& worker : workers) EXPECT_EQ(Await<Commit>(*worker).view, view.id);
  }

  void Exits(int index, int wait_status, const std::string& tail = "") {
    agent->Send(Exited{spawns[index].task, spawns[index].incarnation, wait_status, tail});
  }

  const JobSecret secret = JobSecret::Generate();
  CoordinatorOptions options{"", {secret}, {}};
  std::unique_ptr<Coordinator> coordinator;
  std::string address;
  std::unique_ptr<AgentLink> agent;
  std::vector<Spawn> spawns;
  std::vector<std::unique_ptr<ControlLink>> workers;
  View view;
};

TEST_F(CoordinatorTest, AJobFromTheFirstAgentToItsEnd) {
  Train(3);
  EXPECT_EQ(spawns[1].settings.at("EVERSTEP_SEED"), "3");
  EXPECT_THAT(spawns[1].cluster.jobs.at("worker"), SizeIs(3));
  EXPECT_THAT(view.members, SizeIs(3));
  EXPECT_EQ(view.num_replicas, 6);
  EXPECT_EQ(Await<Progress>(*agent).scalars.total_steps, 100);
  EXPECT_THAT(coordinator->Status(), HasSubstr("training in view 1.1"));
  for (auto& worker : workers)
    worker->Send(Leaving{LeaveReason::kFinished, view.id, 100, 5, 0, ""});
  for (auto& worker : workers) EXPECT_EQ(Await<Stop>(*worker).code, kExitDone);
  workers.clear();
  for (int i = 0; i < 3; ++i) Exits(i, 0);
  EXPECT_EQ(Await<JobEnded>(*agent).code, kExitDone);
  const auto end = coordinator->WaitForEnd(Soon());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, kExitDone);
  EXPECT_EQ(end->reason, "");
}

TEST_F(CoordinatorTest, ALostWorkerEndsTheJobAndTheReasonReachesAll) {
  Train(3);
  workers[2].reset();  // its process is dead
  Exits(2, 9, "step 31\xff\n");
  workers[0]->Send(LinkLost{view.id, 2, "worker:2 died"});
  const Stop stop = Await<Stop>(*workers[1]);
  EXPECT_EQ(stop.code, 137);
  EXPECT_EQ(stop.reason, "worker:2 was killed by signal 9 (SIGKILL)");
  workers.clear();
  Exits(0, 137 << 8);
  Exits(1, 137 << 8);
  const JobEnded told = Await<JobEnded>(*agent);
  EXPECT_EQ(told.code, 137);
  EXPECT_THAT(told.reason, HasSubstr("step 31\xff"));
  const auto end = coordinator->WaitForEnd(Soon());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 137);
}

TEST_F(CoordinatorTest, AStreamThatIsLostWithoutAWordIsGivenUp) {
  options.job.lost_after = std::chrono::milliseconds(300);
  Train(2);
  workers[1].reset();
  const Stop stop = Await<Stop>(*workers[0]);
  EXPECT_EQ(stop.code, kExitNotNow);
  EXPECT_THAT(stop.reason, HasSubstr("worker:1 has not been heard for"));
  EXPECT_EQ(Await<Kill>(*agent).incarnation, spawns[1].incarnation);
}

TEST_F(CoordinatorTest, CloseInterruptsAWorkerBeforeItIsTaken) {
  Train(2);
  std::mutex mutex;
  std::vector<std::string> heard;
  workers[1]->OnInterrupt([&](const WorkerOrder& order) {
    std::lock_guard<std::mutex> lock(mutex);
    heard.push_back(std::holds_alternative<Close>(order) ? "close" : "stop");
  });
  workers[0]->Send(LinkLost{view.id, 1, "broken"});
  Await<Close>(*workers[1]);
  {
    std::lock_guard<std::mutex> lock(mutex);
    ASSERT_THAT(heard, SizeIs(1));
    EXPECT_EQ(heard[0], "close");
  }
  workers[1]->OnInterrupt(nullptr);
}

TEST_F(CoordinatorTest, StopOnRequestIs143) {
  Train(1);
  agent->Send(StopRequest{"told to stop by SIGTERM"});
  EXPECT_EQ(Await<Stop>(*workers[0]).code, kExitToldToLeave);
  workers.clear();
  Exits(0, 143 << 8);
  EXPECT_EQ(Await<JobEnded>(*agent).code, kExitToldToLeave);
  EXPECT_EQ(coordinator->WaitForEnd(Soon())->reason, "told to stop by SIGTERM");
}

TEST_F(CoordinatorTest, ItsOwnerMayStopItToo) {
  Begin(2);
  agent = Agent("agent", 1);
  EXPECT_EQ(Await<Notice>(*agent).text, "waiting for 1 more slot");
  coordinator->RequestStop("told to stop");
  EXPECT_EQ(Await<JobEnded>(*agent).code, kExitToldToLeave);
  EXPECT_TRUE(coordinator->WaitForEnd(Soon()));
}

TEST_F(CoordinatorTest, AProgramThatNeverSaysHelloIsDoneWhenItHasExited) {
  Begin(2);
  agent = Agent("agent", 2);
  for (int i = 0; i < 2; ++i) spawns.push_back(Await<Spawn>(*agent));
  for (int i = 0; i < 2; ++i) Exits(i, 0);
  EXPECT_EQ(coordinator->WaitForEnd(Soon())->code, kExitDone);
}

TEST_F(CoordinatorTest, AnotherSecretIsRefusedWith78AndDisturbsNobody) {
  Begin(1);
  AgentLinkOptions o{address, {JobSecret::Generate()}, Register{"x", "h", "a", 1, {1}, "1"}};
  auto stranger = ConnectAgent(std::move(o));
  ASSERT_FALSE(stranger.ok());
  EXPECT_EQ(ExitCodeFor(stranger.status()), kExitConfiguration);
  EXPECT_THAT(std::string(stranger.status().message()), HasSubstr("secret"));
  EXPECT_THAT(std::string(stranger.status().message()), HasSubstr(address));
  agent = Agent("agent", 1);
  Await<Spawn>(*agent);
}

TEST_F(CoordinatorTest, ABusyPortIs75AndNamesTheAddress) {
  Begin(1);
  CoordinatorOptions second = options;
  second.listen = address;
  auto result = Coordinator::Start(second);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ExitCodeFor(result.status()), kExitNotNow);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(address));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("port in use"));
}

TEST_F(CoordinatorTest, AJobThatCannotRunIsRefusedAtTheStart) {
  CoordinatorOptions o{"127.0.0.1:0", {secret}, {}};
  o.job.workers = 4;
  o.job.replicas = 2;
  EXPECT_EQ(Coordinator::Start(o).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, GarbageOnThePortDoesNotDisturbAJob) {
  Begin(1);
  auto socket = DialTcp({"127.0.0.1", coordinator->port()}, Soon());
  ASSERT_TRUE(socket.ok());
  const std::string junk(65536, '\x16');
  (void)SendAll(socket->get(),
                absl::MakeConstSpan(reinterpret_cast<const std::byte*>(junk.data()), junk.size()),
                Soon());
  agent = Agent("agent", 1);
  spawns.push_back(Await<Spawn>(*agent));
  Exits(0, 0);
  EXPECT_EQ(coordinator->WaitForEnd(Soon())->code, kExitDone);
}

TEST_F(CoordinatorTest, AnAgentThatDoesNotTakeTheEndDelaysItBoundedly) {
  Begin(2);
  agent = Agent("agent", 1);
  const TimePoint begin = RealClock().Now();
  agent.reset();  // dead at once
  coordinator->RequestStop("told to stop");
  EXPECT_TRUE(coordinator->WaitForEnd(Soon()));
  EXPECT_LT(RealClock().Now() - begin, std::chrono::seconds(5));
}

TEST_F(CoordinatorTest, WaitForEndReturnsAtItsDeadline) {
  Begin(1);
  EXPECT_FALSE(coordinator->WaitForEnd(After(RealClock(), std::chrono::milliseconds(20))));
}

}  // namespace
}  // namespace everstep
