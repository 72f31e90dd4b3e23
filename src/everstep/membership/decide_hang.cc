// membership: Decide, hangs of a gang: from what agents see of its processes to who does not go on.
//
// Strong evidence: a process is stopped by a signal while others run (and it is not just somebody's
// way through all of them, one after another, to stop them or to let them go on); or it sends
// heartbeats and none came within their limit. Weak: nothing is seen of any trainer for longer than
// was ever normal; one that is silent alone may only wait while another saves. On strong evidence,
// or on any if so wanted, the stacks of all that are going to be restarted are taken, the culprit
// is named, and they are restarted.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

constexpr Duration kFresh = std::chrono::seconds(5);
constexpr size_t kFramesInTail = 8;

bool SendsBeats(const WorkerEntry& worker) { return worker.vitals->beats; }

std::string EvidenceText(const Vitals& vitals, Duration silence, bool weak) {
  if (vitals.stopped > Duration(0)) {
    const std::string which =
        vitals.stopped_process.empty() ? "" : " (" + vitals.stopped_process + ")";
    return absl::StrCat("has been stopped by a signal for ", SecondsText(vitals.stopped), which);
  }
  if (!weak && vitals.beats) {
    return absl::StrCat("sent no heartbeat for ", SecondsText(silence), ", and its limit is ",
                        SecondsText(vitals.beat_limit));
  }
  std::string text = absl::StrCat("shows no progress for ", AgeText(silence));
  if (!vitals.seen.empty()) absl::StrAppend(&text, " (", vitals.seen, ")");
  return text;
}

}  // namespace

void Decider::OnVitals(const Vitals& vitals) {
  WorkerEntry* worker = Find(vitals.incarnation);
  // What is seen while stacks are taken is the work of that.
  if (worker == nullptr || worker->exited || state_.gang.hang) return;
  worker->vitals = vitals;
  worker->vitals_at = now_;
  if (vitals.stopped > Duration(0)) worker->stopped_at = now_;
  if (!IsGang() || IsEnding()) return;
  if (worker->state == WorkerState::kOrdered) SetState(*worker, WorkerState::kRunning);
  SeeProgress(*worker);
}

bool Decider::IsFresh(const WorkerEntry& worker) const {
  return worker.vitals && worker.vitals_at && now_ - *worker.vitals_at <= kFresh;
}

// What somebody stopped and let go on again had no chance while it was stopped.
Duration Decider::SilenceOf(const WorkerEntry& worker) const {
  const Vitals& vitals = *worker.vitals;
  const Duration silence = vitals.beats ? vitals.beat_age : vitals.idle;
  return worker.stopped_at ? std::min(silence, now_ - *worker.stopped_at) : silence;
}

bool Decider::IsSilent(const WorkerEntry& worker) const {
  const Duration limit = SendsBeats(worker) ? worker.vitals->beat_limit : worker.vitals->idle_limit;
  return limit > Duration(0) && SilenceOf(worker) > limit;
}

// It has sent a heartbeat within a good part of its limit.
bool Decider::GoesOn(const WorkerEntry& worker) const {
  const Vitals& vitals = *worker.vitals;
  if (vitals.stopped > Duration(0) || !vitals.beats) return false;
  return vitals.beat_limit <= Duration(0) || SilenceOf(worker) < vitals.beat_limit / 2;
}

std::vector<WorkerEntry*> Decider::Members() {
  std::vector<WorkerEntry*> members;
  for (WorkerEntry& worker : state_.workers) {
    if (!worker.exited && !worker.respawn && !IsEvaluator(worker.task)) members.push_back(&worker);
  }
  return members;
}

bool Decider::IsStopped(const WorkerEntry& worker) const {
  return IsFresh(worker) && worker.vitals->stopped > Duration(0);
}

WorkerEntry* Decider::StoppedOne() {
  WorkerEntry* longest = nullptr;
  for (WorkerEntry* worker : Members()) {
    if (!IsStopped(*worker)) continue;
    if (longest == nullptr || worker->vitals->stopped > longest->vitals->stopped) longest = worker;
  }
  return longest;
}

void Decider::LookForHang() {
  if (state_.trouble_since || LookForStopped()) return;
  for (const WorkerEntry* worker : Members()) {
    if (!IsFresh(*worker) || !SendsBeats(*worker) || !IsSilent(*worker)) continue;
    return BeginHang(true, *worker,
                     absl::StrCat(NameFor(*worker), " ",
                                  EvidenceText(*worker->vitals, SilenceOf(*worker), false)));
  }
  LookForSilence();
}

// Keeps the book of the present spell, too.
bool Decider::AllStopped() {
  const std::vector<WorkerEntry*> members = Members();
  size_t stopped = 0;
  Duration latest = Duration::max();
  for (const WorkerEntry* worker : members) {
    if (!IsStopped(*worker)) continue;
    ++stopped;
    latest = std::min(latest, worker->vitals->stopped);
  }
  std::optional<StopSpell>& spell = state_.gang.stop;
  if (stopped == 0) {
    spell.reset();
    return false;
  }
  if (!spell) spell = StopSpell{};
  // The last one that goes on when others have come to their end is no sign of any purpose.
  const bool done = std::any_of(state_.workers.begin(), state_.workers.end(),
                                [](const auto& worker) { return worker.finished.has_value(); });
  const bool all = stopped == members.size() && !(done && stopped == 1);
  if (all) {
    *spell = {stopped, true, now_};
  } else if (!spell->all && stopped > spell->stopped) {
    *spell = {stopped, false, now_ - latest};
  } else if (spell->all && stopped < spell->stopped) {
    *spell = {stopped, true, now_};
  }
  return all;
}

// True: there is no point in looking further now.
bool Decider::LookForStopped() {
  const WorkerEntry* stopped = StoppedOne();
  const bool long_enough =
      stopped != nullptr && stopped->vitals->stopped >= state_.options.stopped_after;
  const bool all = AllStopped();
  if (all && long_enough && !state_.gang.stop_told) {
    state_.gang.stop_told = true;
    Say("all processes of the job are stopped by a signal: somebody does that on purpose, so they "
        "are waited for (kill -CONT lets them go on)",
        true);
  }
  if (all) return true;
  state_.gang.stop_told = false;
  if (long_enough && now_ - state_.gang.stop->since >= state_.options.stopped_after) {
    BeginHang(true, *stopped,
              absl::StrCat(NameFor(*stopped), " ",
                           EvidenceText(*stopped->vitals, SilenceOf(*stopped), false)));
    return true;
  }
  for (WorkerEntry& worker : state_.workers) {  // an evaluator: nobody waits for it
    if (!IsEvaluator(worker.task) || worker.exited || worker.respawn || !IsFresh(worker)) continue;
    if (worker.vitals->stopped < state_.options.stopped_after) continue;
    Prove(worker, kExitNotNow, EvidenceText(*worker.vitals, SilenceOf(worker), false));
    worker.trouble->hung = worker.trouble->lost = true;
    worker.trouble->evidence = "strong";
    return true;
  }
  return false;
}

void Decider::LookForSilence() {
  std::vector<const WorkerEntry*> trainers;
  bool known = true, silent = true;
  for (const WorkerEntry* worker : Members()) {
    if (!IsTrainer(worker->task)) continue;
    trainers.push_back(worker);
    known = known && IsFresh(*worker);
    silent = silent && IsFresh(*worker) && IsSilent(*worker);
  }
  if (trainers.empty() || !known) return;
  std::optional<TimePoint>& since = state_.gang.silent_since;
  if (!silent) {
    if (since) Say(absl::StrCat("there is progress again, after ", AgeText(now_ - *since)));
    since.reset();
    return;
  }
  if (since) return;
  std::string reasons;
  const WorkerEntry* culprit = CulpritOf(trainers, &reasons);
  since = now_ - SilenceOf(*culprit);
  std::string text = absl::StrCat(NameFor(*culprit), " ",
                                  EvidenceText(*culprit->vitals, SilenceOf(*culprit), true));
  if (trainers.size() > 1) {
    absl::StrAppend(&text, ", nor does any other of the ", trainers.size(), " tasks",
                    reasons.empty() ? "" : absl::StrCat("; it is the likely culprit: ", reasons));
  }
  if (state_.options.hang_action == HangAction::kKill) return BeginHang(false, *culprit, text);
  JobRecord record = RecordOf(record_kind::kWorkerHung, culprit);
  record.incident = state_.next_incident++;
  record.cause = text;
  record.evidence = "weak";
  Write(std::move(record));
  Say(absl::StrCat(text,
                   "; it may only be busy, so nothing is done (--hang-action kill restarts it; "
                   "heartbeats would tell)"),
      true);
}

// In a job with parameter servers one that is stopped is restarted alone, or with those that need
// it; of other hangs nobody knows whose fault they are.
void Decider::BeginHang(bool strong, const WorkerEntry& found, const std::string& text) {
  Hang hang;
  hang.since = now_;
  hang.strong = strong;
  hang.found = found.incarnation;
  hang.text = text;
  std::vector<WorkerEntry*> asked = Members();
  WorkerEntry* stopped = StoppedOne();
  if (HasServers() && stopped != nullptr) {
    asked = RestartedWith(*stopped);
    asked.erase(std::remove_if(asked.begin(), asked.end(),
                               [](const WorkerEntry* worker) { return worker->exited; }),
                asked.end());
  }
  for (const WorkerEntry* worker : asked) {
    hang.asked.insert(worker->incarnation);
    TellAgent(worker->agent, TakeStacks{worker->incarnation});
  }
  state_.gang.hang = std::move(hang);
  Say(absl::StrCat(text, "; the stacks of ", asked.size(),
                   asked.size() == 1 ? " process are" : " processes are",
                   " taken before they are ended"),
      true);
}

void Decider::OnStacks(const Stacks& stacks) {
  WorkerEntry* worker = Find(stacks.incarnation);
  if (worker == nullptr) return;
  worker->stacks = stacks;
  if (state_.gang.hang && !IsStopping()) WatchHang();
}

void Decider::WatchHang() {
  const Hang& hang = *state_.gang.hang;
  const bool all = std::all_of(hang.asked.begin(), hang.asked.end(), [&](Incarnation asked) {
    const WorkerEntry* worker = Find(asked);
    if (worker == nullptr || worker->stacks) return true;
    // It ended before it could say anything; its last words may be on their way.
    return worker->trouble && worker->exited &&
           now_ - worker->trouble->since >= 2 * state_.options.settle;
  });
  if (all || now_ - hang.since >= state_.options.stacks_patience) ActOnHang();
}

void Decider::ActOnHang() {
  const Hang hang = std::move(*state_.gang.hang);
  state_.gang.hang.reset();
  std::vector<const WorkerEntry*> among;
  for (const WorkerEntry& worker : state_.workers) {
    const bool asked = hang.asked.count(worker.incarnation) > 0 && worker.vitals;
    if (asked && !(hang.strong && GoesOn(worker))) among.push_back(&worker);
  }
  if (among.empty()) {  // it cannot be that all go on, but who showed it is there
    if (const WorkerEntry* found = Find(hang.found); found && found->vitals) among.push_back(found);
  }
  std::string reasons;
  WorkerEntry& culprit = *Find(CulpritOf(among, &reasons)->incarnation);
  const Vitals& vitals = *culprit.vitals;
  const bool stopped = vitals.stopped > Duration(0);
  const Duration silence = stopped ? vitals.stopped : SilenceOf(culprit);
  Trouble trouble;
  if (culprit.trouble) {  // it ended by the taking of its stacks
    trouble.tail = culprit.trouble->tail;
    trouble.log = culprit.trouble->log;
  }
  trouble.since = hang.since - silence;
  trouble.proven = trouble.hung = true;
  trouble.lost = stopped;  // it would not hear SIGTERM
  trouble.code = kExitNotNow;
  const bool shows = !hang.strong || stopped || (vitals.beats && IsSilent(culprit));
  trouble.what =
      shows ? EvidenceText(vitals, silence, !hang.strong)
            : absl::StrCat(vitals.beats ? "sent no heartbeat for " : "shows no progress for ",
                           SecondsText(silence), ", and ", hang.text);
  if (!reasons.empty()) absl::StrAppend(&trouble.what, "; ", reasons);
  trouble.evidence = hang.strong ? "strong" : "weak";
  if (culprit.stacks) {
    trouble.stacks = culprit.stacks->path;
    if (LastLines(trouble.tail).empty()) {
      trouble.tail = InnermostFrames(culprit.stacks->text, kFramesInTail);
    }
  }
  culprit.trouble = std::move(trouble);
  if (HasServers() && stopped) return FailAlone(culprit);
  FailAll(culprit);
}

}  // namespace everstep
