// membership: Decide, what is put on record, and when.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/job/spec.h"
#include "everstep/membership/decider.h"

namespace everstep {
namespace {

constexpr Duration kNoteInterval = std::chrono::minutes(1);

bool IsKindOfNote(const std::string& kind) {
  return kind == record_kind::kCheckpointFailed || kind == record_kind::kCheckpointRejected ||
         kind == record_kind::kStorageSlow;
}

}  // namespace

void Decider::Write(JobRecord record) {
  record.term = state_.options.term;
  ++state_.records;
  decision_.actions.push_back(Record{std::move(record)});
}

// Where the job is; `worker`: the one it is about.
JobRecord Decider::RecordOf(const char* kind, const WorkerEntry* worker) const {
  JobRecord record;
  record.kind = kind;
  record.view = state_.view.id;
  record.history = state_.origin.history;
  if (const Step step = StepReached(); step >= 0) record.step = step;
  if (worker == nullptr) return record;
  record.task = worker->task.ToString();
  if (auto agent = state_.agents.find(worker->agent); agent != state_.agents.end()) {
    record.host = HostForPeople(agent->second.self.host);
  }
  return record;
}

JobRecord Decider::RecordOfTrouble(const WorkerEntry& worker) const {
  const Trouble& trouble = *worker.trouble;
  JobRecord record = RecordOf(trouble.hung   ? record_kind::kWorkerHung
                              : trouble.lost ? record_kind::kWorkerLost
                                             : record_kind::kWorkerFailed,
                              &worker);
  record.evidence = trouble.evidence;
  record.stacks = trouble.stacks;
  record.exit_code = trouble.exit_code;
  if (trouble.signal != 0) record.signal = trouble.signal;
  record.oom = trouble.oom;
  record.tail = LastLines(trouble.tail);
  record.log = trouble.log;
  return record;
}

// All steps before `step` are done, perhaps again.
void Decider::WriteRecovered(Step step) {
  auto& open = state_.open_incidents;
  for (const OpenIncident& incident : open) {
    if (!incident.restored || step <= incident.step) continue;
    JobRecord record = RecordOf(record_kind::kRecovered);
    record.incident = incident.number;
    if (incident.step >= 0) record.step = incident.step;
    record.restored_step = incident.restored_step;
    record.lost_seconds = ToSeconds(now_ - incident.since);
    record.repeated_steps = std::max<Step>(0, incident.step - incident.restored_step);
    Write(std::move(record));
  }
  open.erase(std::remove_if(open.begin(), open.end(),
                            [&](const OpenIncident& incident) {
                              return incident.restored && step > incident.step;
                            }),
             open.end());
}

void Decider::OnCheckpoint(WorkerEntry& worker, const CheckpointCommitted& committed) {
  if (committed.history == state_.origin.history) worker.committed = committed.step;
  BookCheckpoint(state_.restarts, committed.history, committed.step);
  const auto place = [](const CheckpointCommitted& c) { return std::make_pair(c.history, c.step); };
  if (state_.checkpoint && place(committed) <= place(*state_.checkpoint)) return;  // said again
  state_.checkpoint = committed;
  state_.checkpoint_at = now_;
  // A run that was told which checkpoint to begin from goes on from its own ones when it restarts.
  state_.options.settings[kRestoreFromVariable].clear();
}

void Decider::OnNote(const WorkerEntry& worker, const Note& note) {
  if (!IsKindOfNote(note.kind) || WasNoted(worker.incarnation, note)) return;
  Log(absl::StrCat(NameFor(worker), ": ", note.kind, " at step ", note.step, ": ", note.text),
      true);
  JobRecord record = RecordOf(note.kind.c_str(), &worker);
  record.incident = state_.next_incident++;
  record.step = note.step;
  record.cause = note.text;
  Write(std::move(record));
}

// What is bad with storage is bad often, and for all workers; once a minute will do. Nor does a
// worker that repeats itself after a reconnect say anything new.
bool Decider::WasNoted(Incarnation from, const Note& note) {
  auto& notes = state_.notes;
  if (auto it = notes.find({note.kind, note.text}); it != notes.end()) {
    const NoteHeard& heard = it->second;
    if (now_ - heard.at < kNoteInterval) return true;
    if (heard.from == from && heard.step == note.step) return true;
  }
  constexpr size_t kMaxNotes = 1000;  // texts may all differ: forget rather than grow for ever
  if (notes.size() >= kMaxNotes) notes.clear();
  notes[{note.kind, note.text}] = {now_, from, note.step};
  return false;
}

}  // namespace everstep
