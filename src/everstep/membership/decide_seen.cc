// membership: Decide, what a gang has done as far as it is seen from outside: steps that heartbeats
// tell of, checkpoints, whether it is back after a restart.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

// Two agents may see the same file, each a little earlier or later.
constexpr Duration kSameFile = std::chrono::seconds(1);
// What is written so soon after the start may be what the program began with.
constexpr Duration kBeginning = std::chrono::seconds(10);

}  // namespace

void Decider::OnCheckpointSeen(const CheckpointSeen& seen) {
  GangWatch& gang = state_.gang;
  const TimePoint written = now_ - seen.age;
  if (!gang.checkpoint.empty()) {
    const bool same = gang.checkpoint == seen.path;
    if (written <= gang.checkpoint_written + (same ? kSameFile : Duration(0))) return;
  }
  gang.checkpoint = seen.path;
  gang.checkpoint_written = written;
  gang.checkpoint_seen = gang.checkpoint_warned = now_;
  gang.progressed = true;
  if (!IsGang()) return;
  const bool at_start =
      std::any_of(state_.workers.begin(), state_.workers.end(), [&](const WorkerEntry& worker) {
        return IsTrainer(worker.task) && written - worker.spawned < kBeginning;
      });
  BookCheckpointSeen(state_.restarts, at_start);
  BookCheckpointSeen(state_.evaluator_restarts, at_start);
  Log(absl::StrCat("a checkpoint was seen: ", seen.path));
  if (state_.phase != JobPhase::kRunning) return;
  for (const WorkerEntry& worker : state_.workers) {
    const bool writes = worker.task.type == "chief" || worker.task == Task{"worker", 0};
    if (writes && !worker.exited && written > worker.spawned) return CloseIncidents(&worker);
  }
}

void Decider::OnAgentNote(const std::string& agent, const Note& note) {
  if (note.kind != record_kind::kCheckpointRejected || WasNoted(0, note)) return;
  JobRecord record = RecordOf(note.kind.c_str());
  if (auto it = state_.agents.find(agent); it != state_.agents.end()) {
    record.host = HostForPeople(it->second.self.host);
  }
  record.incident = state_.next_incident++;
  record.cause = note.text;
  Write(std::move(record));
  Say(note.text, true);
}

void Decider::SeeProgress(const WorkerEntry& worker) {
  const Vitals& vitals = *worker.vitals;
  const std::string name = worker.task.ToString();
  const bool went_on = vitals.step >= 0 || vitals.wrote;
  if (went_on) state_.gang.progressed = true;
  if (state_.phase != JobPhase::kRunning) return;
  const bool back = std::any_of(
      state_.open_incidents.begin(), state_.open_incidents.end(),
      [&](const OpenIncident& incident) { return incident.restored && incident.alone == name; });
  // One that others can do without is back when it runs.
  if ((went_on && !IsEvaluator(worker.task)) || (back && worker.task.type != "chief")) {
    CloseIncidents(&worker);
  }
  if (vitals.step < 0 || vitals.step == state_.gang.step_told) return;
  if (worker.incarnation != state_.workers.front().incarnation) return;
  state_.gang.step_told = vitals.step;
  Progress progress;
  progress.step = progress.scalars.step_in_epoch = vitals.step;
  progress.workers = state_.options.Tasks();
  TellAllAgents(std::move(progress));
}

// `worker` goes on, so what interrupted it is over; nullptr: the whole job is done.
void Decider::CloseIncidents(const WorkerEntry* worker) {
  auto& open = state_.open_incidents;
  auto over = [&](const OpenIncident& incident) {
    if (worker == nullptr) return true;
    if (!incident.restored) return false;
    if (incident.alone.empty()) return !IsEvaluator(worker->task);
    return incident.alone == worker->task.ToString();
  };
  const auto first = std::stable_partition(
      open.begin(), open.end(), [&](const OpenIncident& incident) { return !over(incident); });
  if (first == open.end()) return;
  for (auto incident = first; incident != open.end(); ++incident) {
    JobRecord record = RecordOf(record_kind::kRecovered);
    record.incident = incident->number;
    if (incident->step >= 0) record.step = incident->step;
    record.lost_seconds = ToSeconds(now_ - incident->since);
    if (worker != nullptr && worker->vitals && worker->vitals->step >= 0 && incident->step >= 0) {
      record.restored_step = worker->vitals->step;
      record.repeated_steps = std::max<Step>(0, incident->step - worker->vitals->step);
    }
    Write(std::move(record));
  }
  const OpenIncident& newest = *std::prev(open.end());
  if (worker != nullptr) {
    const bool alone = !newest.alone.empty() && worker->task.type != "chief";
    Say(absl::StrCat(alone ? absl::StrCat(NameFor(*worker), " is back") : "training again", ", ",
                     SecondsText(now_ - newest.since), " after the failure"));
  }
  open.erase(first, open.end());
}

void Decider::WarnOfNoCheckpoint() {
  GangWatch& gang = state_.gang;
  if (now_ - gang.checkpoint_warned < state_.options.no_checkpoint_after) return;
  gang.checkpoint_warned = now_;
  const bool any = !gang.checkpoint.empty();
  const TimePoint saved = any ? std::max(gang.began, gang.checkpoint_written) : gang.began;
  const TimePoint seen = any ? std::max(gang.began, gang.checkpoint_seen) : gang.began;
  JobRecord record = RecordOf(record_kind::kNoCheckpoint);
  record.incident = state_.next_incident++;
  record.cause = absl::StrCat("nothing like a checkpoint was written for ", AgeText(now_ - seen),
                              "; a restart would lose ", AgeText(now_ - saved),
                              "; if it saves elsewhere say where: --checkpoint-path DIR");
  Say(record.cause, true);
  Write(std::move(record));
}

// ---- words ----

std::string AgeText(Duration d) {
  const double seconds = std::max(0.0, ToSeconds(d));
  if (seconds < 120) return absl::StrCat(static_cast<int64_t>(seconds), " s");
  if (seconds < 7200) return absl::StrCat(static_cast<int64_t>(seconds / 60), " min");
  return absl::StrCat(static_cast<int64_t>(seconds / 3600), " h");
}

std::string AndNames(const std::vector<std::string>& all) {
  if (all.size() < 2 || all.size() > 5) return NamesOf(all);
  return absl::StrCat(absl::StrJoin(all.begin(), all.end() - 1, ", "), " and ", all.back());
}

}  // namespace everstep
