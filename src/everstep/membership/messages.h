// membership: what coordinator, workers and agents say to each other, as plain values. Ages travel
// as durations, never as times. Whoever hears two terms obeys only the highest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/base/scalars.h"
#include "everstep/base/step.h"
#include "everstep/base/view.h"

namespace everstep {

// What must be equal on all workers of a job, by name ("version", "data", "model", "seed", ...).
using Fingerprint = std::map<std::string, std::string>;

// --- worker to coordinator ---

struct Hello {
  Task task;
  Incarnation incarnation = 0;
  std::string host;          // processes of equal host can share memory
  std::string data_address;  // "host:port"
  Fingerprint fingerprint;
  ViewId view;  // the one it is in; zero for a newcomer
  History history = 0;
  Step step = 0;
  uint64_t digest = 0;
};

struct Beat {
  ViewId view;
  Step step = 0;
  std::string phase;  // "input", "forward_backward", "wait_for_peer", ...
  Duration in_phase{};
  std::vector<int> waits;  // ranks it waits for
  Scalars scalars;         // sent by every worker, used from the committer
};

struct LinkLost {
  ViewId view;
  int peer = -1;  // rank
  std::string why;
};

// Said only when none of its threads is in the closed view any more.
struct Closed {
  ViewId view;
  History history = 0;
  Step step = 0;
  uint64_t digest = 0;
};

// Linked to all members of the prepared view and holding this state.
struct Synced {
  ViewId view;
  Step step = 0;
  uint64_t digest = 0;
};

enum class LeaveReason { kFinished, kToldToLeave, kFailed };

// It wants to leave: the program has returned and the last checkpoint is committed; or it was told
// to; or it failed. Then it waits for Stop.
struct Leaving {
  LeaveReason reason = LeaveReason::kFinished;
  ViewId view;
  Step step = 0;
  uint64_t digest = 0;
  int exit_code = 0;
  std::string message;  // for people, when kFailed
};

// From the member that committed it: the checkpoint is whole, visible and durable.
struct CheckpointCommitted {
  ViewId view;
  History history = 0;
  Step step = 0;
  std::string path;
  int64_t bytes = 0;
  Duration took{};
};

// Something to be put on record that changes nothing: `kind` is a record_kind of job/record.h
// (checkpoint_failed, checkpoint_rejected, storage_slow).
struct Note {
  std::string kind;
  Step step = 0;
  std::string text;  // one line for people
};

using WorkerMessage =
    std::variant<Hello, Beat, LinkLost, Closed, Synced, Leaving, CheckpointCommitted, Note>;

// --- coordinator to worker ---

struct Welcome {
  int64_t term = 0;
};
struct Close {
  ViewId view;
  std::string reason;
};
// The state that all members begin a view with.
struct StateOrigin {
  History history = 0;
  Step step = 0;
  uint64_t digest = 0;
  int donor = -1;  // the rank whose state the others take when theirs differs; -1: all hold it
};
struct Prepare {
  View view;
  StateOrigin origin;
};
struct Commit {
  ViewId view;
};
// The end. `code` is the job's exit code; the process leaves within `grace`.
struct Stop {
  int code = 0;
  Duration grace{};
  std::string reason;
};

using WorkerOrder = std::variant<Welcome, Close, Prepare, Commit, Stop>;

// --- agent to coordinator ---

struct Register {
  std::string agent;       // unique name of this agent's life
  std::string host;        // of its processes
  std::string address;     // where processes of other hosts reach its host
  int slots = 1;           // how many workers it can run
  std::vector<int> ports;  // free ports of its host, one for each slot, for TF_CONFIG
  std::string version;
  // Of a process that somebody started by hand as a task: its one slot is for that task only, and
  // nobody else gets it. Then ports[0] and address are the task's in the cluster.
  std::optional<Task> task;
  std::string cluster;  // of the trainers, as it was told: WriteCluster; empty: it was told none
  int pid = 0;          // of the process, for people
};
struct Exited {
  Task task;
  Incarnation incarnation = 0;
  int wait_status = 0;  // as wait(2) gives it
  std::string tail;     // the last lines it printed
  bool oom = false;     // the kernel killed it for lack of memory
  std::string log;      // path of its log; empty: none
};
// The agent was told to end the job (Ctrl-C, SIGTERM).
struct StopRequest {
  std::string reason;
};

// What an agent sees of a process and all that it started, about once a second: from outside, and
// what the process says of itself by heartbeats.
struct Vitals {
  Incarnation incarnation = 0;
  Duration idle{};        // since the last sign of progress: output, files, CPU, network
  Duration idle_limit{};  // learned; silence beyond it is weak evidence of a hang
  Duration stopped{};     // since a signal stopped it; 0: it runs
  bool beats = false;     // it sends heartbeats
  Duration beat_age{};    // since the last one
  Duration beat_limit{};  // until the next one: learned, or as the program said
  Step step = -1;         // of the last heartbeat; -1: it told none
  std::string phase;      // of the last heartbeat
  bool wrote = false;     // a checkpoint or an event file, since it was started
  double cpu = 0;         // cores used over the last seconds
  int64_t memory = 0;     // bytes, resident
  // Of what is stopped, for people: "process 77 (python3 train.py)".
  std::string stopped_process;
  std::string seen;  // for people: "output 63 s ago, files 120 s ago, 0.0 cores"
};
// A checkpoint of the program is there that was not seen before.
struct CheckpointSeen {
  Incarnation incarnation = 0;  // of a process of this agent; others may have written it
  std::string path;             // a TensorFlow prefix, a file or a directory
  Duration age{};               // of what it holds
};
// The answer to TakeStacks.
struct Stacks {
  Incarnation incarnation = 0;
  std::string text;  // of all threads, innermost frame first, at most 64 KiB
  std::string path;  // of the file with all of it, on the agent's host; empty: there is none
};
// Free ports of the agent's host for the processes to come; replaces those of Register.
struct Ports {
  std::vector<int> ports;
};

using AgentMessage =
    std::variant<Register, Exited, StopRequest, Vitals, CheckpointSeen, Stacks, Ports, Note>;

// --- coordinator to agent ---

struct Spawn {
  Task task;
  Incarnation incarnation = 0;
  ClusterSpec cluster;  // for its TF_CONFIG
  std::map<std::string, std::string>
      settings;        // EVERSTEP_* variables of the job, for its environment
  int local_rank = 0;  // among the trainers (chief, workers) of its host; -1: it is none
  int local_size = 1;  // how many trainers its host has
};
struct Kill {
  Incarnation incarnation = 0;
  Duration grace{};  // between SIGTERM and SIGKILL
};
// Says what every thread of the process is doing, by Stacks. A Python program ends by it (SIGABRT
// with its fault handler); so it is asked for when the process is to be killed anyway.
struct TakeStacks {
  Incarnation incarnation = 0;
};
// For the terminal: how the job is doing, a line for people, or its end.
struct Progress {
  Step step = 0;
  int workers = 0;
  Scalars scalars;
};
struct Notice {
  std::string text;
};
struct JobEnded {
  int code = 0;
  std::string reason;  // for people; empty when the job is done
};

using AgentOrder = std::variant<Spawn, Kill, TakeStacks, Progress, Notice, JobEnded>;

}  // namespace everstep
