// membership: Decide, what the coordinator does about everything it hears. Pure: no clock, lock,
// socket or thread, and the same events always give the same actions; the coordinator carries them
// out for real, a simulator in its own way.
//
// The rules, for a job of N workers:
//   Gathering. Agents register until all tasks have a place: a claimed one where it is claimed, the
//   others in slots by (host, name).
//   Starting.  Workers say hello; their fingerprints must be equal.
//   Preparing. View 1.1 of all of them; each links to the others and says so with its state.
//   Training.  Until all leave having finished, at the same step with the same digest.
//   A failure has a cause: the worker that failed first, not those whose links broke because of it;
//   so signs are gathered for a moment before the cause is named. Then the restart policy
//   (restart_policy.h) says whether the job ends or starts again.
//   Restarting. All processes leave or are killed, all start again with new incarnations on the
//   agents that are still there, and train on from the state they restore. Gathering again when
//   there are too few slots.
//   Whatever matters afterwards is put on record (job/record.h), a restart before it is done.
//   Running. A program that never says hello is watched from outside, a gang: any death of chief or
//   worker restarts them all, an evaluator is beside them, a job with parameter servers (its chief
//   decides) loses tasks alone. Stopped or hung processes, and checkpoints that are not written,
//   are known from what agents see of it. Done when all trainers have exited with 0.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "everstep/job/record.h"
#include "everstep/membership/job_state.h"

namespace everstep {

// --- what happens ---

struct AgentSaid {
  std::string agent;  // its name; for Register, the one in it
  AgentMessage message;
};
struct AgentStreamLost {
  std::string agent;
};
struct WorkerSaid {
  Incarnation incarnation = 0;
  WorkerMessage message;
};
struct WorkerStreamLost {
  Incarnation incarnation = 0;
};
struct StopAsked {  // by whoever runs the coordinator
  std::string reason;
};
struct Journaled {  // the first `durable` records of this run are on disk
  int64_t durable = 0;
};
struct Superseded {};  // another coordinator holds a higher term
struct Tick {};        // at least every 100 ms

using Event = std::variant<AgentSaid, AgentStreamLost, WorkerSaid, WorkerStreamLost, StopAsked,
                           Journaled, Superseded, Tick>;

// --- what to do about it ---

struct TellWorkers {
  std::vector<Incarnation> to;
  WorkerOrder order;
};
struct TellAgents {
  std::vector<std::string> to;  // names
  AgentOrder order;
};
struct EndJob {  // all agents are told already; nothing follows
  int code = 0;
  std::string reason;
};
struct LogLine {
  bool warning = false;
  std::string text;
};
struct Record {
  JobRecord record;
};

using CoordinatorAction = std::variant<TellWorkers, TellAgents, EndJob, LogLine, Record>;

struct Decision {
  std::vector<CoordinatorAction> actions;  // in this order
  std::string reason;                      // what the job waits for or does, for people
};

// kInvalidArgument when the job cannot run as asked.
absl::Status CheckJob(const JobOptions& options);

// `options` must have passed CheckJob.
JobState MakeJob(JobOptions options);

Decision Decide(TimePoint now, JobState& state, const Event& event);

}  // namespace everstep
