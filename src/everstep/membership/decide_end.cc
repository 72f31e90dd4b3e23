// membership: Decide, from the decision to end to the last word.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"
#include "everstep/membership/exit_status.h"

namespace everstep {

void Decider::BeginEnding(int code, std::string reason, std::string tail) {
  state_.restarting.reset();
  state_.ending = Ending{code, std::move(reason), std::move(tail), now_, false};
  EnterPhase(JobPhase::kEnding);
  if (code != kExitDone) Log(absl::StrCat("the job ends: ", state_.ending->reason), true);
  TellToStop(Alive());
  EndIfAllGone();
}

void Decider::EndAsTold(std::string reason, const WorkerEntry* worker) {
  JobRecord record = RecordOf(record_kind::kStopped, worker);
  record.cause = reason;
  record.action = "end";
  Write(std::move(record));
  BeginEnding(kExitToldToLeave, std::move(reason));
}

void Decider::EndForStates(std::string reason) {
  JobRecord record = RecordOf(record_kind::kStatesDiffer);
  record.incident = state_.next_incident++;
  record.cause = reason;
  record.action = "end";
  Write(std::move(record));
  BeginEnding(kExitOurFault, std::move(reason));
}

std::vector<WorkerEntry*> Decider::Alive() {
  std::vector<WorkerEntry*> alive;
  for (WorkerEntry& worker : state_.workers) {
    if (!worker.exited && !(IsRestarting() && Stays(worker))) alive.push_back(&worker);
  }
  return alive;
}

// An evaluator is beside the gang: it has no part in its restarts. One that is over stays so.
bool Decider::Stays(const WorkerEntry& worker) const {
  return IsEvaluator(worker.task) && (worker.over || !worker.exited);
}

int Decider::Remaining() const {
  return static_cast<int>(
      std::count_if(state_.workers.begin(), state_.workers.end(), [&](const WorkerEntry& worker) {
        return worker.state != WorkerState::kGone && !(IsRestarting() && Stays(worker));
      }));
}

// Whoever can be spoken to is asked; for the others their agent sees to it.
void Decider::TellToStop(std::vector<WorkerEntry*> workers) {
  Stop stop;
  if (IsEnding()) {
    stop = {state_.ending->code, state_.options.grace, state_.ending->reason};
  } else {
    stop = {kExitNotNow, RestartGrace(),
            absl::StrCat("the job restarts: ", state_.restarting->reason)};
  }
  std::vector<Incarnation> asked;
  for (WorkerEntry* worker : workers) {
    if (worker->hello && !worker->away) {
      asked.push_back(worker->incarnation);
    } else {
      // One that is silent though alive is stopped or stuck: it would not hear SIGTERM.
      const bool lost = worker->trouble && worker->trouble->lost;
      const bool hung = worker->trouble && worker->trouble->hung;
      const Duration grace =
          lost ? Duration(0)
               : std::min(stop.grace, hung ? state_.options.restart_grace : stop.grace);
      worker->killed = true;
      TellAgent(worker->agent, Kill{worker->incarnation, grace});
    }
    SetState(*worker, WorkerState::kStopping);
  }
  Tell(std::move(asked), std::move(stop));
}

void Decider::OnExitAtEnd(WorkerEntry& worker, const Exited& exited) {
  SetState(worker, WorkerState::kGone);
  const ExitMeaning meaning = MeaningOf(exited.wait_status, exited.oom);
  if (state_.ending->code == kExitDone && meaning.code != 0 && !worker.killed) {
    return OnFailedAfterTraining(worker, exited);
  }
  EndIfAllGone();
}

// The weights are safe, but what the program does after training may not be: who was killed from
// outside did not end it. All do it again, from the last checkpoint.
void Decider::OnFailedAfterTraining(WorkerEntry& worker, const Exited& exited) {
  NoteExit(worker, exited, " after training was done");
  Fault fault = FaultOf(worker);
  const bool again = fault.blame == Blame::kOutside || fault.blame == Blame::kAgain;
  if (again && state_.restarts.native) {
    state_.ending.reset();
    return Fail(std::move(fault), RecordOfTrouble(worker), exited.tail);
  }
  state_.ending->code = fault.code;
  state_.ending->reason = CauseText(fault);
  state_.ending->tail = exited.tail;
  JobRecord record = RecordOfTrouble(worker);
  record.incident = state_.next_incident++;
  record.cause = state_.ending->reason;
  record.action = "end";
  Write(std::move(record));
  EndIfAllGone();
}

void Decider::StopRequested(const std::string& reason) {
  if (!IsEnding()) {
    return EndAsTold(reason.empty() ? "told to stop" : reason);
  }
  // Asked again: it must not take the whole grace. A second signal counts only when it comes later
  // than what one key press sends.
  if (now_ - state_.ending->since >= std::chrono::seconds(2)) {
    state_.ending->told_to_kill = true;
    KillRest();
  }
}

void Decider::KillRest() {
  for (WorkerEntry* worker : Alive()) {
    worker->killed = true;
    TellAgent(worker->agent, Kill{worker->incarnation, Duration(0)});
  }
}

void Decider::WatchEnding() {
  if (state_.phase != JobPhase::kEnding) return;
  EndIfAllGone();  // agents may have been given up
  if (state_.phase != JobPhase::kEnding) return;
  const Duration since = now_ - state_.ending->since;
  if (since >= state_.options.grace / 2) FreeTheWaiting();
  if (since < state_.options.grace) return;
  std::vector<std::string> names;
  for (const WorkerEntry& worker : state_.workers) {
    if (!worker.exited) names.push_back(NameFor(worker));
  }
  if (!state_.ending->told_to_kill) {
    Say(absl::StrCat(NamesOf(names), " did not exit within ", SecondsText(state_.options.grace),
                     " and will be killed"),
        true);
    state_.ending->told_to_kill = true;
    return KillRest();
  }
  if (since < state_.options.grace + 2 * state_.options.lost_after) return;
  Say(absl::StrCat("nothing is known of the end of ", NamesOf(names),
                   "; look for processes left on its host"),
      true);
  End();
}

// Who was told to leave finishes its step first. One whose step does not end, because it waits for
// a member that will never come, is freed while it still has time to exit by itself.
void Decider::FreeTheWaiting() {
  if (state_.ending->freed) return;
  state_.ending->freed = true;
  std::vector<Incarnation> waiting;
  for (const WorkerEntry& worker : state_.workers) {
    if (!worker.exited && worker.hello && !worker.away) waiting.push_back(worker.incarnation);
  }
  Tell(std::move(waiting), Close{state_.view.id, state_.ending->reason});
}

void Decider::EndIfAllGone() {
  if (AllAre(WorkerState::kGone)) End();
}

void Decider::End() {
  state_.phase = JobPhase::kEnded;
  SendProgress();
  TellConsequences();
  const Ending& ending = *state_.ending;
  std::string reason = ending.reason;
  JobRecord record = RecordOf(record_kind::kRunEnded);
  record.cause = reason;
  record.exit_code = ending.code;
  Write(std::move(record));
  const std::vector<std::string> tail = LastLines(ending.tail);
  if (!tail.empty()) absl::StrAppend(&reason, "; last lines:\n", absl::StrJoin(tail, "\n"));
  TellAllAgents(JobEnded{ending.code, reason});
  decision_.actions.push_back(EndJob{ending.code, std::move(reason)});
}

}  // namespace everstep
