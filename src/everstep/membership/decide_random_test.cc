// membership: what holds of Decide whatever happens in whatever order: a long walk through random
// events, most of them likely, some of them absurd.
#include <gtest/gtest.h>

#include <map>

#include "everstep/base/keyed_random.h"
#include "everstep/membership/decide_test_job.h"

namespace everstep {
namespace {

class Walk {
 public:
  explicit Walk(uint64_t seed) : seed_(seed), job(1 + static_cast<int>(seed % 4)) {
    job.options.max_restarts = 10;
    job.journal_stuck = Draw(4) == 0;
  }

  uint64_t Draw(uint64_t n) { return RandomAt(seed_, draws_++) % n; }

  int Someone() { return static_cast<int>(Draw(job.state.workers.size())); }

  void Step() {
    const bool workers = !job.state.workers.empty();
    const uint64_t what = Draw(100);
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
  uint64_t draws_ = 0;

 public:
  TestJob job;
};

TEST(Whatever, NoLifeIsUsedTwiceRecordsAreOrderedAndEveryJobCanBeEnded) {
  int restarts = 0, trainings = 0, ends = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Walk walk(seed);
    TestJob& job = walk.job;
    for (int i = 0; i < 250 && !job.end; ++i) walk.Step();
    restarts += job.state.restarts.total;
    trainings += static_cast<int>(job.Recorded(record_kind::kTraining).size());
    ends += job.end ? 1 : 0;

    std::map<Incarnation, std::string> task_of;
    for (const auto& [agent, orders] : job.to_agents) {
      for (const AgentOrder& order : orders) {
        const auto* spawn = std::get_if<Spawn>(&order);
        if (spawn == nullptr) continue;
        // Said again after a reconnect, but to the same agent for the same task.
        const std::string as = agent + spawn->task.ToString();
        EXPECT_EQ(task_of.emplace(spawn->incarnation, as).first->second, as) << seed;
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
    // Told to stop, it ends though nobody answers any more.
    job.Feed(StopAsked{"enough"});
    job.Pass(job.options.grace + 10 * kSecond);
    ASSERT_TRUE(job.end) << seed << " " << job.reason;
    EXPECT_EQ(job.ends, 1) << seed;
    EXPECT_EQ(job.records.back().kind, record_kind::kRunEnded) << seed;
    EXPECT_EQ(job.Recorded(record_kind::kRunEnded).size(), 1u) << seed;
  }
  // The walks do get somewhere.
  EXPECT_GT(restarts, 500);
  EXPECT_GT(trainings, 500);
  EXPECT_GT(ends, 50);
}

}  // namespace
}  // namespace everstep
