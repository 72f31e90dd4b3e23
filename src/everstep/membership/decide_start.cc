// membership: Decide, from the first agent to the commit of a view.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/tree.h"
#include "everstep/membership/decider.h"
#include "everstep/membership/state_origin.h"

namespace everstep {
namespace {

constexpr size_t kShortList = 5, kLongList = 64;  // tasks that are named

std::string StateText(Step step, uint64_t digest) {
  return absl::StrFormat("step %d with digest %016x", step, digest);
}

}  // namespace

// ---- agents ----

std::string Decider::WhyRefused(const Register& self) const {
  const std::string& version = state_.options.version;
  if (!version.empty() && self.version != version) {
    return absl::StrCat("agent ", self.agent, " runs version ", self.version, " and the job ",
                        version, "; install the same version on all hosts");
  }
  if (self.agent.empty()) return "an agent must have a name";
  if (self.slots < 1 || static_cast<int>(self.ports.size()) < self.slots) {
    return absl::StrCat("agent ", self.agent, " offers ", self.slots, " slots and ",
                        self.ports.size(), " ports; it needs a slot and a port for each");
  }
  if (self.address.empty()) {
    return absl::StrCat("agent ", self.agent, " does not say where its host is reached");
  }
  return "";
}

void Decider::OnRegister(const Register& self) {
  if (auto it = state_.agents.find(self.agent); it != state_.agents.end()) {
    AgentEntry& agent = it->second;
    const bool was_lost = agent.lost;
    for (Incarnation i : agent.abandoned) TellAgent(self.agent, Kill{i, Duration(0)});
    if (was_lost && DismissIfReplaced(agent)) return;
    agent.away = agent.lost = false;
    SeeBack(agent.self);
    if (state_.phase == JobPhase::kGathering && self.task == agent.self.task) agent.self = self;
    for (std::string& text : std::exchange(agent.missed, {})) {
      TellAgent(self.agent, Notice{std::move(text)});
    }
    RepeatOrders(agent, was_lost);
    if (state_.phase == JobPhase::kGathering && was_lost) StartIfEnough();
    return;
  }
  if (std::string why = WhyRefused(self); !why.empty()) {
    Log(why, true);
    TellAgent(self.agent, JobEnded{kExitConfiguration, std::move(why)});
    return;
  }
  if (!AdmitClaim(self)) return;
  AgentEntry entry;
  entry.self = self;
  entry.heard = now_;
  state_.agents[self.agent] = std::move(entry);
  Log(absl::StrCat("agent ", self.agent, " of host ", HostForPeople(self.host),
                   self.task ? absl::StrCat(" is ", self.task->ToString())
                             : absl::StrCat(" offers ", self.slots, " slots")));
  if (!self.task && !state_.options.cluster.empty()) {
    TellAgent(self.agent, Notice{"each task of this job is for the process that was started as it, "
                                 "with its TF_CONFIG; this agent says none and stays idle"});
  }
  if (state_.phase == JobPhase::kGathering) return StartIfEnough();
  if (self.task) return TellLateClaimer(self);
  TellAgent(self.agent, Notice{absl::StrCat("the job has its ", state_.options.Tasks(),
                                            IsGang() ? " tasks" : " workers",
                                            " already; this agent stays idle")});
}

// Orders that went into a stream that broke may not have arrived; agents pass over those they know.
void Decider::RepeatOrders(const AgentEntry& agent, bool was_lost) {
  Log(absl::StrCat("agent ", agent.self.agent, " is back"));
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.agent != agent.self.agent) continue;
    if (was_lost) {  // its workers are given up; if they live after all they must not go on
      TellAgent(worker.agent, Kill{worker.incarnation, Duration(0)});
      continue;
    }
    if (worker.exited) continue;
    const bool unheard = worker.state == WorkerState::kRunning && !worker.vitals;
    if (worker.state == WorkerState::kOrdered || unheard) TellAgent(worker.agent, SpawnOf(worker));
    if (worker.killed) TellAgent(worker.agent, Kill{worker.incarnation, state_.options.grace});
    // Not on account of its agent's death, then.
    const bool told = worker.leaving && worker.leaving->reason == LeaveReason::kToldToLeave;
    if (told && !IsStopping()) {
      return EndAsTold(absl::StrCat(NameFor(worker), " was told to leave"), &worker);
    }
  }
}

int Decider::Needed() const {
  int needed = state_.options.Tasks();
  for (const WorkerEntry& worker : state_.workers) needed -= worker.over ? 1 : 0;
  return needed;
}

void Decider::StartIfEnough() {
  const std::vector<Task> missing = PlaceTasks().missing;
  if (missing.empty()) return OrderWorkers();
  state_.last_notice = now_;
  Say(ByClaims() ? absl::StrCat("waiting for ", missing.size(), " of ", Needed(),
                                " tasks: ", MissingList(missing, kShortList))
                 : absl::StrCat("waiting for ", MoreSlots(static_cast<int>(missing.size()))));
}

void Decider::WaitForAgents() {
  const std::vector<Task> missing = PlaceTasks().missing;
  if (missing.empty()) return OrderWorkers();  // an evaluator has come to its end
  std::vector<std::string> have;
  for (const auto& [name, agent] : state_.agents) {
    if (agent.lost) continue;
    have.push_back(
        absl::StrCat(name, " on ", HostForPeople(agent.self.host), " with ", agent.self.slots));
  }
  const std::string here = have.empty() ? "no agent is here" : "here are " + NamesOf(have);
  if (now_ - state_.started >= state_.options.agents_deadline) return EndForMissing(missing, here);
  if (now_ - state_.last_notice < state_.options.notice_interval) return;
  if (ByClaims()) return StartIfEnough();
  state_.last_notice = now_;
  Say(absl::StrCat("waiting for ", MoreSlots(static_cast<int>(missing.size())), "; ", here,
                   WhereTheyWere()));
}

void Decider::EndForMissing(const std::vector<Task>& missing, const std::string& here) {
  const std::string waited = SecondsText(state_.options.agents_deadline);
  if (ByClaims()) {
    return BeginEnding(
        kExitNotNow,
        absl::StrCat(missing.size(), " of ", Needed(), " tasks are missing after ", waited, ": ",
                     MissingList(missing, kLongList),
                     "; start them, see whether their hosts reach the coordinator, or wait longer "
                     "by --join-deadline (EVERSTEP_JOIN_DEADLINE)"));
  }
  BeginEnding(kExitNotNow,
              absl::StrCat(missing.size(), " of ", Needed(), " slots are missing after ", waited,
                           "; ", here, WhereTheyWere(), "; start more agents, or ask for fewer ",
                           IsGang() ? "tasks" : "workers"));
}

// Without ages, which change all the time: it is logged whenever it changes.
std::string Decider::WaitingLine() const {
  const std::vector<Task> missing = PlaceTasks().missing;
  if (!ByClaims()) {
    return absl::StrCat("waiting for ", MoreSlots(static_cast<int>(missing.size())));
  }
  std::vector<std::string> names;
  for (const Task& task : missing) names.push_back(task.ToString());
  return absl::StrCat("waiting for ", missing.size(), " of ", Needed(), " tasks: ", NamesOf(names));
}

// ---- workers ----

void Decider::OnHello(WorkerEntry& worker, const Hello& hello) {
  const bool first = !worker.hello;
  if (worker.away) Forget(worker);
  worker.away = false;
  worker.last_beat = now_;
  worker.silence_told = false;
  worker.hello = hello;
  Tell({worker.incarnation}, Welcome{state_.options.term});
  if (IsStopping()) return TellToStop({&worker});
  if (IsGang() && state_.options.SaidToBeGang()) {
    return BeginEnding(kExitConfiguration,
                       absl::StrCat(NameFor(worker),
                                    " has said hello: this program is a native one; leave --gang "
                                    "and the roles out"));
  }
  if (IsGang()) BecomeNative();
  state_.restarts.native = true;
  if (!(hello.task == worker.task)) {
    return Prove(worker, kExitOurFault, absl::StrCat("says that it is ", hello.task.ToString()));
  }
  if (!first) return CatchUp(worker);
  Greet(worker);
}

void Decider::Greet(WorkerEntry& worker) {
  SetState(worker, WorkerState::kGreeted);
  if (!CheckSettings(worker)) return;
  if (state_.first_greeted < 0) {
    state_.first_greeted = state_.index_of.at(worker.incarnation);
    state_.first_hello = now_;
    for (WorkerEntry& other : state_.workers) {
      if (other.exited && !other.trouble) {
        Prove(other, kExitOurFault, "exited with code 0 before it joined the others");
      }
    }
  } else if (!CheckFingerprint(worker)) {
    return;
  }
  if (AllAre(WorkerState::kGreeted)) PrepareView();
}

// What it may have missed while its stream was lost. It passes over what it knows.
void Decider::CatchUp(WorkerEntry& worker) {
  if (worker.state == WorkerState::kLinking || worker.state == WorkerState::kSynced ||
      worker.state == WorkerState::kTraining) {
    Tell({worker.incarnation}, Prepare{state_.view, state_.origin});
  }
  if (worker.state == WorkerState::kTraining) Tell({worker.incarnation}, Commit{state_.view.id});
  if (worker.state == WorkerState::kClosing) {
    Tell({worker.incarnation}, Close{state_.view.id, "its members could not go on"});
  }
}

// A program may change its environment; all workers alike, so that they would agree with each
// other.
bool Decider::CheckSettings(const WorkerEntry& worker) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"replicas", "EVERSTEP_REPLICAS"},
      {"seed", "EVERSTEP_SEED"},
      {"threads per replica", "EVERSTEP_THREADS_PER_REPLICA"}};
  for (const auto& [name, variable] : kNames) {
    const auto said = worker.hello->fingerprint.find(name);
    const auto set = state_.options.settings.find(variable);
    if (said == worker.hello->fingerprint.end() || set == state_.options.settings.end()) continue;
    if (said->second == set->second) continue;
    BeginEnding(
        kExitConfiguration,
        absl::StrCat(NameFor(worker), " runs with ", name, " ", said->second, " but the job has ",
                     set->second, "; the program must leave ", variable, " as it finds it"));
    return false;
  }
  return true;
}

bool Decider::CheckFingerprint(const WorkerEntry& worker) {
  const WorkerEntry& first = state_.workers[state_.first_greeted];
  const Fingerprint& mine = worker.hello->fingerprint;
  const Fingerprint& its = first.hello->fingerprint;
  std::set<std::string> names;
  for (const auto& [name, value] : mine) names.insert(name);
  for (const auto& [name, value] : its) names.insert(name);
  auto value_of = [](const Fingerprint& fingerprint, const std::string& name) {
    auto it = fingerprint.find(name);
    return it == fingerprint.end() ? std::string("nothing") : absl::StrCat("'", it->second, "'");
  };
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const std::string a = value_of(mine, name), b = value_of(its, name);
    if (a != b) differences.push_back(absl::StrCat("'", name, "' is ", a, ", not ", b));
  }
  if (differences.empty()) return true;
  BeginEnding(kExitConfiguration,
              absl::StrCat(NameFor(worker), " differs from ", NameFor(first), ": ",
                           NamesOf(differences), "; all workers of a job must be the same"));
  return false;
}

void Decider::PrepareView() {
  std::vector<const WorkerEntry*> order;
  for (const WorkerEntry& worker : state_.workers) order.push_back(&worker);
  std::sort(order.begin(), order.end(), [](const WorkerEntry* a, const WorkerEntry* b) {
    // Those of a host in the order of their ranks, the chief first.
    return std::tie(a->hello->host, a) < std::tie(b->hello->host, b);
  });
  std::vector<const Hello*> hellos;
  for (const WorkerEntry* worker : order) hellos.push_back(&*worker->hello);
  const std::optional<StateOrigin> origin = ChooseOrigin(hellos);
  if (!origin) return EndForRestoredStates();
  const std::vector<int> begins =
      AssignReplicas(state_.options.replicas, static_cast<int>(order.size()));
  View view;
  view.id = {state_.options.term, state_.view.id.id + 1};
  view.num_replicas = state_.options.replicas;
  std::vector<Incarnation> all;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const WorkerEntry& worker = *order[rank];
    view.members.push_back({worker.task, worker.incarnation, worker.hello->host,
                            worker.hello->data_address, begins[rank], begins[rank + 1]});
    all.push_back(worker.incarnation);
  }
  for (WorkerEntry& worker : state_.workers) SetState(worker, WorkerState::kLinking);
  state_.view = view;
  state_.origin = *origin;
  state_.view_closed = false;
  EnterPhase(JobPhase::kPreparing);
  Tell(std::move(all), Prepare{std::move(view), *origin});
}

void Decider::EndForRestoredStates() {
  std::map<std::string, std::vector<std::string>> by_state;
  for (const WorkerEntry& worker : state_.workers) {
    by_state[StateText(worker.hello->step, worker.hello->digest)].push_back(NameFor(worker));
  }
  EndForStates(absl::StrCat("the workers restored different states and none has a majority: ",
                            OddOnes(by_state)));
}

void Decider::OnSynced(WorkerEntry& worker, const Synced& synced) {
  if (IsStopping() || synced.view != state_.view.id || worker.state != WorkerState::kLinking)
    return;
  worker.synced = synced;
  SetState(worker, WorkerState::kSynced);
  if (!AllAre(WorkerState::kSynced)) return;

  std::map<std::string, std::vector<std::string>> by_state;
  for (const WorkerEntry& w : state_.workers) {
    by_state[StateText(w.synced->step, w.synced->digest)].push_back(NameFor(w));
  }
  if (by_state.size() > 1) {
    return EndForStates(
        absl::StrCat("the workers do not hold the same state: ", OddOnes(by_state)));
  }
  const std::string wanted = StateText(state_.origin.step, state_.origin.digest);
  if (by_state.begin()->first != wanted) {
    return EndForStates(absl::StrCat("the workers hold another state than the view begins with: ",
                                     by_state.begin()->first, ", not ", wanted));
  }
  CommitView();
}

void Decider::CommitView() {
  std::vector<Incarnation> all;
  for (WorkerEntry& w : state_.workers) {
    SetState(w, WorkerState::kTraining);
    w.last_beat = now_;
    all.push_back(w.incarnation);
  }
  EnterPhase(JobPhase::kTraining);
  BookTraining(state_.restarts, state_.origin.history, state_.origin.step);
  Tell(std::move(all), Commit{state_.view.id});
  Log(absl::StrCat("view ", state_.view.id.ToString(), " of ", state_.workers.size(),
                   " workers begins at step ", state_.origin.step));
  JobRecord record = RecordOf(record_kind::kTraining);
  record.step = state_.origin.step;
  Write(std::move(record));
  SayTrainingAgain();
}

void Decider::WaitForWorkers() {
  // In a job that has been restarted all are known to say hello some time.
  const bool greets = state_.first_greeted >= 0 || state_.restarts.native;
  const TimePoint since = state_.first_greeted >= 0 ? state_.first_hello : state_.started;
  const bool greeting = state_.phase == JobPhase::kStarting && greets && !state_.trouble_since &&
                        now_ - since >= state_.options.hello_deadline;
  const bool linking = state_.phase == JobPhase::kPreparing && !state_.trouble_since &&
                       now_ - state_.started >= state_.options.sync_deadline;
  if (!greeting && !linking) return;
  std::vector<std::string> late;
  const WorkerEntry* first = nullptr;
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.state != WorkerState::kOrdered && worker.state != WorkerState::kLinking) continue;
    if (first == nullptr) first = &worker;
    late.push_back(NameFor(worker));
  }
  const Duration waited = greeting ? state_.options.hello_deadline : state_.options.sync_deadline;
  Fault fault;
  fault.blame = Blame::kAgain;
  fault.code = kExitNotNow;
  fault.who = NamesOf(late);
  fault.what =
      absl::StrCat(greeting ? "did not say hello within " : "did not link to the others within ",
                   SecondsText(waited), "; see the logs of those workers for what they wait for");
  fault.history = state_.origin.history;
  fault.step = StepReached();
  Fail(std::move(fault),
       RecordOf(greeting ? record_kind::kWorkerLost : record_kind::kLinksBroken, first));
}

}  // namespace everstep
