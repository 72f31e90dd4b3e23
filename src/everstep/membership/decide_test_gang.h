// membership: gangs for tests of Decide: programs that are only seen from outside.
#pragma once

#include <gtest/gtest.h>

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

}  // namespace everstep
