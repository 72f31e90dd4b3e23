// membership: Decide, which tasks there are, where they run, and the orders to start them.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/membership/decider.h"

namespace everstep {

std::string HostPort(const std::string& address, int port) {
  const bool bare_v6 =
      address.find(':') != std::string::npos && !address.empty() && address.front() != '[';
  return bare_v6 ? absl::StrCat("[", address, "]:", port) : absl::StrCat(address, ":", port);
}

namespace {

// Trainers first: they are spread over the hosts in the order of their ranks.
std::vector<Task> TasksOf(const JobOptions& options) {
  std::vector<Task> tasks;
  const std::pair<const char*, int> roles[] = {{"chief", options.chiefs},
                                               {"worker", options.workers},
                                               {"ps", options.parameter_servers},
                                               {"evaluator", options.evaluators}};
  for (const auto& [type, number] : roles) {
    for (int i = 0; i < number; ++i) tasks.push_back({type, i});
  }
  return tasks;
}

}  // namespace

bool IsTrainer(const Task& task) { return task.type == "chief" || task.type == "worker"; }

bool IsEvaluator(const Task& task) { return task.type == "evaluator"; }

// Those of claimers, or those that are for any task.
std::vector<Decider::Place> Decider::FreePlaces(bool claimed) const {
  std::vector<const AgentEntry*> order;
  for (const auto& [name, agent] : state_.agents) {
    if (!agent.lost && agent.self.task.has_value() == claimed) order.push_back(&agent);
  }
  std::sort(order.begin(), order.end(), [](const AgentEntry* a, const AgentEntry* b) {
    return std::tie(a->self.host, a->self.agent) < std::tie(b->self.host, b->self.agent);
  });
  std::set<std::pair<std::string, int>> taken;
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.over || (state_.phase == JobPhase::kGathering && !Stays(worker))) continue;
    taken.emplace(worker.agent, worker.slot);
  }
  std::vector<Place> places;
  for (const AgentEntry* agent : order) {
    for (int slot = 0; slot < agent->self.slots; ++slot) {
      if (taken.count({agent->self.agent, slot}) == 0) places.push_back({agent, slot});
    }
  }
  return places;
}

std::optional<Decider::Place> Decider::FreePlaceFor(const Task& task) const {
  for (const Place& place : FreePlaces(true)) {
    if (place.agent->self.task == task) return place;
  }
  const std::vector<Place> open = FreePlaces(false);
  if (open.empty()) return std::nullopt;
  return open.front();
}

// A claimed task where it is claimed, the others where nothing is claimed. When those who start the
// processes have fixed the cluster, its tasks are for who was started as them.
Decider::Placing Decider::PlaceTasks() const {
  Placing placing;
  std::map<Task, Place> claimed;
  for (const Place& place : FreePlaces(true)) claimed.emplace(*place.agent->self.task, place);
  const std::vector<Place> open = FreePlaces(false);
  size_t next = 0;
  std::set<Task> staying;
  for (const WorkerEntry& worker : state_.workers) {
    if (Stays(worker)) staying.insert(worker.task);
  }
  for (const Task& task : TasksOf(state_.options)) {
    if (staying.count(task) > 0) continue;
    const bool fixed = !state_.options.cluster.empty() && IsTrainer(task);
    if (const auto found = claimed.find(task); found != claimed.end()) {
      placing.places.insert(*found);
    } else if (!fixed && next < open.size()) {
      placing.places.emplace(task, open[next++]);
    } else {
      placing.missing.push_back(task);
    }
  }
  return placing;
}

// An evaluator that runs on through a restart of the others stays as it is.
void Decider::OrderWorkers() {
  const Placing placing = PlaceTasks();
  state_.seen.clear();
  state_.double_claims.clear();
  auto& workers = state_.workers;
  workers.erase(std::remove_if(workers.begin(), workers.end(),
                               [&](const WorkerEntry& worker) { return !Stays(worker); }),
                workers.end());
  std::vector<WorkerEntry> all;
  std::vector<Incarnation> fresh;
  for (const Task& task : TasksOf(state_.options)) {
    auto there = std::find_if(workers.begin(), workers.end(),
                              [&](const WorkerEntry& worker) { return worker.task == task; });
    if (there != workers.end()) {
      all.push_back(std::move(*there));
      continue;
    }
    WorkerEntry worker;
    worker.task = task;
    worker.incarnation = state_.next_incarnation++;
    Put(worker, placing.places.at(task));
    fresh.push_back(worker.incarnation);
    all.push_back(std::move(worker));
  }
  workers = std::move(all);
  CountAgain();
  MakeCluster();
  state_.trouble_since.reset();
  EnterPhase(IsGang() ? JobPhase::kRunning : JobPhase::kStarting);
  for (Incarnation incarnation : fresh) {
    const WorkerEntry& worker = *Find(incarnation);
    TellAgent(worker.agent, SpawnOf(worker));
  }
  if (IsGang()) BeginGangLife(now_);
}

void Decider::Put(WorkerEntry& worker, const Place& place) const {
  const Register& self = place.agent->self;
  worker.agent = self.agent;
  worker.slot = place.slot;
  worker.address = HostPort(self.address, self.ports[place.slot]);
  worker.spawned = now_;
}

void Decider::CountAgain() {
  state_.index_of.clear();
  state_.count.fill(0);
  for (size_t i = 0; i < state_.workers.size(); ++i) {
    state_.index_of[state_.workers[i].incarnation] = static_cast<int>(i);
    ++state_.count[static_cast<size_t>(state_.workers[i].state)];
  }
}

// An evaluator is in nobody's cluster but its own: TensorFlow wants it so.
void Decider::MakeCluster() {
  state_.cluster = ClusterSpec{};
  for (const WorkerEntry& worker : state_.workers) {
    if (!IsEvaluator(worker.task)) {
      state_.cluster.jobs[worker.task.type].push_back(worker.address);
    }
  }
}

Spawn Decider::SpawnOf(const WorkerEntry& worker) const {
  Spawn spawn{worker.task, worker.incarnation, state_.cluster, state_.options.settings};
  if (IsEvaluator(worker.task)) spawn.cluster.jobs = {{worker.task.type, {worker.address}}};
  spawn.local_rank = -1;
  spawn.local_size = 0;
  const std::string& host = state_.agents.at(worker.agent).self.host;
  for (const WorkerEntry& other : state_.workers) {
    const auto agent = state_.agents.find(other.agent);
    if (!IsTrainer(other.task) || agent == state_.agents.end()) continue;
    if (agent->second.self.host != host) continue;
    if (other.incarnation == worker.incarnation) spawn.local_rank = spawn.local_size;
    ++spawn.local_size;
  }
  return spawn;
}

// For the processes to come: a task that is restarted alone keeps its address, as the others know
// it.
void Decider::OnPorts(const std::string& agent, const Ports& ports) {
  auto it = state_.agents.find(agent);
  if (it == state_.agents.end()) return;
  Register& self = it->second.self;
  if (self.task) return;  // its address is in the cluster that the others were told
  if (static_cast<int>(ports.ports.size()) < self.slots) {
    return Log(absl::StrCat("agent ", agent, " tells ", ports.ports.size(), " ports for its ",
                            self.slots, " slots; the former ones stay"),
               true);
  }
  self.ports = ports.ports;
}

}  // namespace everstep
