// membership: Decide, from the cause of a failure to the orders to start again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

std::string RestartText(const RestartBook& book, const Fault& fault, Duration back_off) {
  std::string text = CauseText(fault);
  if (fault.step >= 0) absl::StrAppend(&text, " at step ", fault.step);
  absl::StrAppend(&text, "; all restart from the ",
                  book.newest.second > 0 ? "last checkpoint" : "beginning", " (restart ",
                  book.total, ", ", RestartsLeft(book), " left until the next checkpoint) in ",
                  SecondsText(back_off));
  return text;
}

}  // namespace

// `record` says what failed; what is done about it is added here.
void Decider::Fail(Fault fault, JobRecord record, const std::string& tail) {
  const RestartVerdict verdict = RestartOrEnd(state_.restarts, fault);
  const TimePoint since = state_.trouble_since.value_or(now_);
  if (fault.blame == Blame::kLeave && !IsGang()) {
    record.kind = record_kind::kStopped;
  } else {
    record.incident = state_.next_incident++;
  }
  record.cause = verdict.restart ? CauseText(fault) : verdict.reason;
  record.history = fault.history;
  if (fault.step >= 0) record.step = fault.step;
  record.action = verdict.restart ? "restart" : "end";
  if (verdict.restart) {
    BookRestart(state_.restarts, fault);
    record.back_off_seconds = ToSeconds(verdict.back_off);
    state_.open_incidents.push_back({record.incident, since, fault.step});
  }
  if (state_.restarts.native || IsGang()) record.restarts_left = RestartsLeft(state_.restarts);
  Write(std::move(record));
  if (!verdict.restart) return BeginEnding(fault.code, verdict.reason, tail);
  BeginRestart(fault, verdict.back_off);
}

void Decider::BeginRestart(const Fault& fault, Duration back_off) {
  Say(IsGang() ? GangRestartText(fault, back_off) : RestartText(state_.restarts, fault, back_off),
      true);
  CloseView(CauseText(fault));
  state_.restarting = Restarting{CauseText(fault), now_, back_off, state_.records};
  state_.trouble_since.reset();
  EnterPhase(JobPhase::kRestarting);
  TellToStop(Alive());
  StartAgainIfReady();
}

// What they would still save at their leisure is in the last checkpoint or is done again. Of a gang
// nobody knows that.
Duration Decider::RestartGrace() const {
  if (IsGang()) return state_.options.grace;
  return std::min(state_.options.grace, state_.options.restart_grace);
}

void Decider::OnExitAtRestart(WorkerEntry& worker) {
  SetState(worker, WorkerState::kGone);
  StartAgainIfReady();
}

void Decider::WatchRestart() {
  Restarting& restarting = *state_.restarting;
  const Duration since = now_ - restarting.since;
  if (since >= RestartGrace() && !restarting.told_to_kill) {
    restarting.told_to_kill = true;
    KillRest();
  }
  if (since >= RestartGrace() + 2 * state_.options.lost_after) GiveUpRest();
  StartAgainIfReady();
}

// Not even killing them has ended them, or their agents do not say so.
void Decider::GiveUpRest() {
  std::vector<std::string> names;
  for (WorkerEntry* worker : Alive()) {
    names.push_back(NameFor(*worker));
    worker->exited = worker->given_up = true;
    SetState(*worker, WorkerState::kGone);
  }
  if (names.empty()) return;
  Say(absl::StrCat("nothing is known of the end of ", NamesOf(names),
                   ", though killed; the job restarts without waiting for it"),
      true);
}

void Decider::StartAgainIfReady() {
  const Restarting& restarting = *state_.restarting;
  const Duration since = now_ - restarting.since;
  const bool on_record =
      state_.records_durable >= restarting.record || since >= state_.options.record_patience;
  // An agent that is out of reach comes back or is lost within lost_after: its slots are counted
  // only when that is known.
  const bool agents_known =
      std::all_of(state_.agents.begin(), state_.agents.end(),
                  [](const auto& entry) { return !entry.second.away || entry.second.lost; });
  if (Remaining() == 0 && since >= restarting.back_off && on_record && agents_known) {
    StartAgain();
  }
}

// As at the very beginning, but with the agents that are there, and with lives never lived before.
void Decider::StartAgain() {
  TellConsequences();
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.given_up) state_.agents[worker.agent].abandoned.insert(worker.incarnation);
  }
  for (auto it = state_.agents.begin(); it != state_.agents.end();) {
    const bool forget = it->second.lost && it->second.abandoned.empty();
    it = forget ? state_.agents.erase(it) : std::next(it);
  }
  auto& workers = state_.workers;
  workers.erase(std::remove_if(workers.begin(), workers.end(),
                               [&](const WorkerEntry& worker) { return !Stays(worker); }),
                workers.end());
  CountAgain();
  state_.cluster = ClusterSpec{};
  state_.view.members.clear();  // its number stays: the next one is higher
  state_.first_greeted = -1;
  state_.progress_due = false;
  state_.restarting.reset();
  EnterPhase(JobPhase::kGathering);
  StartIfEnough();
}

void Decider::SayTrainingAgain() {
  if (state_.open_incidents.empty()) return;
  Step reached = state_.origin.step;
  for (OpenIncident& incident : state_.open_incidents) {
    reached = std::max(reached, incident.step);
    if (incident.restored) continue;
    incident.restored = true;
    incident.restored_step = state_.origin.step;
  }
  const Step left = reached - state_.origin.step;
  Say(absl::StrCat("training again from step ", state_.origin.step, ": ", left,
                   left == 1 ? " step" : " steps", " to repeat, ",
                   SecondsText(now_ - state_.open_incidents.back().since), " after the failure"));
}

}  // namespace everstep
