// supervise: the agent, which keeps the processes of one host: starts them when the coordinator
// says so, watches them, shows their output, ends them, and leaves none behind.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/env/file.h"
#include "everstep/env/port.h"
#include "everstep/env/process.h"
#include "everstep/env/process_tree.h"
#include "everstep/membership/agent_link.h"
#include "everstep/membership/messages.h"
#include "everstep/supervise/agent_stacks.h"
#include "everstep/supervise/child_environment.h"
#include "everstep/supervise/output.h"
#include "everstep/supervise/watch.h"

namespace everstep {

struct AgentOptions {
  std::vector<std::string> program;  // and its arguments
  std::string executable;            // as SpawnOptions has it
  ChildContext context;
  Duration grace = std::chrono::seconds(25);  // for processes told to leave by this agent
  // After StopRequest, beyond the grace: for the coordinator to end the job.
  Duration stop_margin = std::chrono::seconds(5);
  // A second wish to stop within this time of the first is the same one heard twice.
  Duration second_signal_after = std::chrono::seconds(2);
  // For the processes when this agent's parent is gone: nobody is there to answer to any more.
  // Zero: they are killed with this agent, whichever of the two is.
  Duration orphan_grace = std::chrono::milliseconds(1500);
  Duration away_limit = std::chrono::seconds(60);  // of the coordinator
  // The same before it has given this agent a task, unless `away_limit` is shorter.
  Duration away_limit_at_start = std::chrono::seconds(60);

  // All optional. `signals` hears SIGTERM, SIGINT, SIGHUP and SIGCHLD. When `parent` is not this
  // process's parent any more, a signal means that it has died. `coordinator` is the coordinator's
  // process where this host runs it.
  SignalQueue* signals = nullptr;
  pid_t parent = 0;
  Process* coordinator = nullptr;
  // Of the processes; busy ones are replaced, and the coordinator is told.
  PortReservation* ports = nullptr;
  // For the port of a process to be started, in which its last user may still be ending.
  Duration port_patience = std::chrono::seconds(2);
  Duration watch_interval = std::chrono::seconds(1);  // between two looks at the processes
  FileSystem* fs = nullptr;
  // How many processes the kernel has killed for want of memory; null: OomKills() of this process's
  // control group.
  std::function<std::optional<int64_t>()> oom_kills;
};

// What the agent has to tell; for a terminal. Line comes from another thread than the rest.
class AgentView {
 public:
  virtual ~AgentView() = default;
  // A process of it begins. On the thread of the agent.
  virtual void Begins(const Spawn&) {}
  virtual void Line(const Task& task, OutputStream stream, std::string_view line) = 0;
  // Whether it wants the lines of the stream as they are, and not as a terminal may get them. Asked
  // once.
  virtual bool WantsRaw(OutputStream) const { return false; }
  virtual void ShowProgress(const Progress& progress) = 0;
  virtual void Say(const std::string& text) = 0;  // one line
};

// A process of this host that ended badly, not on anybody's order.
struct TaskFailure {
  Task task;
  int wait_status = 0;
  std::string tail;      // its last lines, at most 20
  std::string log_path;  // empty: none
};

struct AgentResult {
  int code = 0;
  std::string reason;                 // empty when the job is done
  bool from_coordinator = false;      // the reason is the coordinator's
  std::vector<TaskFailure> failures;  // in the order they were seen
  // Of each task that ran on this host, the log of its last process. A process that printed nothing
  // has no such file.
  std::map<Task, std::string> logs;
  std::string job_directory;  // as the newest process was told it; empty: none was started
};

class Agent {
 public:
  Agent(AgentOptions options, AgentView* view);  // `view` must outlive it
  ~Agent();

  // Wakes Run; any thread, also before it and after. For AgentLinkOptions::on_arrival.
  void Wake();

  // Until the job has ended, or this agent must leave it; then no process that it started lives.
  // Once. The kernel ends the processes with the thread that calls this: it must be one that lives
  // as long as this process.
  AgentResult Run(AgentLink& link);

 private:
  struct Child {
    Task task;
    Process process;
    std::string log_path;
    int port = 0;  // its own in the cluster; 0: none
    TimePoint started;
    std::optional<int64_t> oom_kills;  // when it was started
    bool told = false;                 // to leave
    bool looked_at = false;            // its stacks were taken, or are
    std::optional<Deadline> kill_at;
    // It has ended; what it has left may end by itself until then, or until kill_at if it was told
    // to leave.
    std::optional<Deadline> settles_at;
    // Of what it has left outside its group: number and start of those that have heard SIGTERM.
    std::set<std::pair<pid_t, int64_t>> told_to_leave;
    // Orphans whose environment did not say whose they are, at the first look.
    std::set<std::pair<pid_t, int64_t>> unmarked;
    std::string left;  // what it had left after that, for people; killed
  };
  struct Remains {
    std::vector<ProcessEntry> left;  // by a child that has ended
    bool unclear = false;            // there may be more: look again
  };
  // One that cannot be started yet.
  struct Waiting {
    Spawn spawn;
    std::optional<Deadline> port_until;
  };

  void WaitForSomething();
  void HearSignals();
  void OnWishToStop(int signal);
  void ReapExited();
  void OnCoordinatorGone(int status);
  // Whether the end of the child can be told: nobody looks at it any more, and it has left nothing.
  bool Settle(Incarnation incarnation, Child& child);
  // Whether what the child has left still has time; tells it to leave.
  bool MaySave(Child& child, const std::vector<ProcessEntry>& left);
  Remains LeftBy(Incarnation incarnation, Child& child) const;
  bool IsKnown(pid_t pid) const;
  void OnExit(Incarnation incarnation, Child& child, int status);
  void TellNews();  // what was seen, and stacks
  void TellPorts();
  bool KilledForMemory(const Child& child, int status);
  void ObeyOrders();
  void OnOrder(const Spawn& spawn);
  void OnOrder(const Kill& kill);
  void OnOrder(const TakeStacks& take);
  void OnOrder(const Progress& progress) { view_->ShowProgress(progress); }
  void OnOrder(const Notice& notice) { view_->Say(notice.text); }
  void OnOrder(const JobEnded& end);
  void StartWaiting();
  bool PortIsFree(Waiting& waiting, absl::Status* status) const;  // false: wait
  absl::Status StartProcess(const Spawn& spawn);
  // Begins to watch it, and adds to its environment what that needs.
  void ExpectProcess(Incarnation incarnation, const std::string& job,
                     std::map<std::string, std::string>* environment);
  void NotStarted(const Spawn& spawn, const absl::Status& status);
  void KeepTime();
  void TellToLeave(Child& child, Duration grace);
  // From now on only the end of the processes is waited for.
  void Leave(int code, std::string reason, Duration grace);

  const AgentOptions options_;
  AgentView* const view_;
  FileSystem& fs_;
  UniqueFd wake_;
  std::unique_ptr<Watch> watch_;  // since the first process; told by the pump
  OutputPump pump_;
  AgentLink* link_ = nullptr;
  std::map<Incarnation, Child> children_;
  std::deque<Waiting> waiting_;
  StackTaker stacks_;
  std::optional<int64_t> oom_kills_told_;  // of the kernel's, how many are ascribed to a child
  std::optional<TimePoint> stop_asked_;
  bool begun_ = false;  // a process was started
  bool leaving_ = false;
  bool life_failed_ = false;  // one of the processes since there were none ended badly
  AgentResult result_;
};

}  // namespace everstep
