// membership: Decide: each event to its rule, and what all rules use.
#include "everstep/membership/decide.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

// The control plane gives up a stream that is silent for this long; agents of gangs say something
// every second, so the stream of one that died ends sooner.
constexpr Duration kSilent = std::chrono::milliseconds(1750);
constexpr size_t kMissed = 10;

std::string Processes(int number) {
  return absl::StrCat(number, number == 1 ? " process" : " processes");
}

std::string NotExited(int processes) {
  return absl::StrCat(Processes(processes), processes == 1 ? " has" : " have", " not exited yet");
}

}  // namespace

const char* NameOf(WorkerState state) {
  constexpr const char* kNames[] = {"ordered",  "greeted",  "linking", "synced",
                                    "training", "closing",  "closed",  "leaving",
                                    "running",  "stopping", "gone"};
  static_assert(sizeof kNames / sizeof kNames[0] == static_cast<size_t>(WorkerState::kCount));
  return kNames[static_cast<size_t>(state)];
}

absl::Status CheckJob(const JobOptions& options) {
  if (options.workers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job needs at least one worker, not ", options.workers));
  }
  if (options.chiefs < 0 || options.chiefs > 1 || options.evaluators < 0 ||
      options.evaluators > 1 || options.parameter_servers < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job has at most one chief and one evaluator, not ", options.chiefs, " and ",
                     options.evaluators));
  }
  if (options.parameter_servers > 0 && options.chiefs == 0) {
    return absl::InvalidArgumentError(
        "parameter servers need a chief that coordinates them; give --chief 1");
  }
  if (options.replicas < options.Tasks() && !options.SaidToBeGang()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.replicas, " replicas are too few for ", options.Tasks(),
        " workers: each worker runs at least one, and the extra workers would be spares, which are "
        "not there yet; give --replicas ",
        options.Tasks(), " or more, or fewer workers"));
  }
  return absl::OkStatus();
}

JobState MakeJob(JobOptions options) {
  JobState state;
  // Lives of different terms never meet; those of the first are numbered for people to read.
  state.next_incarnation = (static_cast<Incarnation>(options.term - 1) << 32) + 1;
  state.options = std::move(options);
  state.next_incident = state.options.first_incident;
  state.restarts.term = state.options.term;
  state.restarts.max_restarts = state.options.max_restarts;
  state.restarts.gang = state.options.SaidToBeGang();
  // Who starts a program by hand with a cluster has one that knows Everstep.
  state.restarts.native = !state.options.cluster.empty() && !state.restarts.gang;
  state.evaluator_restarts = state.restarts;
  state.evaluator_restarts.gang = true;
  state.line = "waiting for agents";
  return state;
}

Decision Decide(TimePoint now, JobState& state, const Event& event) {
  Decider decider(now, state);
  if (state.phase == JobPhase::kEnded) return decider.Finish();
  decider.Begin();
  std::visit([&](const auto& e) { decider.On(e); }, event);
  return decider.Finish();
}

void Decider::Begin() {
  if (!state_.begun) {
    state_.begun = true;
    state_.started = state_.last_event = state_.last_notice = now_;
    Write(RecordOf(record_kind::kRunStarted));
  }
  // A coordinator that was itself not running must not take its own absence for others' silence:
  // what they said in the meantime is still waiting to be heard.
  const Duration gap = now_ - state_.last_event;
  state_.last_event = now_;
  if (gap <= state_.options.lost_after / 2) return;
  for (auto& [name, agent] : state_.agents) agent.away_since += gap;
  for (WorkerEntry& worker : state_.workers) {
    worker.away_since += gap;
    worker.last_beat += gap;
    worker.complained_at += gap;
    if (worker.trouble) worker.trouble->since += gap;
    worker.vitals_at.reset();
  }
  if (state_.gang.hang) state_.gang.hang->since += gap;
  if (state_.trouble_since) *state_.trouble_since += gap;
}

void Decider::On(const AgentSaid& said) {
  if (auto it = state_.agents.find(said.agent); it != state_.agents.end()) it->second.heard = now_;
  if (const auto* self = std::get_if<Register>(&said.message)) return OnRegister(*self);
  if (const auto* exited = std::get_if<Exited>(&said.message)) {
    if (auto it = state_.agents.find(said.agent); it != state_.agents.end()) {
      it->second.abandoned.erase(exited->incarnation);
    }
    return OnExited(*exited);
  }
  if (const auto* stop = std::get_if<StopRequest>(&said.message)) StopRequested(stop->reason);
  if (const auto* vitals = std::get_if<Vitals>(&said.message)) OnVitals(*vitals);
  if (const auto* seen = std::get_if<CheckpointSeen>(&said.message)) OnCheckpointSeen(*seen);
  if (const auto* stacks = std::get_if<Stacks>(&said.message)) OnStacks(*stacks);
  if (const auto* ports = std::get_if<Ports>(&said.message)) OnPorts(said.agent, *ports);
  if (const auto* note = std::get_if<Note>(&said.message)) OnAgentNote(said.agent, *note);
}

void Decider::On(const AgentStreamLost& lost) {
  state_.doubts.erase(lost.agent);
  auto it = state_.agents.find(lost.agent);
  if (it == state_.agents.end()) return;
  const bool used = std::any_of(state_.workers.begin(), state_.workers.end(),
                                [&](const auto& worker) { return worker.agent == lost.agent; });
  if (state_.phase == JobPhase::kGathering && !used) {
    Log(absl::StrCat("agent ", lost.agent, " has gone before the job began"));
    if (it->second.self.task) SeeGone(it->second);
    // It may have processes of an earlier start that must not be forgotten.
    it->second.lost = it->second.away = true;
    if (it->second.abandoned.empty()) state_.agents.erase(it);
    return;
  }
  it->second.away = true;
  it->second.away_since = now_;
  it->second.silent = state_.phase == JobPhase::kRunning && now_ - it->second.heard >= kSilent;
  Log(absl::StrCat("agent ", lost.agent, " is out of reach"), true);
}

void Decider::On(const WorkerSaid& said) {
  WorkerEntry* worker = Find(said.incarnation);
  const bool greets = std::holds_alternative<Hello>(said.message);
  if (worker != nullptr && worker->exited && !greets) return OnLastWords(*worker, said.message);
  if (worker == nullptr || worker->exited) {
    // A former life, or one that was given up: it must not go on by itself.
    Tell({said.incarnation}, Stop{70, state_.options.grace, "this process is not in the job"});
    return;
  }
  if (const auto* hello = std::get_if<Hello>(&said.message)) return OnHello(*worker, *hello);
  if (!worker->hello) return;  // nothing counts before hello
  if (const auto* beat = std::get_if<Beat>(&said.message)) return OnBeat(*worker, *beat);
  if (const auto* lost = std::get_if<LinkLost>(&said.message)) return OnLinkLost(*worker, *lost);
  if (const auto* synced = std::get_if<Synced>(&said.message)) return OnSynced(*worker, *synced);
  if (const auto* leaving = std::get_if<Leaving>(&said.message)) {
    return OnLeaving(*worker, *leaving);
  }
  if (const auto* committed = std::get_if<CheckpointCommitted>(&said.message)) {
    return OnCheckpoint(*worker, *committed);
  }
  if (const auto* note = std::get_if<Note>(&said.message)) return OnNote(*worker, *note);
  const Closed& closed = std::get<Closed>(said.message);
  worker->closed = closed;
  if (closed.view == state_.view.id && worker->state == WorkerState::kClosing) {
    SetState(*worker, WorkerState::kClosed);
  }
}

void Decider::On(const WorkerStreamLost& lost) {
  WorkerEntry* worker = Find(lost.incarnation);
  if (worker == nullptr || worker->exited || worker->away) return;
  worker->away = true;
  worker->away_since = now_;
  // Its agent will say why within moments; until then this is a sign only.
  if (!IsStopping()) TroubleOf(*worker);
}

void Decider::On(const StopAsked& asked) { StopRequested(asked.reason); }

void Decider::On(const Journaled& journaled) {
  state_.records_durable = std::max(state_.records_durable, journaled.durable);
  if (IsRestarting()) StartAgainIfReady();
}

void Decider::On(const Superseded&) {
  if (!IsEnding()) BeginEnding(kExitNotNow, "another run has taken over this job");
}

void Decider::On(const Tick&) {
  SettleDoubts();
  if (state_.phase == JobPhase::kGathering) WaitForAgents();
  if (!IsStopping()) WaitForWorkers();
  GiveUpLost();
  if (!IsStopping()) HeedToldToLeave();
  if (!IsStopping()) Diagnose();
  if (!IsStopping()) LookForForeverWaiting();
  if (!IsStopping()) TellOfSilence();
  if (!IsStopping()) RecogniseGang();
  if (!IsStopping() && IsGang()) WatchGang();
  if (IsEnding()) WatchEnding();
  if (IsRestarting()) WatchRestart();
  SendProgress();
}

Decision Decider::Finish() {
  state_.line = Line();
  decision_.reason = state_.line;
  return std::move(decision_);
}

// ---- what all use ----

WorkerEntry* Decider::Find(Incarnation incarnation) {
  auto it = state_.index_of.find(incarnation);
  return it == state_.index_of.end() ? nullptr : &state_.workers[it->second];
}

void Decider::SetState(WorkerEntry& worker, WorkerState state) {
  --state_.count[static_cast<size_t>(worker.state)];
  ++state_.count[static_cast<size_t>(state)];
  worker.state = state;
}

void Decider::EnterPhase(JobPhase phase) {
  state_.phase = phase;
  state_.started = now_;
}

std::string Decider::NameFor(const WorkerEntry& worker) const {
  std::string name = worker.task.ToString();
  auto it = state_.agents.find(worker.agent);
  if (it == state_.agents.end()) return name;
  const Register& self = it->second.self;
  const std::string host = HostForPeople(self.host);
  bool several = false, namesake = false;
  for (const auto& [agent, entry] : state_.agents) {
    if (entry.self.host == self.host) continue;
    several = true;
    namesake = namesake || HostForPeople(entry.self.host) == host;
  }
  return several ? absl::StrCat(name, " on ", namesake ? self.address : host) : name;
}

std::vector<std::string> Decider::ReachableAgents() const {
  std::vector<std::string> names;
  for (const auto& [name, agent] : state_.agents) {
    if (!agent.away) names.push_back(name);
  }
  return names;
}

void Decider::Tell(std::vector<Incarnation> to, WorkerOrder order) {
  if (!to.empty()) decision_.actions.push_back(TellWorkers{std::move(to), std::move(order)});
}

void Decider::TellAgent(const std::string& agent, AgentOrder order) {
  decision_.actions.push_back(TellAgents{{agent}, std::move(order)});
}

void Decider::TellAllAgents(AgentOrder order) {
  std::vector<std::string> all = ReachableAgents();
  if (!all.empty()) decision_.actions.push_back(TellAgents{std::move(all), std::move(order)});
}

void Decider::Say(std::string text, bool warning) {
  for (auto& [name, agent] : state_.agents) {
    if (!agent.away) continue;
    agent.missed.push_back(text);
    if (agent.missed.size() > kMissed) agent.missed.erase(agent.missed.begin());
  }
  TellAllAgents(Notice{text});
  Log(std::move(text), warning);
}

void Decider::Log(std::string text, bool warning) {
  decision_.actions.push_back(LogLine{warning, std::move(text)});
}

std::string Decider::Line() const {
  const int workers = static_cast<int>(state_.workers.size());
  switch (state_.phase) {
    case JobPhase::kGathering:
      return WaitingLine();
    case JobPhase::kStarting:
      return absl::StrCat("starting: ", Count(WorkerState::kGreeted), " of ", workers,
                          " workers have said hello");
    case JobPhase::kPreparing:
      return absl::StrCat("linking view ", state_.view.id.ToString(), ": ",
                          Count(WorkerState::kSynced), " of ", workers, " workers are ready");
    case JobPhase::kTraining:
      if (state_.trouble_since) return "finding out what failed";
      return absl::StrCat("training in view ", state_.view.id.ToString(), " with ", workers,
                          workers == 1 ? " worker" : " workers");
    case JobPhase::kRunning:
      if (state_.gang.hang) return "finding out what hangs";
      if (state_.trouble_since) return "finding out what failed";
      return absl::StrCat("running: ", Processes(Remaining()));
    case JobPhase::kRestarting:
      if (Remaining() == 0) {
        return absl::StrCat("restarting: begins ", SecondsText(state_.restarting->back_off),
                            " after the failure, once that is on record");
      }
      return absl::StrCat("restarting: ", NotExited(Remaining()));
    case JobPhase::kEnding:
      return absl::StrCat("ending: ", NotExited(Remaining()));
    case JobPhase::kEnded:
      break;
  }
  return "ended";
}

std::string HostForPeople(const std::string& host) { return host.substr(0, host.find('/')); }

std::string SecondsText(Duration d) { return absl::StrFormat("%.1f s", ToSeconds(d)); }

std::vector<std::string> LastLines(const std::string& tail) {
  constexpr size_t kLines = 20;
  const absl::string_view text = absl::StripTrailingAsciiWhitespace(tail);
  if (text.empty()) return {};
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  return lines;
}

std::string MoreSlots(int missing) {
  return absl::StrCat(missing, missing == 1 ? " more slot" : " more slots");
}

std::string NamesOf(const std::vector<std::string>& all, size_t shown) {
  if (all.size() <= shown) return absl::StrJoin(all, ", ");
  return absl::StrCat(absl::StrJoin(all.begin(), all.begin() + shown, ", "), " and ",
                      all.size() - shown, " more");
}

}  // namespace everstep
