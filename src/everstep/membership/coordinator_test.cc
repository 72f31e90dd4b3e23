// membership: the coordinator with real streams on loopback; agents and workers are links driven by
// the test.
#include "everstep/membership/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
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

// A journal that the test plays.
class FakeJournal : public Journal {
 public:
  void Record(JobRecord record) override {
    std::lock_guard<std::mutex> lock(mutex_);
    records_.push_back(std::move(record));
    changed_.notify_all();
  }
  void Publish(JobStatus status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    statuses_.push_back(std::move(status));
    changed_.notify_all();
  }
  int64_t durable() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return stuck ? 0 : static_cast<int64_t>(records_.size());
  }
  bool lease_held() const override { return held; }
  bool superseded() const override { return taken_over; }

  // The first record of `kind`, once it is there.
  JobRecord Await(const std::string& kind) {
    std::unique_lock<std::mutex> lock(mutex_);
    const JobRecord* found = nullptr;
    EXPECT_TRUE(changed_.wait_until(lock, Soon(), [&] {
      for (const JobRecord& record : records_) {
        if (found == nullptr && record.kind == kind) found = &record;
      }
      return found != nullptr;
    })) << kind;
    return found != nullptr ? *found : JobRecord{};
  }
  std::vector<JobStatus> AwaitStatuses(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, Soon(), [&] { return statuses_.size() >= count; }));
    return statuses_;
  }

  std::atomic<bool> stuck{false}, held{true}, taken_over{false};

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<JobRecord> records_;
  std::vector<JobStatus> statuses_;
};

class CoordinatorTest : public ::testing::Test {
 protected:
  void Begin(int workers) {
    options.listen = "127.0.0.1:0";
    options.job.workers = workers;
    options.job.replicas = 2 * workers;
    options.job.max_restarts = max_restarts;
    options.job.settings["EVERSTEP_SEED"] = "3";
    auto result = Coordinator::Start(options);
    ASSERT_TRUE(result.ok()) << result.status();
    coordinator = std::move(*result);
    address = absl::StrCat("127.0.0.1:", coordinator->port());
  }

  std::unique_ptr<AgentLink> Agent(const std::string& name, int slots) {
    return Agent(name, slots, secret);
  }
  std::unique_ptr<AgentLink> Agent(const std::string& name, int slots, const JobSecret& shown) {
    AgentLinkOptions o{address, {shown}, Register{name, "here", "127.0.0.1", slots, {}, "1"}};
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
    hello.digest = 42;
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

  int max_restarts = 0;
  const JobSecret secret = JobSecret::Generate();
  CoordinatorOptions options{"", {secret}, {}};
  FakeJournal journal;
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
  EXPECT_THAT(stop.reason, HasSubstr("worker:1 was silent for"));
  EXPECT_EQ(Await<Kill>(*agent).incarnation, spawns[1].incarnation);
}

TEST_F(CoordinatorTest, ALostWorkerRestartsAllOfThemWithoutAJournalToo) {
  max_restarts = 10;
  Train(2);
  const std::vector<Spawn> before = spawns;
  workers[1].reset();
  Exits(1, 9);
  EXPECT_EQ(Await<Stop>(*workers[0]).code, kExitNotNow);
  workers.clear();
  Exits(0, 75 << 8);
  for (int i = 0; i < 2; ++i) {
    spawns[i] = Await<Spawn>(*agent);
    EXPECT_GT(spawns[i].incarnation, before[1].incarnation);
  }
  for (const Spawn& spawn : spawns) workers.push_back(Worker(spawn));
  for (auto& worker : workers) {
    EXPECT_EQ(Await<Prepare>(*worker).view.id, (ViewId{1, 2}));
    worker->Send(Synced{{1, 2}, 0, 42});
  }
  for (auto& worker : workers) Await<Commit>(*worker);
}

TEST_F(CoordinatorTest, ARestartWaitsForItsRecordToBeOnDisk) {
  max_restarts = 10;
  options.journal = &journal;
  Train(1);
  journal.stuck = true;
  workers.clear();
  Exits(0, 9);
  EXPECT_EQ(journal.Await(record_kind::kWorkerFailed).action, "restart");
  Await<Notice>(*agent);
  // Longer than the back-off.
  EXPECT_FALSE(agent->Next(After(RealClock(), std::chrono::milliseconds(1200))));
  journal.stuck = false;
  EXPECT_GT(Await<Spawn>(*agent).incarnation, spawns[0].incarnation);
}

TEST_F(CoordinatorTest, StatusIsPublishedWhileTheJobRunsAndAtItsEnd) {
  options.journal = &journal;
  Train(1);
  journal.AwaitStatuses(2);
  agent->Send(StopRequest{"enough"});
  Await<Stop>(*workers[0]);
  workers.clear();
  Exits(0, 143 << 8);
  ASSERT_TRUE(coordinator->WaitForEnd(Soon()));
  const JobStatus last = journal.AwaitStatuses(3).back();
  EXPECT_EQ(last.phase, "ended");
  EXPECT_EQ(last.exit_code, kExitToldToLeave);
  EXPECT_EQ(last.reason, "enough");
  EXPECT_EQ(journal.Await(record_kind::kRunEnded).exit_code, kExitToldToLeave);
}

TEST_F(CoordinatorTest, WithoutTheLeaseNothingIsDecidedAndNobodyIsTold) {
  options.journal = &journal;
  Train(2);
  while (agent->Next(After(RealClock(), std::chrono::milliseconds(100)))) {
  }
  journal.held = false;
  SleepFor(10 * options.tick);  // for it to be seen
  workers[0]->Send(LinkLost{view.id, 1, "broken"});
  agent->Send(StopRequest{"Ctrl-C"});
  EXPECT_FALSE(workers[1]->Next(After(RealClock(), std::chrono::milliseconds(500))));
  EXPECT_FALSE(agent->Next(RealClock().Now()));
  journal.held = true;
  EXPECT_EQ(Await<Stop>(*workers[1]).code, kExitToldToLeave) << "what arrived was kept";
}

TEST_F(CoordinatorTest, ThatIsSupersededEndsTheJobEvenWithoutTheLease) {
  options.journal = &journal;
  Train(1);
  journal.held = false;
  journal.taken_over = true;
  EXPECT_EQ(Await<Stop>(*workers[0]).code, kExitNotNow);
  workers.clear();
  Exits(0, 75 << 8);
  const auto end = coordinator->WaitForEnd(Soon());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, kExitNotNow);
  EXPECT_EQ(end->reason, "another run has taken over this job");
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

TEST_F(CoordinatorTest, AnAgentMayShowTheJoinSecretOfItsUser) {
  options.join_secret = JobSecret::Generate();
  Begin(2);
  agent = Agent("by hand", 1, *options.join_secret);
  EXPECT_EQ(Await<Notice>(*agent).text, "waiting for 1 more slot");
  const auto other = Agent("of the job", 1);
  EXPECT_EQ(Await<Spawn>(*agent).task.ToString(), "worker:0");
  EXPECT_EQ(Await<Spawn>(*other).task.ToString(), "worker:1");
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
