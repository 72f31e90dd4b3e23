// membership: what holds of Decide whatever happens in whatever order: a long walk through random
// events, most of them likely, some of them absurd.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "everstep/base/keyed_random.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {
namespace {

class Walk {
 public:
  explicit Walk(uint64_t seed, bool gang = false)
      : seed_(seed), gang_(gang), job(1 + static_cast<int>(seed % 4)) {
    job.options.max_restarts = 10;
    job.journal_stuck = Draw(4) == 0;
    if (!gang) return;
    job.options.gang = Draw(4) != 0;  // else that is found out
    if (!job.options.gang) return;
    job.options.chiefs = static_cast<int>(Draw(2));
    job.options.parameter_servers = job.options.chiefs * static_cast<int>(Draw(3));
    job.options.evaluators = static_cast<int>(Draw(2));
    if (Draw(3) == 0) job.options.hang_action = HangAction::kKill;
  }

  uint64_t Draw(uint64_t n) { return RandomAt(seed_, draws_++) % n; }

  // Some of its processes, or all, are started by hand.
  void UseClaims() {
    claims_ = true;
    job.options.chiefs = static_cast<int>(Draw(2));
    job.options.replicas = job.options.Tasks();
    if (job.options.chiefs == 1 || Draw(2) == 0) job.options.cluster = "the cluster";
  }

  int Someone() { return static_cast<int>(Draw(job.state.workers.size())); }

  void Step() {
    const bool workers = !job.state.workers.empty();
    const uint64_t what = Draw(100);
    if (gang_ && workers && what < 96) return StepOfGang(what);
    if (claims_ && (Draw(workers ? 12 : 2) == 0)) return StepOfClaims();
    // Else hardly a walk would come far.
    if (job.state.phase == JobPhase::kStarting && Draw(4) == 0) return job.Join();
    if (what < 40) {
      job.Pass(static_cast<int64_t>(1 + Draw(12)) * 50 * kMs);
    } else if (what < 44 || !workers) {
      const std::string name(1, static_cast<char>('a' + Draw(3)));
      job.AgentRegisters("agent-" + name, name, 2);
    } else if (what < 46) {
      job.Feed(AgentStreamLost{std::string("agent-") + static_cast<char>('a' + Draw(3))});
    } else if (what < 64) {
      job.SaysHello(Someone());
    } else if (what < 82) {
      Speak(Someone());
    } else if (what < 88) {
      job.StreamBreaks(Someone());
    } else if (what < 97 && (job.state.phase != JobPhase::kStarting || Draw(4) == 0)) {
      constexpr int kStatuses[] = {9, 9, 9, 11, 75 << 8, 3 << 8, 0};
      job.Exits(Someone(), kStatuses[Draw(7)], "tail", Draw(9) == 0);
    } else {
      job.Feed(Journaled{static_cast<int64_t>(job.records.size())});
    }
  }

  void StepOfClaims() {
    const bool chief = Draw(4) == 0;
    const uint64_t index = chief ? 0 : Draw(static_cast<uint64_t>(job.options.workers) + 1);
    const std::string task = absl::StrCat(chief ? "chief:" : "worker:", index);
    const std::string name = absl::StrCat(task, "/", Draw(2));  // now and then twice
    if (Draw(4) == 0) return job.Feed(AgentStreamLost{name});
    job.Claims(name, std::string(1, static_cast<char>('a' + Draw(3))), task,
               Draw(20) == 0 ? "another" : job.options.cluster);
  }

  void StepOfGang(uint64_t what) {
    if (what < 45) {
      job.Pass(static_cast<int64_t>(1 + Draw(60)) * 50 * kMs);
    } else if (what < 48) {
      const std::string name(1, static_cast<char>('a' + Draw(4)));
      job.AgentRegisters("agent-" + name, name, 2);
    } else if (what < 49) {
      job.Feed(AgentStreamLost{std::string("agent-") + static_cast<char>('a' + Draw(4))});
    } else if (what < 50 && Draw(8) == 0) {
      const int who = Someone();
      if (job.state.agents.count(job.state.workers[who].agent) > 0) job.SaysHello(who);
    } else if (what < 56) {
      constexpr int kStatuses[] = {9, 11, 15, 6, 143 << 8, 42 << 8, 75 << 8, 1 << 8, 1 << 8, 0, 0};
      job.Exits(Someone(), kStatuses[Draw(11)], "tail", Draw(9) == 0);
    } else if (what < 62) {  // as they are told
      for (size_t i = 0; i < job.state.workers.size(); ++i) {
        if (job.state.workers[i].killed) job.Exits(static_cast<int>(i), 15);
      }
    } else if (what < 66) {
      job.Answers(Someone(), "Thread 1\n  File \"a.py\", line 1 in f\n");
    } else if (what < 70) {
      job.SeesCheckpoint(Draw(2) == 0 ? "/a" : "/b", static_cast<int64_t>(Draw(100)) * kSecond);
    } else if (what < 72) {
      job.Feed(AgentSaid{"agent-a", Note{record_kind::kCheckpointRejected, 0, "bad"}});
    } else if (what < 74) {
      job.Feed(AgentSaid{"agent-b", Ports{{7000, 7001}}});
    } else {
      See(Draw(3) == 0 ? Someone() : -1);
    }
  }

  // -1: all are seen, and much alike.
  void See(int who) {
    const uint64_t what = Draw(8);
    for (int i = 0; i < static_cast<int>(job.state.workers.size()); ++i) {
      if (who >= 0 && i != who) continue;
      Vitals vitals = TestJob::GoingOn();
      vitals.wrote = what == 1;
      vitals.idle = static_cast<int64_t>(Draw(what == 2 ? 200 : 50)) * kSecond;
      if (what == 3) vitals.stopped = static_cast<int64_t>(Draw(10)) * kSecond;
      vitals.beats = what >= 6;
      vitals.beat_age = static_cast<int64_t>(Draw(80)) * kSecond;
      vitals.beat_limit = 70 * kSecond;
      vitals.step = what >= 6 ? static_cast<everstep::Step>(Draw(50)) : -1;
      job.Sees(i, vitals);
    }
  }

  void Speak(int who) {
    const auto step = static_cast<everstep::Step>(Draw(50));
    switch (Draw(12)) {
      case 0:
        return job.Complains(who, static_cast<int>(Draw(6)) - 1);
      case 1:
        return job.Leaves(who, LeaveReason::kFinished);
      case 2:
        return job.Leaves(who, LeaveReason::kFailed, step, 5, 70, "bad");
      case 3:
        return job.Says(who, Closed{job.state.view.id, 0, step, 3});
      case 4:
        return job.Says(who, CheckpointCommitted{job.state.view.id, 0, step, "p", 1, {}});
      case 5:
        return job.Says(who, Note{record_kind::kStorageSlow, step, "slow"});
      case 6:
      case 7:
        return job.Beats(who, step);
      default:
        return job.Syncs(who);
    }
  }

 private:
  const uint64_t seed_;
  const bool gang_;
  bool claims_ = false;
  uint64_t draws_ = 0;

 public:
  TestJob job;
};

// What holds of all orders and records of a job that has not ended.
void CheckOrders(const TestJob& job, uint64_t seed) {
  std::map<Incarnation, std::string> task_of;
  for (const auto& [agent, orders] : job.to_agents) {
    for (const AgentOrder& order : orders) {
      const auto* spawn = std::get_if<Spawn>(&order);
      if (spawn == nullptr) continue;
      // Said again after a reconnect, but to the same agent for the same task.
      const std::string as = agent + spawn->task.ToString();
      EXPECT_EQ(task_of.emplace(spawn->incarnation, as).first->second, as) << seed;
      EXPECT_TRUE(spawn->cluster.Address(spawn->task).ok()) << seed << " knows itself";
      EXPECT_EQ(spawn->cluster.NumTasks("evaluator"), spawn->task.type == "evaluator" ? 1 : 0);
    }
  }
  int64_t incident = 0;
  for (const JobRecord& record : job.records) {
    EXPECT_EQ(&record == &job.records.front(), record.kind == record_kind::kRunStarted);
    if (record.kind == record_kind::kRecovered) {
      EXPECT_LE(record.incident, incident) << seed << " of an incident that is known";
    } else if (record.incident != 0) {
      EXPECT_EQ(record.incident, ++incident) << seed;
    }
  }
}

// What holds of a state between any two events.
void CheckState(const JobState& state, uint64_t seed) {
  std::set<std::string> tasks, places;
  std::map<WorkerState, int> count;
  for (size_t i = 0; i < state.workers.size(); ++i) {
    const WorkerEntry& worker = state.workers[i];
    ASSERT_EQ(state.index_of.at(worker.incarnation), static_cast<int>(i)) << seed;
    EXPECT_TRUE(tasks.insert(worker.task.ToString()).second) << seed;
    const bool holds = !worker.over;
    EXPECT_TRUE(!holds || places.insert(absl::StrCat(worker.agent, "/", worker.slot)).second)
        << seed << " two tasks in one place";
    ++count[worker.state];
  }
  EXPECT_EQ(state.index_of.size(), state.workers.size()) << seed;
  for (const auto& [name, agent] : state.agents) EXPECT_EQ(agent.self.agent, name) << seed;
  for (int s = 0; s < static_cast<int>(WorkerState::kCount); ++s) {
    EXPECT_EQ(state.count[s], count[static_cast<WorkerState>(s)]) << seed << " state " << s;
  }
}

void CheckClaims(const JobState& state, uint64_t seed) {
  std::set<std::string> claimed;
  for (const auto& [name, agent] : state.agents) {
    if (!agent.self.task || agent.lost) continue;
    EXPECT_TRUE(claimed.insert(agent.self.task->ToString()).second) << seed << " " << name;
  }
  for (const WorkerEntry& worker : state.workers) {
    const auto agent = state.agents.find(worker.agent);
    ASSERT_NE(agent, state.agents.end()) << seed;
    const Register& self = agent->second.self;
    if (self.task) {
      EXPECT_EQ(*self.task, worker.task) << seed;
    } else {
      EXPECT_TRUE(state.options.cluster.empty()) << seed << " a slot has a task that is fixed";
    }
  }
}

void ExpectThatItCanBeEnded(TestJob& job, uint64_t seed) {
  // Told to stop, it ends though nobody answers any more.
  job.Feed(StopAsked{"enough"});
  job.Pass(job.options.grace + 10 * kSecond);
  ASSERT_TRUE(job.end) << seed << " " << job.reason;
  EXPECT_EQ(job.ends, 1) << seed;
  EXPECT_EQ(job.records.back().kind, record_kind::kRunEnded) << seed;
  EXPECT_EQ(job.Recorded(record_kind::kRunEnded).size(), 1u) << seed;
}

TEST(Whatever, NoLifeIsUsedTwiceRecordsAreOrderedAndEveryJobCanBeEnded) {
  int restarts = 0, trainings = 0, ends = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Walk walk(seed);
    TestJob& job = walk.job;
    for (int i = 0; i < 250 && !job.end; ++i) walk.Step();
    restarts += job.state.restarts.total;
    trainings += static_cast<int>(job.Recorded(record_kind::kTraining).size());
    ends += job.end ? 1 : 0;
    CheckOrders(job, seed);
    ExpectThatItCanBeEnded(job, seed);
  }
  // The walks do get somewhere.
  EXPECT_GT(restarts, 500);
  EXPECT_GT(trainings, 500);
  EXPECT_GT(ends, 50);
}

TEST(Whatever, TheSameHoldsOfProcessesThatWereStartedByHandAndNoTaskHasTwo) {
  int trainings = 0, restarts = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Walk walk(seed);
    walk.UseClaims();
    TestJob& job = walk.job;
    for (int i = 0; i < 250 && !job.end; ++i) {
      walk.Step();
      CheckState(job.state, seed);
      CheckClaims(job.state, seed);
      if (HasFatalFailure()) return;
    }
    trainings += static_cast<int>(job.Recorded(record_kind::kTraining).size());
    restarts += job.state.restarts.total;
    for (const auto& [name, orders] : job.to_agents) {
      refused += static_cast<int>(job.AgentGot<JobEnded>(name).size());
    }
    CheckOrders(job, seed);
    ExpectThatItCanBeEnded(job, seed);
  }
  EXPECT_GT(trainings, 200);
  EXPECT_GT(restarts, 200);
  EXPECT_GT(refused, 200);
}

TEST(Whatever, TheSameHoldsOfGangs) {
  int restarts = 0, hangs = 0, recovered = 0, done = 0, alone = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Walk walk(seed, true);
    TestJob& job = walk.job;
    for (int i = 0; i < 250 && !job.end; ++i) {
      walk.Step();
      CheckState(job.state, seed);
    }
    restarts += job.state.restarts.total;
    alone += job.state.evaluator_restarts.total;
    hangs += static_cast<int>(job.Recorded(record_kind::kWorkerHung).size());
    recovered += static_cast<int>(job.Recorded(record_kind::kRecovered).size());
    done += job.end && job.end->code == 0 ? 1 : 0;
    CheckOrders(job, seed);
    ExpectThatItCanBeEnded(job, seed);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(restarts, 500);
  EXPECT_GT(alone, 100);
  EXPECT_GT(hangs, 200);
  EXPECT_GT(recovered, 300);
  EXPECT_GT(done, 20);
}

}  // namespace
}  // namespace everstep
