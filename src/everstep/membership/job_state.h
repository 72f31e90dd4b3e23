// membership: all that the coordinator knows of a job, as plain data. Only Decide changes it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "everstep/membership/messages.h"
#include "everstep/membership/restart_policy.h"

namespace everstep {

// What to do when a program shows weak signs of a hang; on strong ones it is always acted.
enum class HangAction { kWarn, kKill };

struct JobOptions {
  int workers = 1;    // N, wanted
  bool gang = false;  // the program is known to be no native one
  int chiefs = 0;     // 0 or 1; the other roles: of gangs only
  int parameter_servers = 0;
  int evaluators = 0;  // 0 or 1
  int replicas = 1;    // R, at least N
  // The trainers' cluster when those who start the processes by hand fixed it: who was told another
  // one (Register::cluster) is refused. Chief and workers of it are native workers. Empty: not
  // fixed.
  std::string cluster;
  // Where tasks were in a former run, for people, by name: "on host b, as of ..." (LastSeenOf).
  std::map<std::string, std::string> last_seen;
  std::map<std::string, std::string> settings;  // EVERSTEP_* for every worker's environment
  std::string version;                          // agents of another are refused; empty: any
  int64_t term = 1;
  int max_restarts = 10;  // without a new checkpoint in between; 0: the first failure is the end
  int64_t first_incident = 1;  // number of the first incident of this run, within the job

  // For all tasks to have a place, from the beginning and after each loss of one.
  Duration agents_deadline = std::chrono::seconds(60);
  // For the other workers to say hello once one has; programs may load data first. A program that
  // never says hello is not waited for.
  Duration hello_deadline = std::chrono::minutes(15);
  Duration sync_deadline = std::chrono::minutes(2);  // from Prepare to the last Synced
  // A worker or agent whose stream is lost is lost itself when it has not come back by then.
  Duration lost_after = std::chrono::seconds(2);
  // The same for an agent of a gang that fell silent rather than closed its stream: it may be
  // stopped or starved while its processes work on, and losing it would end them.
  Duration silent_agent_lost_after = std::chrono::seconds(30);
  // Between the first sign of a failure and naming its cause, for the other signs to come in.
  Duration settle = std::chrono::milliseconds(250);
  Duration grace = std::chrono::seconds(25);  // between being told to stop and being killed
  // The same before a restart, unless `grace` is shorter: what they could still save is not needed.
  Duration restart_grace = std::chrono::seconds(5);
  // A restart does not wait longer than this for its record to be on disk.
  Duration record_patience = std::chrono::seconds(30);
  // A program none of whose processes has said hello by then is taken for a gang.
  Duration gang_after = std::chrono::seconds(10);
  HangAction hang_action = HangAction::kWarn;
  // A process of a gang that a signal stopped is lost after this, unless all are stopped: somebody
  // does that on purpose.
  Duration stopped_after = std::chrono::seconds(5);
  // For the answers to TakeStacks.
  Duration stacks_patience = std::chrono::seconds(5);
  // A gang that has written nothing like a checkpoint for this long is told so, each time anew.
  Duration no_checkpoint_after = std::chrono::minutes(30);
  // Within this the stream of a process is lost whose host is gone: until then it is in doubt
  // whether who claims the same task is a second one or its successor.
  Duration claim_patience = std::chrono::seconds(4);
  Duration notice_interval = std::chrono::seconds(5);
  Duration progress_interval = std::chrono::milliseconds(200);

  int Tasks() const { return chiefs + workers + parameter_servers + evaluators; }
  // Somebody said so.
  bool SaidToBeGang() const {
    return gang || Tasks() != (cluster.empty() ? workers : chiefs + workers);
  }
};

enum class JobPhase {
  kGathering,   // agents register
  kStarting,    // workers are ordered; not all have said hello
  kPreparing,   // a view is prepared, not yet committed
  kTraining,    // a view is committed
  kRunning,     // a gang: its processes are watched from outside
  kRestarting,  // all processes are on their way out, to be started again
  kEnding,      // the end is decided; processes still live
  kEnded,
};

enum class WorkerState {
  kOrdered,   // its agent was told to spawn it; nothing heard from it
  kGreeted,   // said hello; in no view
  kLinking,   // in the prepared view
  kSynced,    // linked to all in the prepared view
  kTraining,  // in the committed view
  kClosing,   // was told that its view is closed
  kClosed,    // no thread of it is in the closed view
  kLeaving,   // said that it wants to leave; waits for Stop
  kRunning,   // of a gang: it is there
  kStopping,  // was told to stop
  kGone,      // its process has ended or is given up
  kCount,
};
const char* NameOf(WorkerState state);  // "training"

// What is known of a worker's failure.
struct Trouble {
  TimePoint since;               // the first sign
  bool proven = false;           // the process has ended, or said itself that it failed
  bool lost = false;             // given up after lost_after without a word
  bool hung = false;             // it lives, but does not go on
  int code = 0;                  // what the job's exit code becomes if this is the cause
  std::string what;              // "was killed by signal 9 (SIGKILL)"
  std::optional<int> exit_code;  // its own, when it is known
  int signal = 0;                // that ended it; 0: none
  bool oom = false;
  std::string tail;      // its last lines
  std::string log;       // path of its log
  std::string evidence;  // when hung: "strong" or "weak"
  std::string stacks;    // when hung: path of the file with its stacks
};

// A task of a gang that is started again while others go on.
struct Respawn {
  TimePoint since;
  TimePoint at;        // not before that
  int64_t record = 0;  // the number of its record, which must be on disk first
};

struct WorkerEntry {
  Task task;
  Incarnation incarnation = 0;
  std::string agent;    // who runs its process
  int slot = 0;         // of that agent
  std::string address;  // "host:port" in the cluster
  TimePoint spawned;    // when its agent was told
  WorkerState state = WorkerState::kOrdered;
  std::optional<Hello> hello;
  bool away = false;     // its stream is lost
  TimePoint away_since;  // when away
  TimePoint last_beat;   // or hello, when none came yet
  bool silence_told = false;
  std::optional<Beat> beat;
  std::optional<Synced> synced;
  std::optional<Closed> closed;
  std::optional<Leaving> leaving;
  TimePoint left_at;      // when leaving
  Step committed = -1;    // of the newest checkpoint that it told of
  std::string complaint;  // why its links to peers broke, as it says; empty: no complaint
  TimePoint complained_at;
  bool accused = false;  // a peer says that its link to this worker broke
  std::optional<Trouble> trouble;
  bool killed = false;    // its agent was told to kill it
  bool exited = false;    // its agent has reported the end of its process, or it is given up
  bool given_up = false;  // without its agent's word: it may live

  // Of a gang.
  std::optional<TimePoint> finished;  // exited with 0
  bool finish_told = false;
  bool over = false;  // an evaluator that is not started again
  std::optional<Respawn> respawn;
  std::optional<Vitals> vitals;         // the newest
  std::optional<TimePoint> vitals_at;   // nothing: they count for no evidence any more
  std::optional<TimePoint> stopped_at;  // when it was last seen stopped
  std::optional<Stacks> stacks;
};

struct AgentEntry {
  Register self;
  bool away = false;
  TimePoint away_since;
  TimePoint heard;      // when it last said anything
  bool silent = false;  // when away: nothing was heard of it for long before its stream ended
  std::vector<std::string> missed;  // what people were told while it was away, the last lines
  bool lost = false;
  std::set<Incarnation> abandoned;  // given up in former restarts; to be killed if it comes back
};

// Where a task was that is not there now.
struct LastSeen {
  std::string host;     // for people
  std::string address;  // "host:port"
  TimePoint at;
  bool claimed = false;  // by a process that was started as it
};

// A task that is there and was started again, for which the later processes were refused.
struct DoubleClaim {
  int starts = 1;
  std::vector<std::string> hosts;  // in the order in which they were heard of
};

// Who claims a task that somebody has, as long as that one may have died just now.
struct Doubt {
  Register self;
  TimePoint since;
};

// A restart that is under way.
struct Restarting {
  std::string reason;  // "worker:1 was killed by signal 9 (SIGKILL)"
  TimePoint since;
  Duration back_off{};
  int64_t record = 0;  // the number of its record, which must be on disk first
  bool told_to_kill = false;
};

// A failure whose damage is not undone yet.
struct OpenIncident {
  int64_t number = 0;
  TimePoint since;         // its first sign
  Step step = -1;          // reached then
  Step restored_step = 0;  // where training goes on
  bool restored = false;
  std::string alone;  // of a gang: the task that was restarted while the others went on
};

// Who failed, and who ended because of that: told when all of them are gone.
struct Consequences {
  std::string cause;                // "worker:1"
  std::vector<std::string> others;  // "worker:0", ...
};

// A hang of a gang that is acted on: the stacks of its processes are awaited.
struct Hang {
  TimePoint since;
  bool strong = true;
  Incarnation found = 0;  // who showed it; the culprit may be another one
  std::string text;       // "worker:0 sent no heartbeat for 301.0 s, and its limit is 300.0 s"
  std::set<Incarnation> asked;  // for their stacks
};

// From the first of its processes that a signal stopped until none is any more. Whoever stops all
// of them on purpose, or lets them go on, does so one after another.
struct StopSpell {
  size_t stopped = 0;  // at most, and once all were: at least
  bool all = false;    // all were
  TimePoint since;     // when that number changed: no member's stop counts from earlier
};

// What is known of a gang from outside.
struct GangWatch {
  TimePoint began;          // of this life
  bool progressed = false;  // some sign of progress was seen, in any life
  bool done_told = false;   // that only the evaluator is waited for
  std::optional<TimePoint> trainers_done;
  std::optional<Hang> hang;
  std::optional<TimePoint> silent_since;  // the present spell of weak evidence, which was told
  std::optional<StopSpell> stop;
  bool stop_told = false;  // that all its processes are stopped
  std::string checkpoint;  // path of the newest that was seen; empty: none
  TimePoint checkpoint_seen;
  TimePoint checkpoint_written;
  TimePoint checkpoint_warned;  // or the latest reason not to warn
  Step step_told = -1;          // to the terminal
};

// How the job ends, once that is decided.
struct Ending {
  int code = 0;
  std::string reason;  // one line; empty when the job is done
  std::string tail;    // the last lines of whoever caused it
  TimePoint since;
  bool freed = false;  // half the grace is over; no step is waited for any more
  bool told_to_kill = false;
};

// When the same was last put on record.
struct NoteHeard {
  TimePoint at;
  Incarnation from = 0;
  Step step = 0;
};

struct JobState {
  JobOptions options;
  JobPhase phase = JobPhase::kGathering;
  TimePoint started;  // of the phase
  bool begun = false;

  std::map<std::string, AgentEntry> agents;   // by name
  std::map<Task, LastSeen> seen;              // of tasks that are lost; empty once all have a place
  std::map<Task, DoubleClaim> double_claims;  // since the tasks were last ordered
  std::map<std::string, Doubt> doubts;        // by agent; not in `agents`
  std::optional<TimePoint> refusal_told;      // to the terminals
  std::vector<WorkerEntry> workers;           // chief, workers, parameter servers, evaluator
  std::unordered_map<Incarnation, int> index_of;
  std::array<int, static_cast<size_t>(WorkerState::kCount)> count{};  // workers in each state
  Incarnation next_incarnation = 1;
  ClusterSpec cluster;

  View view;           // prepared or committed; id zero before the first
  StateOrigin origin;  // what the view begins with
  bool view_closed = false;
  int first_greeted = -1;  // index of the worker that others' fingerprints are compared with
  TimePoint first_hello;

  std::optional<TimePoint> trouble_since;  // the first sign of a failure that is not explained yet
  std::optional<Restarting> restarting;
  RestartBook restarts;
  std::optional<Consequences> consequences;
  GangWatch gang;
  RestartBook evaluator_restarts;
  std::vector<OpenIncident> open_incidents;
  std::optional<Ending> ending;

  int64_t next_incident = 1;
  int64_t records = 0;                                             // put on record so far
  int64_t records_durable = 0;                                     // of them on disk
  std::map<std::pair<std::string, std::string>, NoteHeard> notes;  // by kind and text
  std::optional<CheckpointCommitted> checkpoint;                   // the newest of this run
  TimePoint checkpoint_at;

  TimePoint last_event;
  TimePoint last_notice;
  TimePoint last_progress;
  bool progress_due = false;
  std::string line;  // what the job waits for or does, for people
};

}  // namespace everstep
