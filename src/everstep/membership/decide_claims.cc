// membership: Decide, claims. A process that somebody started by hand as a task registers as an
// agent with one slot that is for that task only. A task that is claimed goes to its claimer and to
// nobody else; who claims what cannot be is refused by name, and the others are not disturbed.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

// "process 4711 on host a (10.0.0.1:29711)"
std::string WhoIs(const Register& self) {
  return absl::StrCat(
      self.pid > 0 ? absl::StrCat("process ", self.pid) : absl::StrCat("agent ", self.agent),
      " on host ", HostForPeople(self.host), " (", HostPort(self.address, self.ports[0]), ")");
}

// The addresses of one type of task in WriteCluster's text, which has one form only.
std::vector<std::string> AddressesIn(const std::string& cluster, const std::string& type) {
  std::vector<std::string> addresses;
  const std::string key = absl::StrCat("\"", type, "\":[");
  size_t at = cluster.find(key);
  if (at == std::string::npos) return addresses;
  at += key.size();
  while (at < cluster.size() && cluster[at] == '"') {
    const size_t end = cluster.find('"', at + 1);
    if (end == std::string::npos) break;
    addresses.push_back(cluster.substr(at + 1, end - at - 1));
    at = end + 1;
    if (at < cluster.size() && cluster[at] == ',') ++at;
  }
  return addresses;
}

std::string ExpectedAt(const std::string& cluster, const Task& task) {
  const std::vector<std::string> all = AddressesIn(cluster, task.type);
  return task.index < static_cast<int>(all.size()) ? all[task.index] : "";
}

// What two texts say where they begin to differ.
std::pair<std::string, std::string> ShortenedAtDifference(const std::string& a,
                                                          const std::string& b) {
  constexpr size_t kBefore = 24, kShown = 100;
  const size_t same = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  const size_t from = same <= kShown / 2 ? 0 : same - kBefore;
  auto part = [from](const std::string& text) {
    return absl::StrCat(from > 0 ? "..." : "", text.substr(std::min(from, text.size()), kShown),
                        text.size() > from + kShown ? "..." : "");
  };
  return {part(a), part(b)};
}

std::string DoubleText(const Task& task, const DoubleClaim& claim) {
  const std::string times =
      claim.starts == 2 ? std::string("twice") : absl::StrCat(claim.starts, " times");
  const std::string where =
      claim.hosts.size() == 1
          ? absl::StrCat(claim.starts == 2 ? "both on host " : "all on host ", claim.hosts[0])
          : absl::StrCat("on host ", absl::StrJoin(claim.hosts, " and on host "));
  return absl::StrCat(task.ToString(), " was started ", times, ", ", where,
                      claim.starts == 2 ? "; the second was refused" : "; the later were refused");
}

}  // namespace

// ---- who may have a task ----

const AgentEntry* Decider::HolderOf(const Task& task) const {
  for (const auto& [name, agent] : state_.agents) {
    if (!agent.lost && agent.self.task == task) return &agent;
  }
  for (const WorkerEntry& worker : state_.workers) {
    const auto agent = state_.agents.find(worker.agent);
    if (worker.task == task && agent != state_.agents.end() && !agent->second.lost) {
      return &agent->second;
    }
  }
  return nullptr;
}

// All that are there were told the same.
std::string Decider::ClusterText() const {
  if (!state_.options.cluster.empty()) return state_.options.cluster;
  for (const auto& [name, agent] : state_.agents) {
    if (!agent.lost && !agent.self.cluster.empty()) return agent.self.cluster;
  }
  return "";
}

std::string Decider::WhyNotThatTask(const Task& task) const {
  const JobOptions& options = state_.options;
  const std::map<std::string, int> numbers = {{"chief", options.chiefs},
                                              {"worker", options.workers},
                                              {"ps", options.parameter_servers},
                                              {"evaluator", options.evaluators}};
  const std::string name = task.ToString();
  const auto found = numbers.find(task.type);
  if (found == numbers.end()) {
    return absl::StrCat(name, ": there is no such type of task; there are chief, worker, ps and ",
                        "evaluator");
  }
  const int number = found->second;
  if (task.index >= 0 && task.index < number) return "";
  constexpr char kCure[] = "; correct its index, or which coordinator it goes to";
  if (number == 0) return absl::StrCat(name, ": this job has no ", task.type, kCure);
  if (number == 1) {
    return absl::StrCat(name, ": this job has one ", task.type, ", ", task.type, ":0", kCure);
  }
  return absl::StrCat(name, ": this job has ", number, " ",
                      task.type == "worker" ? "workers" : task.type, ", ", task.type, ":0 to ",
                      task.type, ":", number - 1, kCure);
}

std::string Decider::WhyNotThatCluster(const Register& self) const {
  if (self.cluster.empty()) return "";
  const std::string who = self.task ? self.task->ToString() : absl::StrCat("agent ", self.agent);
  if (const std::string ours = ClusterText(); !ours.empty()) {
    if (ours == self.cluster) return "";
    const auto [its, wanted] = ShortenedAtDifference(self.cluster, ours);
    return absl::StrCat(who, " was told another cluster than this job has: ", its, ", not ", wanted,
                        "; start all processes of a job with the same one, or is its coordinator ",
                        "another?");
  }
  for (const auto& [type, wanted] : {std::make_pair("chief", state_.options.chiefs),
                                     std::make_pair("worker", state_.options.workers)}) {
    const int number = static_cast<int>(AddressesIn(self.cluster, type).size());
    if (number == wanted) continue;
    return absl::StrCat(who, " was told a cluster with ", number, " of type ", type,
                        ", and this job has ", wanted,
                        "; start the job with as many, or is its coordinator another?");
  }
  return "";
}

// Something was heard of it since, or its stream has outlasted what a dead host's would.
bool Decider::LivedAfter(const AgentEntry& holder, TimePoint since) const {
  constexpr Duration kOnItsWay = std::chrono::milliseconds(500);
  if (now_ - since >= state_.options.claim_patience || holder.heard > since + kOnItsWay)
    return true;
  return std::any_of(state_.workers.begin(), state_.workers.end(), [&](const WorkerEntry& worker) {
    return worker.agent == holder.self.agent && worker.last_beat > since + kOnItsWay;
  });
}

void Decider::SettleDoubts() {
  const std::map<std::string, Doubt> doubts = state_.doubts;
  for (const auto& [agent, doubt] : doubts) OnRegister(doubt.self);
}

// False: it is refused, and has been told; or it is in doubt.
bool Decider::AdmitClaim(const Register& self) {
  std::string why;
  if (self.task) {
    if (self.slots != 1) {
      why = absl::StrCat("agent ", self.agent, " claims ", self.task->ToString(), " with ",
                         self.slots, " slots; who was started as a task has one slot, for it");
    } else {
      why = WhyNotThatTask(*self.task);
    }
  }
  if (why.empty()) why = WhyNotThatCluster(self);
  const AgentEntry* holder = self.task ? HolderOf(*self.task) : nullptr;
  if (why.empty() && holder != nullptr && !holder->away) {
    const auto [doubt, first] = state_.doubts.try_emplace(self.agent, Doubt{self, now_});
    if (!LivedAfter(*holder, doubt->second.since)) {
      if (first) {
        TellAgent(self.agent,
                  Notice{absl::StrCat(self.task->ToString(), " is taken: ", WhoIs(holder->self),
                                      " has it; a few seconds to see whether it lives")});
      }
      return false;
    }
    NoteDouble(holder->self, self);
    why = absl::StrCat(self.task->ToString(), " is taken: ", WhoIs(holder->self),
                       " has it; two processes were started with the same task: give each its own "
                       "index");
  }
  state_.doubts.erase(self.agent);
  if (!why.empty()) {
    Refuse(self, std::move(why));
    return false;
  }
  if (holder != nullptr) TakeOver(holder->self.agent, self);
  SeeBack(self);
  return true;
}

// The others read it on their terminals, though not all of it when somebody tries again and again.
void Decider::Refuse(const Register& self, std::string why) {
  const std::string line = absl::StrCat("refused ", WhoIs(self), ": ", why);
  const bool told =
      state_.refusal_told && now_ - *state_.refusal_told < state_.options.notice_interval;
  if (told) {
    Log(line, true);
  } else {
    state_.refusal_told = now_;
    Say(line, true);
  }
  TellAgent(self.agent, JobEnded{kExitConfiguration, std::move(why)});
}

void Decider::NoteDouble(const Register& first, const Register& second) {
  DoubleClaim& claim = state_.double_claims[*second.task];
  ++claim.starts;
  for (const std::string& host : {HostForPeople(first.host), HostForPeople(second.host)}) {
    if (std::find(claim.hosts.begin(), claim.hosts.end(), host) == claim.hosts.end()) {
      claim.hosts.push_back(host);
    }
  }
}

// Its holder is out of reach: somebody has started the task anew because of that.
void Decider::TakeOver(const std::string& holder, const Register& self) {
  AgentEntry& old = state_.agents.at(holder);
  Say(absl::StrCat(self.task->ToString(), " is ", WhoIs(self), " from now on; ", WhoIs(old.self),
                   " is out of reach and given up"),
      true);
  GiveUp(old);
}

// It comes back, but its task is somebody else's now.
bool Decider::DismissIfReplaced(const AgentEntry& agent) {
  if (!agent.self.task) return false;
  const AgentEntry* holder = HolderOf(*agent.self.task);
  if (holder == nullptr) return false;
  const std::string& name = agent.self.agent;
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.agent == name) TellAgent(name, Kill{worker.incarnation, Duration(0)});
  }
  Log(absl::StrCat(WhoIs(agent.self), " is back, but ", WhoIs(holder->self), " has its task"));
  TellAgent(name, JobEnded{kExitNotNow,
                           absl::StrCat(agent.self.task->ToString(), " is ", WhoIs(holder->self),
                                        " now: it was started anew while this process was out of "
                                        "reach")});
  return true;
}

void Decider::TellLateClaimer(const Register& self) {
  if (IsEnding()) return TellAgent(self.agent, Notice{"the job is ending"});
  TellAgent(self.agent,
            Notice{absl::StrCat(self.task->ToString(), " begins when the job has restarted")});
}

// ---- who is missing ----

void Decider::SeeGone(const AgentEntry& agent) {
  const Register& self = agent.self;
  const std::string host = HostForPeople(self.host);
  const TimePoint at = agent.away ? agent.away_since : now_;
  if (self.task) {
    state_.seen[*self.task] = {host, HostPort(self.address, self.ports[0]), at, true};
  }
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.agent != self.agent || worker.over) continue;
    state_.seen[worker.task] = {host, worker.address, at, self.task.has_value()};
  }
}

// Its task is here again; of hosts that offer slots, none is gone.
void Decider::SeeBack(const Register& self) {
  for (auto it = state_.seen.begin(); it != state_.seen.end();) {
    const bool back = self.task
                          ? it->first == *self.task
                          : !it->second.claimed && it->second.host == HostForPeople(self.host);
    it = back ? state_.seen.erase(it) : std::next(it);
  }
}

bool Decider::ByClaims() const {
  if (!state_.options.cluster.empty()) return true;
  for (const auto& [name, agent] : state_.agents) {
    if (!agent.lost && agent.self.task) return true;
  }
  return std::any_of(state_.seen.begin(), state_.seen.end(),
                     [](const auto& entry) { return entry.second.claimed; });
}

std::string Decider::SeenText(const LastSeen& seen) const {
  return absl::StrCat("last seen on host ", seen.host, ", ", seen.address, ", ",
                      AgeText(now_ - seen.at), " ago");
}

// "worker:2 (expected at 10.0.0.2:29712; not seen yet)"
std::string Decider::MissingText(const Task& task) const {
  const std::string name = task.ToString();
  if (const auto seen = state_.seen.find(task); seen != state_.seen.end()) {
    return absl::StrCat(name, " (", SeenText(seen->second), ")");
  }
  std::string text = absl::StrCat(name, " (");
  if (const std::string address = ExpectedAt(ClusterText(), task); !address.empty()) {
    absl::StrAppend(&text, "expected at ", address, "; ");
  }
  const auto former = state_.options.last_seen.find(name);
  if (former == state_.options.last_seen.end()) return text + "not seen yet)";
  return absl::StrCat(text, "not seen in this run; before ", former->second, ")");
}

// Of a job of slots: where those were that are lost, or were in the former run when nothing is
// known of this one. Begins with "; " unless it is empty.
std::string Decider::WhereTheyWere() const {
  std::vector<std::string> parts;
  for (const auto& [task, seen] : state_.seen) {
    parts.push_back(absl::StrCat(task.ToString(), " was ", SeenText(seen)));
  }
  if (!parts.empty()) return "; " + NamesOf(parts);
  for (const auto& [name, text] : state_.options.last_seen) {
    parts.push_back(absl::StrCat(name, " ", text));
  }
  return parts.empty() ? "" : "; in the former run: " + NamesOf(parts);
}

std::string Decider::MissingList(const std::vector<Task>& missing, size_t shown) const {
  std::vector<std::string> texts;
  for (const Task& task : missing) texts.push_back(MissingText(task));
  std::string list = NamesOf(texts, shown);
  for (const auto& [task, claim] : state_.double_claims) {
    absl::StrAppend(&list, "; ", DoubleText(task, claim));
  }
  return list;
}

}  // namespace everstep
