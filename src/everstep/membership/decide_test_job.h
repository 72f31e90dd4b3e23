// membership: a job for tests of Decide: feeds events at a time of its own, keeps what was ordered.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "everstep/membership/decide.h"

namespace everstep {

inline constexpr Duration kSecond = std::chrono::seconds(1);
inline constexpr Duration kMs = std::chrono::milliseconds(1);

inline int ExitedWith(int code) { return code << 8; }
inline int KilledBy(int signal) { return signal; }

class TestJob {
 public:
  explicit TestJob(int workers, int replicas = 0) {
    options.workers = workers;
    options.replicas = replicas == 0 ? workers : replicas;
    options.settings = {{"EVERSTEP_SEED", "7"}};
    options.max_restarts = 0;  // the first failure is the end, unless a test is about restarts
  }

  void Feed(const Event& event) {
    if (!made_) state = MakeJob(options);
    made_ = true;
    Decision decision = Decide(now, state, event);
    reason = decision.reason;
    const size_t before = records.size();
    for (const CoordinatorAction& action : decision.actions) Keep(action);
    // As a journal whose disk is fast.
    if (!journal_stuck && records.size() > before) {
      Feed(Journaled{static_cast<int64_t>(records.size())});
    }
  }
  // Lets `d` pass with a tick every 50 ms, as the coordinator does.
  void Pass(Duration d) {
    for (Duration gone{}; gone < d; gone += 50 * kMs) {
      now += 50 * kMs;
      Feed(Tick{});
    }
  }

  void AgentRegisters(const std::string& name, const std::string& host, int slots) {
    Register self{name, host, host + ".net", slots, {}, "1.0"};
    for (int i = 0; i < slots; ++i) self.ports.push_back(5000 + i);
    Feed(AgentSaid{name, self});
  }
  // A process of `host`, started by hand as `task`.
  static Register ClaimOf(const std::string& name, const std::string& host, const std::string& task,
                          const std::string& cluster = "") {
    Register self{name, host, host + ".net", 1, {29711}, "1.0"};
    self.task = *Task::Parse(task);
    self.cluster = cluster;
    self.pid = 4711;
    return self;
  }
  void Claims(const std::string& name, const std::string& host, const std::string& task,
              const std::string& cluster = "") {
    Feed(AgentSaid{name, ClaimOf(name, host, task, cluster)});
  }
  void Exits(int index, int wait_status, const std::string& tail = "", bool oom = false) {
    const WorkerEntry& worker = state.workers[index];
    Feed(AgentSaid{worker.agent,
                   Exited{worker.task, worker.incarnation, wait_status, tail, oom, "/log"}});
  }
  Hello HelloOf(int index) const {
    const WorkerEntry& worker = state.workers[index];
    Hello hello;
    hello.task = worker.task;
    hello.incarnation = worker.incarnation;
    hello.host = state.agents.at(worker.agent).self.host;
    hello.data_address = absl::StrCat("10.0.0.1:", 29710 + index);
    hello.fingerprint = {{"model", "m1"}, {"version", "1.0"}};
    hello.history = held.history;
    hello.step = held.step;
    hello.digest = held.digest;
    return hello;
  }
  void Says(int index, WorkerMessage message) {
    Feed(WorkerSaid{state.workers[index].incarnation, std::move(message)});
  }
  void SaysHello(int index) { Says(index, HelloOf(index)); }
  void StreamBreaks(int index) { Feed(WorkerStreamLost{state.workers[index].incarnation}); }
  void Syncs(int index) { Syncs(index, held.step, held.digest); }
  void Syncs(int index, Step step, uint64_t digest) {
    Says(index, Synced{state.view.id, step, digest});
  }
  void Beats(int index, Step step) {
    Beat beat;
    beat.view = state.view.id;
    beat.step = step;
    Says(index, beat);
  }
  void Complains(int index, int peer) {
    Says(index, LinkLost{state.view.id, peer, absl::StrCat("lost rank ", peer)});
  }
  void Leaves(int index, LeaveReason why, Step step = 100, uint64_t digest = 5, int code = 0,
              const std::string& message = "") {
    Says(index, Leaving{why, state.view.id, step, digest, code, message});
  }

  // N workers, two for each of the hosts a, b, ...
  void Gather() {
    const int n = options.Tasks();
    for (int i = 0; i < n; i += 2) {
      const std::string host(1, static_cast<char>('a' + i / 2));
      AgentRegisters("agent-" + host, host, std::min(2, n - i));
    }
  }
  void Train() {
    Gather();
    Join();
  }
  // All say hello and link.
  void Join() {
    for (int i = 0; i < options.Tasks(); ++i) SaysHello(i);
    for (int i = 0; i < options.Tasks(); ++i) Syncs(i);
  }
  void AllExit(int wait_status = 0) {
    for (int i = 0; i < options.Tasks(); ++i) Exits(i, wait_status);
  }

  // --- gangs ---

  // What is seen of a process that goes on.
  static Vitals GoingOn() {
    Vitals vitals;
    vitals.idle_limit = 60 * kSecond;
    vitals.cpu = 1;
    vitals.seen = "output 0 s ago";
    return vitals;
  }
  void Sees(int index, Vitals vitals) {
    vitals.incarnation = state.workers[index].incarnation;
    Feed(AgentSaid{state.workers[index].agent, vitals});
  }
  void SeesCheckpoint(const std::string& path, Duration age = {}) {
    Feed(AgentSaid{"agent-a", CheckpointSeen{state.workers[0].incarnation, path, age}});
  }
  void Answers(int index, const std::string& stacks) {
    const WorkerEntry& worker = state.workers[index];
    Feed(AgentSaid{worker.agent, Stacks{worker.incarnation, stacks,
                                        absl::StrCat("/stacks-", worker.task.ToString())}});
  }
  int IndexOf(const std::string& task) const {
    for (size_t i = 0; i < state.workers.size(); ++i) {
      if (state.workers[i].task.ToString() == task) return static_cast<int>(i);
    }
    return -1;
  }
  Incarnation LifeOf(const std::string& task) const {
    return state.workers.at(IndexOf(task)).incarnation;
  }
  // All that people were told so far, a line each.
  std::string Told() const {
    std::string text;
    for (const auto& [name, orders] : to_agents) {
      for (const AgentOrder& order : orders) {
        if (const auto* notice = std::get_if<Notice>(&order)) text += notice->text + "\n";
      }
      if (!text.empty()) break;
    }
    return text;
  }
  // The tasks that an agent was told to start, in this order.
  std::vector<std::string> Spawned() const { return TasksOf<Spawn>(); }
  // Those told to end, or to say what they do.
  template <typename Order>
  std::vector<std::string> TasksOf() const {
    std::vector<std::string> tasks;
    for (const auto& [name, orders] : to_agents) {
      for (const AgentOrder& order : orders) {
        if (const auto* t = std::get_if<Order>(&order)) tasks.push_back(TaskOf(*t));
      }
    }
    std::sort(tasks.begin(), tasks.end());
    return tasks;
  }

  // The orders of one kind that worker `index` got.
  template <typename T>
  std::vector<T> Got(int index) const {
    std::vector<T> result;
    auto it = to_workers.find(state.workers[index].incarnation);
    if (it == to_workers.end()) return result;
    for (const WorkerOrder& order : it->second) {
      if (const T* t = std::get_if<T>(&order)) result.push_back(*t);
    }
    return result;
  }
  template <typename T>
  std::vector<T> AgentGot(const std::string& name) const {
    std::vector<T> result;
    auto it = to_agents.find(name);
    if (it == to_agents.end()) return result;
    for (const AgentOrder& order : it->second) {
      if (const T* t = std::get_if<T>(&order)) result.push_back(*t);
    }
    return result;
  }
  // The records of one kind.
  std::vector<JobRecord> Recorded(const std::string& kind) const {
    std::vector<JobRecord> result;
    for (const JobRecord& record : records) {
      if (record.kind == kind) result.push_back(record);
    }
    return result;
  }
  void ForgetOrders() {
    to_workers.clear();
    to_agents.clear();
  }

  JobOptions options;
  JobState state;
  TimePoint now = TimePoint(std::chrono::hours(1));
  std::string reason;
  std::map<Incarnation, std::vector<WorkerOrder>> to_workers;
  std::map<std::string, std::vector<AgentOrder>> to_agents;
  std::vector<JobRecord> records;
  bool journal_stuck = false;
  StateOrigin held{0, 0, 9, -1};  // what workers say they hold; the donor does not matter
  std::optional<EndJob> end;
  int ends = 0;

 private:
  std::string TaskOf(const Spawn& spawn) const { return spawn.task.ToString(); }
  template <typename Order>
  std::string TaskOf(const Order& order) const {
    auto it = state.index_of.find(order.incarnation);
    return it == state.index_of.end() ? "nobody" : state.workers[it->second].task.ToString();
  }

  void Keep(const CoordinatorAction& action) {
    if (const auto* tell = std::get_if<TellWorkers>(&action)) {
      for (Incarnation i : tell->to) to_workers[i].push_back(tell->order);
    } else if (const auto* tell = std::get_if<TellAgents>(&action)) {
      for (const std::string& name : tell->to) to_agents[name].push_back(tell->order);
    } else if (const auto* record = std::get_if<Record>(&action)) {
      records.push_back(record->record);
    } else if (const auto* e = std::get_if<EndJob>(&action)) {
      end = *e;
      ++ends;
    }
  }

  bool made_ = false;
};

}  // namespace everstep
