// membership: Decide, while a view runs.
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

bool SameForPeople(const Beat& a, const Beat& b) {
  return a.view == b.view && a.step == b.step && a.scalars.epoch == b.scalars.epoch &&
         a.scalars.step_in_epoch == b.scalars.step_in_epoch &&
         a.scalars.total_steps == b.scalars.total_steps && a.scalars.values == b.scalars.values;
}

}  // namespace

// The largest group first: the others are the odd ones, unless there is no majority.
std::string OddOnes(const std::map<std::string, std::vector<std::string>>& by_state) {
  const std::pair<const std::string, std::vector<std::string>>* most = nullptr;
  size_t total = 0;
  for (const auto& group : by_state) {
    total += group.second.size();
    if (most == nullptr || group.second.size() > most->second.size()) most = &group;
  }
  const bool majority = most->second.size() * 2 > total;
  std::vector<std::string> parts;
  for (const auto& group : by_state) {
    if (majority && &group == most) continue;
    parts.push_back(absl::StrCat(NamesOf(group.second), " at ", group.first));
  }
  std::string text = absl::StrJoin(parts, "; ");
  if (majority) {
    absl::StrAppend(&text, "; the other ", most->second.size(), " at ", most->first);
  }
  return text;
}

void Decider::OnBeat(WorkerEntry& worker, const Beat& beat) {
  worker.last_beat = now_;
  worker.silence_told = false;
  const bool changed = !worker.beat || !SameForPeople(*worker.beat, beat);
  worker.beat = beat;
  if (!changed || state_.view.members.empty() || beat.view != state_.view.id) return;
  if (state_.view.members[state_.view.committer].incarnation != worker.incarnation) return;
  WriteRecovered(beat.step);
  state_.progress_due = true;
  SendProgress();
}

void Decider::SendProgress() {
  if (!state_.progress_due) return;
  // The last one before the end is not held back.
  if (state_.phase != JobPhase::kEnded &&
      now_ - state_.last_progress < state_.options.progress_interval) {
    return;
  }
  if (state_.view.members.empty()) return;
  const WorkerEntry* committer = Find(state_.view.members[state_.view.committer].incarnation);
  state_.progress_due = false;
  state_.last_progress = now_;
  const int workers = static_cast<int>(state_.view.members.size());
  TellAllAgents(Progress{committer->beat->step, workers, committer->beat->scalars});
}

void Decider::OnLeaving(WorkerEntry& worker, const Leaving& leaving) {
  worker.leaving = leaving;
  if (IsStopping()) return TellToStop({&worker});  // it may not have heard the first time
  worker.left_at = now_;
  const WorkerState before = worker.state;
  SetState(worker, WorkerState::kLeaving);
  switch (leaving.reason) {
    case LeaveReason::kFailed:
      ProveFailed(worker, leaving);
      break;
    case LeaveReason::kToldToLeave:
      SetState(worker, before);  // until it is clear who told it: see HeedToldToLeave
      break;
    case LeaveReason::kFinished:
      FinishIfAllLeft();
      break;
  }
}

// When its agent dies a process is told to leave too; then that is the cause, and it may be heard
// of a little later.
void Decider::HeedToldToLeave() {
  for (const WorkerEntry& worker : state_.workers) {
    if (!worker.leaving || worker.leaving->reason != LeaveReason::kToldToLeave || worker.exited ||
        now_ - worker.left_at < state_.options.settle || state_.agents[worker.agent].away) {
      continue;
    }
    return EndAsTold(absl::StrCat(NameFor(worker), " was told to leave"), &worker);
  }
}

void Decider::FinishIfAllLeft() {
  if (!AllAre(WorkerState::kLeaving) || state_.trouble_since) return;
  std::map<std::string, std::vector<std::string>> by_state;
  for (const WorkerEntry& worker : state_.workers) {
    by_state[absl::StrFormat("step %d with digest %016x", worker.leaving->step,
                             worker.leaving->digest)]
        .push_back(NameFor(worker));
  }
  if (by_state.size() > 1) {
    return EndForStates(absl::StrCat("the workers finished in different states: ",
                                     OddOnes(by_state), "; the last checkpoint cannot be trusted"));
  }
  WriteRecovered(std::numeric_limits<Step>::max());  // nothing is left to be done again
  BeginEnding(kExitDone, "");
}

// A step needs all members; one that has finished will not come to it. A vote that was under way
// when it left has arrived long before.
void Decider::LookForForeverWaiting() {
  if (state_.phase != JobPhase::kTraining || Count(WorkerState::kLeaving) == 0) return;
  for (const WorkerEntry& worker : state_.workers) {
    if (!worker.beat || worker.beat->view != state_.view.id || worker.exited) continue;
    for (int rank : worker.beat->waits) {
      if (rank < 0 || rank >= static_cast<int>(state_.view.members.size())) continue;
      const WorkerEntry* peer = Find(state_.view.members[rank].incarnation);
      if (peer == nullptr || peer->state != WorkerState::kLeaving || peer->exited) continue;
      if (worker.last_beat - peer->left_at < state_.options.lost_after) continue;
      return BeginEnding(
          kExitConfiguration,
          absl::StrCat(NameFor(*peer), " has finished but ", NameFor(worker),
                       " waits for it in a step; every worker must make the same calls of Fit and "
                       "Evaluate (is one of them inside `if (strategy.IsChief())`?)"));
    }
  }
}

// Weak evidence: it may only be busy, or stopped by someone. Told, not acted on.
void Decider::TellOfSilence() {
  if (state_.phase != JobPhase::kTraining) return;
  for (WorkerEntry& worker : state_.workers) {
    const Duration silent = now_ - worker.last_beat;
    if (worker.exited || worker.away || worker.silence_told || silent < state_.options.lost_after) {
      continue;
    }
    worker.silence_told = true;
    Say(absl::StrCat(NameFor(worker), " has been silent for ", SecondsText(silent),
                     worker.beat ? absl::StrCat(", last heard in ", worker.beat->phase) : ""),
        true);
  }
}

}  // namespace everstep
