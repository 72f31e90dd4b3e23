// membership: gangs for tests of Decide: programs that are only seen from outside.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "everstep/membership/decide_test_job.h"

namespace everstep {

class GangTest : public ::testing::Test {
 protected:
  // It fails more than once, unless a test says otherwise.
  static TestJob Gang(int workers, bool said = true) {
    TestJob job(workers);
    job.options.gang = said;
    job.options.max_restarts = 10;
    return job;
  }
  // All run, and something was written: it is past its first moments.
  static void Run(TestJob& job, bool progressed = true) {
    job.Gather();
    Vitals vitals = TestJob::GoingOn();
    vitals.wrote = progressed;
    for (int i = 0; i < job.options.Tasks(); ++i) job.Sees(i, vitals);
  }
  // Those who live exit as they are told, and the job starts again.
  static void FinishRestart(TestJob& job) {
    job.Pass(kSecond);
    const std::vector<WorkerEntry> before =
        job.state.workers;  // the last exit may begin a new life
    for (const WorkerEntry& worker : before) {
      if (worker.task.type == "evaluator" || worker.exited) continue;
      job.Feed(AgentSaid{worker.agent, Exited{worker.task, worker.incarnation, KilledBy(15)}});
    }
    job.Pass(40 * kSecond);
  }
  // A failure of `index` and what follows, until all run again.
  static void Fails(TestJob& job, int index, int status, bool progress = true) {
    job.Exits(index, status);
    FinishRestart(job);
    if (!progress || job.end) return;
    for (int i = 0; i < job.options.Tasks(); ++i) job.Sees(i, TestJob::GoingOn());
  }
};

inline Vitals Stopped(Duration d) {
  Vitals vitals = TestJob::GoingOn();
  vitals.stopped = d;
  return vitals;
}

// Nothing was seen of it for `d`, and it was never silent for longer than a minute before.
inline Vitals Silent(Duration d) {
  Vitals vitals = TestJob::GoingOn();
  vitals.idle = d;
  vitals.seen = absl::StrCat("output ", ToSeconds(d), " s ago, 0.0 cores");
  return vitals;
}

inline Vitals Beats(Step step, Duration age, Duration limit = 300 * kSecond) {
  Vitals vitals = TestJob::GoingOn();
  vitals.beats = true;
  vitals.step = step;
  vitals.beat_age = age;
  vitals.beat_limit = limit;
  return vitals;
}

inline std::string Frames(const std::string& where) {
  return "Thread 0x00007f (most recent call first):\n  File \"/usr/lib/threading.py\", line 9 in "
         "wait\n\nCurrent thread 0x00007e (most recent call first):\n  File \"" +
         where + "\", line 3 in step\n  File \"train.py\", line 70 in <module>\n";
}

class HangTest : public GangTest {
 protected:
  HangTest() : job(Gang(3)) {}

  // What agents see, once a second for `d`; by task and by how long it goes on already.
  void Watch(Duration d, const std::function<Vitals(int, Duration)>& seen) {
    for (Duration gone{}; gone < d && !job.end; gone += kSecond) {
      for (size_t i = 0; i < job.state.workers.size(); ++i) {
        if (!job.state.workers[i].exited) job.Sees(static_cast<int>(i), seen(i, gone));
      }
      job.Pass(kSecond);
    }
  }
  void AllAnswer(const std::vector<std::string>& places) {
    for (size_t i = 0; i < places.size(); ++i) job.Answers(static_cast<int>(i), Frames(places[i]));
  }
  JobRecord Hung() { return job.Recorded(record_kind::kWorkerHung).at(0); }
  TestJob job;
};

}  // namespace everstep
