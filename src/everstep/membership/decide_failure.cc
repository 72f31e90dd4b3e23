// membership: Decide, from the first sign of a failure to its cause.
//
// A death shows in many ways and in any order: the dead worker's stream ends, its agent reports its
// exit, its peers report broken links and may give up and exit themselves. So signs are gathered
// for a moment, and whoever has neither complained of others nor exited as one who lost them is
// taken for the cause before those who have.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"
#include "everstep/membership/exit_status.h"

namespace everstep {
namespace {

constexpr int kSigTerm = 128 + 15;

// What an end looks like that follows from another's end.
bool LooksLikeConsequence(const WorkerEntry& worker) {
  return !worker.complaint.empty() || worker.trouble->code == kExitNotNow ||
         worker.trouble->code == kExitToldToLeave;
}

}  // namespace

void Decider::OnLinkLost(WorkerEntry& worker, const LinkLost& lost) {
  if (IsStopping() || lost.view != state_.view.id) return;
  if (worker.complaint.empty()) {
    worker.complaint = lost.why.empty() ? "no reason given" : lost.why;
    worker.complained_at = now_;
  }
  const bool known = lost.peer >= 0 && lost.peer < static_cast<int>(state_.view.members.size());
  if (known) Find(state_.view.members[lost.peer].incarnation)->accused = true;
  if (!state_.trouble_since) state_.trouble_since = now_;
  CloseView(absl::StrCat(NameFor(worker), " says: ", worker.complaint));
  Diagnose();
}

void Decider::OnExited(const Exited& exited) {
  WorkerEntry* worker = Find(exited.incarnation);
  if (worker == nullptr || worker->exited) return;
  worker->exited = true;
  if (IsEnding()) return OnExitAtEnd(*worker, exited);
  if (IsRestarting() && !IsEvaluator(worker->task)) return OnExitAtRestart(*worker);
  if (IsGang()) return OnGangExit(*worker, exited);
  OnExitBeforeEnd(*worker, exited);
  if (!IsStopping()) Diagnose();
}

// Its stream may be slower than its agent: what it said before it ended still tells why.
void Decider::OnLastWords(WorkerEntry& worker, const WorkerMessage& message) {
  if (const auto* committed = std::get_if<CheckpointCommitted>(&message)) {
    return OnCheckpoint(worker, *committed);
  }
  if (const auto* note = std::get_if<Note>(&message)) return OnNote(worker, *note);
  if (IsStopping()) return;
  if (const auto* closed = std::get_if<Closed>(&message)) worker.closed = *closed;
  if (const auto* lost = std::get_if<LinkLost>(&message)) return OnLinkLost(worker, *lost);
  const auto* leaving = std::get_if<Leaving>(&message);
  if (leaving == nullptr || leaving->reason != LeaveReason::kFailed || !worker.trouble) return;
  worker.trouble->proven = false;
  ProveFailed(worker, *leaving);
}

void Decider::ProveFailed(WorkerEntry& worker, const Leaving& leaving) {
  Prove(worker, leaving.exit_code == 0 ? static_cast<int>(kExitOurFault) : leaving.exit_code,
        absl::StrCat("failed: ", leaving.message));
  worker.trouble->exit_code = worker.trouble->code;
}

void Decider::OnExitBeforeEnd(WorkerEntry& worker, const Exited& exited) {
  const ExitMeaning meaning = MeaningOf(exited.wait_status, exited.oom);
  const bool joined = worker.hello.has_value();
  SetState(worker, WorkerState::kGone);
  if (meaning.code == 0 && !state_.restarts.native) {
    if (AllAre(WorkerState::kGone) && !state_.trouble_since) BeginEnding(kExitDone, "");
    return;
  }
  if (meaning.code == 0) {
    Prove(worker, kExitOurFault,
          joined ? "exited with code 0 before the job was done"
                 : "exited with code 0 before it joined the others");
  } else if (meaning.code == kSigTerm && !state_.agents[worker.agent].away &&
             (!state_.trouble_since ||
              (worker.trouble && worker.trouble->since == state_.trouble_since))) {
    return EndAsTold(absl::StrCat(NameFor(worker), " was told to leave: it ", meaning.text),
                     &worker);
  }
  NoteExit(worker, exited);
}

// What its end says of it, unless it has said more itself.
void Decider::NoteExit(WorkerEntry& worker, const Exited& exited, const char* when) {
  const ExitMeaning meaning = MeaningOf(exited.wait_status, exited.oom);
  Prove(worker, meaning.code, absl::StrCat(meaning.text, when));
  Trouble& trouble = *worker.trouble;
  if (!trouble.exit_code) trouble.exit_code = meaning.code;
  if (trouble.code == meaning.code) trouble.signal = meaning.signal;
  trouble.oom = exited.oom;
  trouble.tail = exited.tail;
  trouble.log = exited.log;
}

Trouble& Decider::TroubleOf(WorkerEntry& worker) {
  if (!worker.trouble) {
    worker.trouble = Trouble{};
    worker.trouble->since = now_;
  }
  if (!state_.trouble_since) state_.trouble_since = now_;
  return *worker.trouble;
}

void Decider::Prove(WorkerEntry& worker, int code, std::string what) {
  Trouble& trouble = TroubleOf(worker);
  // What it said of itself is told rather than how its process ended after that.
  if (trouble.proven) return;
  trouble.proven = true;
  trouble.lost = false;
  trouble.code = code;
  trouble.what = std::move(what);
  CloseView(absl::StrCat(NameFor(worker), " ", trouble.what));
}

void Decider::Forget(WorkerEntry& worker) {
  if (!worker.trouble || worker.trouble->proven) return;
  worker.trouble.reset();
  state_.trouble_since.reset();
  auto earliest = [&](TimePoint t) {
    if (!state_.trouble_since || t < *state_.trouble_since) state_.trouble_since = t;
  };
  for (const WorkerEntry& other : state_.workers) {
    if (other.trouble) earliest(other.trouble->since);
    if (!other.complaint.empty()) earliest(other.complained_at);
  }
}

// Whatever runs there is not waited for any more; it is killed if the agent comes back.
void Decider::GiveUp(AgentEntry& agent) {
  const std::string& name = agent.self.agent;
  agent.lost = true;
  SeeGone(agent);
  for (WorkerEntry& worker : state_.workers) {
    if (worker.agent != name || worker.exited) continue;
    worker.exited = worker.given_up = true;  // nobody is left to say more of it
    SetState(worker, WorkerState::kGone);
    if (IsStopping() || (worker.trouble && worker.trouble->proven)) continue;
    Prove(worker, kExitNotNow,
          absl::StrCat("was lost with its host ", HostForPeople(agent.self.host), ": agent ", name,
                       " was silent for ", SecondsText(now_ - agent.away_since)));
    worker.trouble->lost = true;
    if (IsGang()) worker.trouble->since = agent.away_since;
  }
}

void Decider::GiveUpLost() {
  for (auto& [name, agent] : state_.agents) {
    const bool patient = IsGang() && agent.silent;
    const Duration limit =
        patient ? state_.options.silent_agent_lost_after : state_.options.lost_after;
    if (agent.away && !agent.lost && now_ - agent.away_since >= limit) GiveUp(agent);
  }
  if (IsStopping()) return;
  for (WorkerEntry& worker : state_.workers) {
    if (!worker.trouble || worker.trouble->proven || worker.trouble->lost) continue;
    if (now_ - worker.away_since < state_.options.lost_after) continue;
    if (state_.agents[worker.agent].away) continue;  // the whole host may be lost: see above
    Prove(worker, kExitNotNow,
          absl::StrCat("was silent for ", SecondsText(now_ - worker.away_since),
                       " (its process is still there)"));
    worker.trouble->lost = true;
  }
}

void Decider::CloseView(const std::string& reason) {
  if (state_.view.members.empty() || state_.view_closed) return;
  state_.view_closed = true;
  std::vector<Incarnation> members;
  for (const Member& member : state_.view.members) {
    WorkerEntry& worker = *Find(member.incarnation);
    if (worker.state != WorkerState::kLinking && worker.state != WorkerState::kSynced &&
        worker.state != WorkerState::kTraining) {
      continue;
    }
    SetState(worker, WorkerState::kClosing);
    members.push_back(member.incarnation);
  }
  Tell(std::move(members), Close{state_.view.id, reason});
}

// Names the cause once it can be told from the consequences.
void Decider::Diagnose() {
  if (!state_.trouble_since || now_ - *state_.trouble_since < state_.options.settle) return;
  if (IsGang()) return DiagnoseGang();
  const bool awaited = std::any_of(
      state_.workers.begin(), state_.workers.end(),
      [](const WorkerEntry& worker) { return worker.trouble && !worker.trouble->proven; });
  if (awaited) return;  // an exit that is on its way may be the cause; lost_after bounds this
  const WorkerEntry* cause = Cause();
  const bool patience = now_ - *state_.trouble_since < state_.options.lost_after;
  if (cause == nullptr) {
    if (!patience) NameBrokenLink();
    return;
  }
  if (LooksLikeConsequence(*cause) && !cause->trouble->lost && patience) return;
  Fail(FaultOf(*cause), RecordOfTrouble(*cause), cause->trouble->tail);
}

Fault Decider::FaultOf(const WorkerEntry& cause) const {
  const Trouble& trouble = *cause.trouble;
  Fault fault;
  fault.blame = trouble.lost || trouble.hung || cause.killed
                    ? Blame::kOutside
                    : BlameFor(trouble.code, trouble.signal, trouble.oom);
  fault.code = trouble.code;
  fault.who = NameFor(cause);
  fault.what = trouble.what;
  fault.task_index = state_.index_of.at(cause.incarnation);  // chief:0 and worker:0 differ
  fault.task = cause.task.ToString();
  fault.early = IsEarly(cause);
  fault.history = cause.hello ? cause.hello->history : state_.origin.history;
  // Its own word if there is one; else its peers know best: they stand where it left them.
  if (cause.leaving) {
    fault.step = cause.leaving->step;
  } else if (cause.hello || IsGang()) {
    fault.step = StepReached();
  }
  if (const int rank = state_.view.RankOf(cause.incarnation); rank >= 0) {
    fault.history = state_.origin.history;
    fault.replica_begin = state_.view.members[rank].replica_begin;
    fault.replica_end = state_.view.members[rank].replica_end;
  }
  return fault;
}

Step Decider::StepReached() const {
  Step step = -1;
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.hello) step = std::max(step, worker.hello->step);
    if (worker.beat) step = std::max(step, worker.beat->step);
    if (worker.closed) step = std::max(step, worker.closed->step);
    if (worker.leaving) step = std::max(step, worker.leaving->step);
    if (worker.vitals && IsGang()) step = std::max(step, worker.vitals->step);
    step = std::max(step, worker.committed);
  }
  return step;
}

const WorkerEntry* Decider::Cause() const {
  const WorkerEntry* cause = nullptr;
  auto key = [](const WorkerEntry& worker) {
    const Trouble& trouble = *worker.trouble;
    return std::make_tuple(trouble.lost ? false : LooksLikeConsequence(worker), !worker.accused,
                           trouble.since);  // the first in order when all that is equal
  };
  for (const WorkerEntry& worker : state_.workers) {
    if (!worker.trouble || !worker.trouble->proven) continue;
    if (cause == nullptr || key(worker) < key(*cause)) cause = &worker;
  }
  return cause;
}

// Links broke, yet all processes live.
void Decider::NameBrokenLink() {
  std::vector<std::string> complaints;
  for (const WorkerEntry& worker : state_.workers) {
    if (!worker.complaint.empty()) {
      complaints.push_back(absl::StrCat(NameFor(worker), " says: ", worker.complaint));
    }
  }
  Fault fault;
  fault.blame = Blame::kAgain;
  fault.code = kExitNotNow;
  fault.what =
      absl::StrCat("links between workers broke though no worker died; ", NamesOf(complaints));
  fault.history = state_.origin.history;
  fault.step = StepReached();
  Fail(std::move(fault), RecordOf(record_kind::kLinksBroken));
}

}  // namespace everstep
