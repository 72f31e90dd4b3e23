// membership: the restart policy: whether a job whose worker failed starts again from its last
// checkpoint or ends. Pure; the numbers it goes by are plain data.
//
// A failure that would come again the same way ends the job; any other restarts it, as often as the
// budget says. A new checkpoint is progress: it fills the budget again. The same replicas failing
// at the same step by the program's own fault three times is no accident either.
//
// Of a program that knows nothing of Everstep (a gang) no steps are known. So: what fails at once,
// before it has done anything, ends; later the third failure of one task by its own fault without a
// new checkpoint ends it; being told to leave is no failure of it, and costs nothing of the budget.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "everstep/base/clock.h"
#include "everstep/base/step.h"

namespace everstep {

enum class Blame {
  kOwn,      // the program's: an exit code, an exception, SIGSEGV, SIGABRT, ..., too much memory
  kAgain,    // it said that another try may do (75), or workers did not reach each other
  kOutside,  // killed from outside, or its host or connection was lost
  kLeave,    // it was told to leave: whoever told it wants the job to end
};

// Whose fault it is that a process ended by `signal` (0: none) or else with `code`.
Blame BlameFor(int code, int signal, bool oom);

struct Fault {
  Blame blame = Blame::kOutside;
  int code = 0;      // the job's exit code if it ends by this
  std::string who;   // "worker:1 on b"; empty: no single one
  std::string what;  // "was killed by signal 9 (SIGKILL)"
  int task_index = -1;
  std::string task;    // "worker:1"
  bool early = false;  // of a gang: in its first life, soon, and before any sign of progress
  History history = 0;
  Step step = -1;          // reached; -1: it had not joined the others yet
  int replica_begin = -1;  // it ran the replicas [begin, end); -1: none yet
  int replica_end = -1;
};

std::string CauseText(const Fault& fault);  // "worker:1 on b was killed by signal 9 (SIGKILL)"

// What the policy remembers of a run.
struct RestartBook {
  int64_t term = 1;
  int max_restarts = 10;
  int used = 0;          // of the budget
  int total = 0;         // restarts in this run
  bool native = false;   // a worker has said hello: the program knows how to go on
  bool gang = false;     // no native program: all that is known of it is seen from outside
  bool trained = false;  // a view was committed: something may be lost
  // The newest checkpoint committed in this run or restored from.
  std::pair<History, Step> newest{0, 0};
  // Failures by the program's own fault, by history, step and replicas.
  std::map<std::tuple<History, Step, int, int>, int> failures;
  // Of a gang, since its newest checkpoint: restarts in a row because somebody told a task to
  // leave, and failures by each task's own fault.
  int leaves = 0;
  std::map<std::string, int> own_failures;
};

struct RestartVerdict {
  bool restart = false;
  Duration back_off{};  // to wait before it
  std::string reason;   // of the end, when it is one
};

RestartVerdict RestartOrEnd(const RestartBook& book, const Fault& fault);

int RestartsLeft(const RestartBook& book);

// The restart that RestartOrEnd said is done.
void BookRestart(RestartBook& book, const Fault& fault);
// A checkpoint was committed. Only one further than all before it is progress.
void BookCheckpoint(RestartBook& book, History history, Step step);
// A gang wrote a checkpoint that was not there before.
// `at_start`: it was written soon after the start, so it may hold no more than the program began
// with, and its own failures count on: one that saves at each start and then fails would else do
// so for ever.
void BookCheckpointSeen(RestartBook& book, bool at_start);
// A view was committed that begins with this state.
void BookTraining(RestartBook& book, History history, Step step);

}  // namespace everstep
