// membership: Decide, a gang: a program that says nothing of itself, so that its processes are
// watched from outside and restarted together.
//
// Chief and workers of a gang are one: any death restarts them all. An evaluator is beside them. In
// a job with parameter servers the chief coordinates and decides; there a task may be lost alone
// (decide_alone.cc).
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/io/publish.h"
#include "everstep/membership/decider.h"
#include "everstep/membership/exit_status.h"

namespace everstep {
namespace {

constexpr Duration kEarly = std::chrono::minutes(2);  // a failure by then is seen by its user
constexpr Duration kFinishedAlone = std::chrono::seconds(30);
constexpr int kSigAbort = 6, kSigPipe = 13;

bool IsAtEnd(const WorkerEntry& worker) { return worker.exited && !worker.respawn; }

// No end of a peer does that: libraries that lose a peer exit, abort or write into a closed pipe.
bool HasOwnReason(const Trouble& trouble) {
  if (trouble.lost || trouble.oom || trouble.hung) return true;
  if (BlameFor(trouble.code, trouble.signal, false) == Blame::kLeave) return true;
  const int signal = trouble.signal != 0 ? trouble.signal : trouble.code - 128;
  return signal > 0 && signal != kSigAbort && signal != kSigPipe;
}

}  // namespace

// ---- what it is ----

void Decider::RecogniseGang() {
  if (IsGang() || state_.phase != JobPhase::kStarting || state_.restarts.native ||
      state_.trouble_since || now_ - state_.started < state_.options.gang_after) {
    return;
  }
  Say(absl::StrCat("in ", AgeText(now_ - state_.started),
                   " the program says nothing to Everstep: its processes are watched and restarted "
                   "together (a gang); --gang says so from the start"));
  state_.restarts.gang = true;
  const TimePoint began = state_.started;
  EnterPhase(JobPhase::kRunning);
  BeginGangLife(began);
}

void Decider::BeginGangLife(TimePoint began) {
  state_.view.id = {state_.options.term, state_.view.id.id + 1};  // the number of this life
  GangWatch& gang = state_.gang;
  gang.began = gang.checkpoint_warned = began;
  gang.hang.reset();
  gang.silent_since.reset();
  gang.stop.reset();
  gang.stop_told = false;
  gang.step_told = -1;
  for (OpenIncident& incident : state_.open_incidents) {
    incident.restored = true;
    incident.alone.clear();
  }
  Write(RecordOf(record_kind::kTraining));
}

// It only took its time.
void Decider::BecomeNative() {
  Log("the program has said hello after all: it is no gang");
  state_.restarts.gang = false;
  state_.gang.hang.reset();
  if (state_.phase == JobPhase::kRunning) EnterPhase(JobPhase::kStarting);
  for (WorkerEntry& worker : state_.workers) {
    if (worker.state == WorkerState::kRunning) SetState(worker, WorkerState::kOrdered);
  }
  for (OpenIncident& incident : state_.open_incidents) incident.restored = false;
}

void Decider::WatchGang() {
  if (state_.phase != JobPhase::kRunning) return;
  for (WorkerEntry& worker : state_.workers) {
    // Nothing may be heard of it, as where /proc cannot be read.
    if (worker.state == WorkerState::kOrdered &&
        now_ - worker.spawned >= state_.options.gang_after) {
      SetState(worker, WorkerState::kRunning);
    }
  }
  if (state_.gang.trainers_done) {  // an evaluator that is to start again still does
    WatchFinishing();
    if (!IsStopping()) WatchRespawns();
    return;
  }
  if (state_.gang.hang) return WatchHang();
  WatchFinishing();
  if (!IsStopping()) WatchRespawns();
  if (!IsStopping()) LookForHang();
  if (!IsStopping()) WarnOfNoCheckpoint();
}

// ---- how its processes end ----

void Decider::OnGangExit(WorkerEntry& worker, const Exited& exited) {
  const ExitMeaning meaning = MeaningOf(exited.wait_status, exited.oom);
  SetState(worker, WorkerState::kGone);
  if (worker.respawn) return;  // it was ended for that
  if (meaning.code == 0) {
    worker.finished = now_;
    worker.over = IsEvaluator(worker.task);
    if (!IsStopping() && state_.phase == JobPhase::kRunning) FinishIfTrainersHave();
    return;
  }
  // An evaluator while the others restart, or what ends after the training is done.
  if (IsStopping() || state_.phase != JobPhase::kRunning || state_.gang.trainers_done) return;
  NoteExit(worker, exited);
  if (BlameFor(meaning.code, meaning.signal, exited.oom) == Blame::kLeave) {
    worker.trouble->what = absl::StrCat("was told to leave: it ", meaning.text);
  }
}

bool Decider::Decides(const WorkerEntry& worker) const {
  return HasServers() ? worker.task.type == "chief" : IsTrainer(worker.task);
}

void Decider::FinishIfTrainersHave() {
  GangWatch& gang = state_.gang;
  if (gang.trainers_done) return;
  for (const WorkerEntry& worker : state_.workers) {
    if (Decides(worker) && !worker.finished) return;
  }
  const bool evaluates = std::any_of(
      state_.workers.begin(), state_.workers.end(),
      [](const WorkerEntry& worker) { return IsEvaluator(worker.task) && !IsAtEnd(worker); });
  if (!evaluates) return EndGangDone();
  gang.trainers_done = now_;
  gang.hang.reset();
  Say(absl::StrCat("training is done; the evaluator has ", AgeText(state_.options.grace),
                   " to come to its end"));
}

void Decider::WatchFinishing() {
  const GangWatch& gang = state_.gang;
  std::vector<std::string> running;
  for (const WorkerEntry& worker : state_.workers) {
    if (IsAtEnd(worker)) continue;
    if (gang.trainers_done ? IsEvaluator(worker.task) : Decides(worker)) {
      running.push_back(NameFor(worker));
    }
  }
  if (gang.trainers_done) {
    if (running.empty() || now_ - *gang.trainers_done >= state_.options.grace) EndGangDone();
    return;
  }
  if (running.empty()) return;
  for (WorkerEntry& worker : state_.workers) {
    if (!worker.finished || worker.finish_told || worker.over) continue;
    if (now_ - *worker.finished < kFinishedAlone) continue;
    worker.finish_told = true;
    Say(absl::StrCat(NameFor(worker), " has exited with code 0 and ", AndNames(running),
                     running.size() == 1 ? " still runs" : " still run", "; the job is done when ",
                     HasServers() ? "the chief has" : "all have"));
  }
}

void Decider::EndGangDone() {
  CloseIncidents(nullptr);  // nothing is left to be done again
  BeginEnding(kExitDone, "");
}

// ---- why ----

// A person looks on, and it would fail again.
bool Decider::IsEarly(const WorkerEntry& worker) const {
  if (!IsGang() || state_.gang.progressed || !worker.trouble) return false;
  const RestartBook& book = IsEvaluator(worker.task) ? state_.evaluator_restarts : state_.restarts;
  return book.total == 0 && worker.trouble->since - worker.spawned < kEarly;
}

// In the order in which they are to be thought the cause. Within the moments that signs are
// gathered for, what came first may be heard of second.
std::vector<WorkerEntry*> Decider::FailedOnes() {
  std::vector<WorkerEntry*> failed;
  for (WorkerEntry& worker : state_.workers) {
    if (worker.trouble && worker.trouble->proven && !worker.respawn && !worker.over) {
      failed.push_back(&worker);
    }
  }
  // A chief ends because of its servers, and they because of nobody.
  const bool servers = HasServers();
  auto key = [servers](const WorkerEntry* worker) {
    const Trouble& trouble = *worker->trouble;
    return std::make_tuple(servers && !trouble.lost, servers && worker->task.type == "chief",
                           !HasOwnReason(trouble), trouble.since);
  };
  std::stable_sort(failed.begin(), failed.end(),
                   [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return failed;
}

void Decider::DiagnoseGang() {
  if (state_.phase != JobPhase::kRunning || state_.gang.hang || state_.gang.trainers_done) return;
  for (const WorkerEntry& worker : state_.workers) {
    if (worker.exited) continue;
    const auto agent = state_.agents.find(worker.agent);
    // Its host may be what failed first; lost_after bounds this.
    if (agent != state_.agents.end() && agent->second.away) return;
  }
  std::vector<WorkerEntry*> failed = FailedOnes();
  state_.trouble_since.reset();
  for (WorkerEntry* worker : failed) {
    if (IsEvaluator(worker->task)) FailAlone(*worker);
  }
  failed.erase(std::remove_if(failed.begin(), failed.end(),
                              [](const auto* worker) { return IsEvaluator(worker->task); }),
               failed.end());
  if (failed.empty()) return;
  WorkerEntry* stopped = StoppedOne();
  if (stopped != nullptr && !HasOwnReason(*failed.front()->trouble)) {
    state_.trouble_since = failed.front()->trouble->since;
    return BeginHang(
        true, *stopped,
        absl::StrCat(NameFor(*stopped), " is stopped by a signal and ", NameFor(*failed.front()),
                     " ", failed.front()->trouble->what, " because of that"));
  }
  const bool place_lost = std::any_of(failed.begin(), failed.end(),
                                      [](const auto* worker) { return worker->trouble->lost; });
  if (!HasServers() || place_lost) return FailAll(*failed.front());
  for (WorkerEntry* worker : failed) {
    if (!worker->respawn && !IsStopping()) FailAlone(*worker);
  }
}

void Decider::FailAll(const WorkerEntry& cause) {
  Consequences consequences{cause.task.ToString(), {}};
  for (const WorkerEntry& worker : state_.workers) {
    if (&worker == &cause || worker.finished || worker.respawn || IsEvaluator(worker.task)) {
      continue;
    }
    // What all run into when they begin is nobody's consequence.
    const bool alike = worker.trouble && worker.trouble->code == cause.trouble->code;
    if (alike && IsEarly(cause)) continue;
    consequences.others.push_back(worker.task.ToString());
  }
  if (!consequences.others.empty()) state_.consequences = std::move(consequences);
  state_.trouble_since = cause.trouble->since;
  Fail(FaultOf(cause), RecordOfTrouble(cause), cause.trouble->tail);
}

std::string Decider::GangRestartText(const Fault& fault, Duration back_off) const {
  std::string text = CauseText(fault);
  // Of some hangs it is said already who is at which step.
  if (fault.step >= 0 && fault.what.find(" at step ") == std::string::npos) {
    absl::StrAppend(&text, " at step ", fault.step);
  }
  absl::StrAppend(&text,
                  state_.options.evaluators > 0 ? "; all but the evaluator restart (restart "
                                                : "; all restart (restart ",
                  state_.restarts.total, ", ");
  if (fault.blame == Blame::kLeave) {
    absl::StrAppend(&text, "not counted");
  } else {
    absl::StrAppend(&text, RestartsLeft(state_.restarts), " left until the next checkpoint");
  }
  absl::StrAppend(&text, ") in ", SecondsText(back_off));
  const GangWatch& gang = state_.gang;
  if (gang.checkpoint.empty()) return text + "; no checkpoint was seen";
  return absl::StrCat(text, "; the last checkpoint seen, ", BaseName(gang.checkpoint), ", is ",
                      AgeText(now_ - gang.checkpoint_written), " old");
}

void Decider::TellConsequences() {
  if (!state_.consequences) return;
  Say(absl::StrCat(AndNames(state_.consequences->others), " ended because ",
                   state_.consequences->cause, " did"));
  state_.consequences.reset();
}

}  // namespace everstep
