// membership: Decide, tasks of a gang that are restarted while the others go on: an evaluator, and
// those of a job with parameter servers. TensorFlow's contract there: a lost worker's share is done
// by the others; a lost server takes its part of the variables with it, so the chief begins again
// from its checkpoint; a lost chief finds workers and servers where they were.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"

namespace everstep {

std::vector<WorkerEntry*> Decider::RestartedWith(WorkerEntry& cause) {
  std::vector<WorkerEntry*> all = {&cause};
  if (cause.task.type != "ps" && cause.task.type != "chief") return all;
  for (WorkerEntry& worker : state_.workers) {
    if (&worker == &cause || worker.respawn || IsEvaluator(worker.task)) continue;
    // A chief that begins again needs all of them.
    if (worker.task.type == "chief" || worker.finished) all.push_back(&worker);
  }
  return all;
}

void Decider::FailAlone(WorkerEntry& cause) {
  const bool evaluator = IsEvaluator(cause.task);
  RestartBook& book = evaluator ? state_.evaluator_restarts : state_.restarts;
  const Fault fault = FaultOf(cause);
  const RestartVerdict verdict = RestartOrEnd(book, fault);
  if (!verdict.restart && !evaluator) return FailAll(cause);
  JobRecord record = RecordOfTrouble(cause);
  record.incident = state_.next_incident++;
  record.cause = verdict.restart ? CauseText(fault) : verdict.reason;
  if (!verdict.restart) {  // the training does not need it
    cause.over = true;
    cause.trouble.reset();
    Write(std::move(record));
    return Say(absl::StrCat(verdict.reason, "; it is not started again, the others go on"), true);
  }
  BookRestart(book, fault);
  const std::vector<WorkerEntry*> all = RestartedWith(cause);
  record.action = "restart";
  record.back_off_seconds = ToSeconds(verdict.back_off);
  record.restarts_left = RestartsLeft(book);
  std::string names = "it";
  OpenIncident incident{record.incident, cause.trouble->since, fault.step};
  incident.alone = cause.task.ToString();
  for (size_t i = 1; i < all.size(); ++i) {
    absl::StrAppend(&names, i + 1 == all.size() ? " and " : ", ", NameFor(*all[i]));
    if (all[i]->task.type == "chief") incident.alone = all[i]->task.ToString();
  }
  state_.open_incidents.push_back(std::move(incident));
  Write(std::move(record));
  Say(absl::StrCat(CauseText(fault), "; ", names, all.size() == 1 ? " is" : " are",
                   " restarted in ", SecondsText(verdict.back_off), ", the others go on (restart ",
                   book.total, ", ",
                   fault.blame == Blame::kLeave
                       ? std::string("not counted")
                       : absl::StrCat(RestartsLeft(book), " left until the next checkpoint"),
                   ")"),
      true);
  for (WorkerEntry* worker : all) BeginRespawn(*worker, verdict.back_off);
}

void Decider::BeginRespawn(WorkerEntry& worker, Duration back_off) {
  worker.respawn = Respawn{now_, now_ + back_off, state_.records};
  if (worker.exited) return;
  const bool lost = worker.trouble && worker.trouble->lost;
  worker.killed = true;
  SetState(worker, WorkerState::kStopping);
  TellAgent(worker.agent, Kill{worker.incarnation, lost ? Duration(0) : state_.options.grace});
}

void Decider::WatchRespawns() {
  for (WorkerEntry& worker : state_.workers) {
    if (!worker.respawn || (state_.gang.trainers_done && !IsEvaluator(worker.task))) continue;
    const Respawn& respawn = *worker.respawn;
    const Duration since = now_ - respawn.since;
    if (!worker.exited && since >= state_.options.grace + 2 * state_.options.lost_after) {
      worker.exited = worker.given_up = true;
      SetState(worker, WorkerState::kGone);
      Say(absl::StrCat("nothing is known of the end of ", NameFor(worker),
                       ", though killed; it is restarted without waiting for that"),
          true);
    }
    const bool on_record =
        state_.records_durable >= respawn.record || since >= state_.options.record_patience;
    if (!worker.exited || now_ < respawn.at || !on_record) continue;
    // It may live, and is killed when its agent is back.
    const auto agent = state_.agents.find(worker.agent);
    if (worker.given_up && agent != state_.agents.end()) {
      agent->second.abandoned.insert(worker.incarnation);
    }
    if (FindPlace(worker)) {
      RespawnNow(worker);
    } else if (IsStopping()) {
      return;
    }
  }
}

// Where it was: its peers know it by that address. An evaluator has none who do.
bool Decider::FindPlace(WorkerEntry& worker) {
  const auto agent = state_.agents.find(worker.agent);
  if (agent != state_.agents.end() && !agent->second.lost) return !agent->second.away;
  if (IsEvaluator(worker.task)) {
    const std::optional<Place> place = FreePlaceFor(worker.task);
    if (!place) return false;  // an agent may come
    Put(worker, *place);
    return true;
  }
  worker.respawn.reset();
  worker.trouble.reset();
  Prove(worker, kExitNotNow, "was lost with its host before it could be started again");
  worker.trouble->lost = true;
  FailAll(worker);
  return false;
}

void Decider::RespawnNow(WorkerEntry& worker) {
  WorkerEntry fresh;
  fresh.task = worker.task;
  fresh.incarnation = state_.next_incarnation++;
  fresh.agent = worker.agent;
  fresh.slot = worker.slot;
  fresh.address = worker.address;
  fresh.spawned = now_;
  worker = std::move(fresh);
  CountAgain();
  for (OpenIncident& incident : state_.open_incidents) {
    if (incident.alone == worker.task.ToString()) incident.restored = true;
  }
  TellAgent(worker.agent, SpawnOf(worker));
}

}  // namespace everstep
