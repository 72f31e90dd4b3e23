// membership: a job's state as people and programs see it in status.json.
#include "everstep/membership/job_status.h"

#include <algorithm>

#include "everstep/membership/decider.h"

namespace everstep {
namespace {

const char* NameOf(JobPhase phase) {
  switch (phase) {
    case JobPhase::kGathering:
      return "gathering";
    case JobPhase::kStarting:
      return "starting";
    case JobPhase::kPreparing:
      return "preparing";
    case JobPhase::kTraining:
      return "training";
    case JobPhase::kRunning:
      return "running";
    case JobPhase::kRestarting:
      return "restarting";
    case JobPhase::kEnding:
      return "ending";
    case JobPhase::kEnded:
      break;
  }
  return "ended";
}

// What of a gang's process is known.
const char* StateOf(TimePoint now, const JobState& state, const WorkerEntry& worker) {
  const bool stays = IsEvaluator(worker.task) && (worker.over || !worker.exited);
  if (worker.respawn || (state.phase == JobPhase::kRestarting && !stays)) return "restarting";
  if (worker.finished) return "finished";
  const bool stopped = worker.vitals && worker.vitals_at && !worker.exited &&
                       worker.vitals->stopped > Duration(0) &&
                       now - *worker.vitals_at <= std::chrono::seconds(5);
  return stopped ? "stopped" : NameOf(worker.state);
}

void AddVitals(TimePoint now, const JobState& state, const WorkerEntry& worker,
               TaskStatus* status) {
  status->state = StateOf(now, state, worker);
  if (!worker.vitals) return;
  const Vitals& vitals = *worker.vitals;
  status->step = std::max<Step>(0, vitals.step);
  if (worker.exited) return;
  status->phase = vitals.phase;
  const Duration since = worker.vitals_at ? now - *worker.vitals_at : Duration(0);
  status->silent_seconds = ToSeconds((vitals.beats ? vitals.beat_age : vitals.idle) + since);
  status->cores = vitals.cpu;
  status->memory_bytes = vitals.memory;
  status->seen = vitals.seen;
}

// Ages are told here and not in the state's own line, which is logged whenever it changes.
void AddGang(TimePoint now, const JobState& state, JobStatus* status) {
  const GangWatch& gang = state.gang;
  status->gang = true;
  const bool any = !gang.checkpoint.empty();
  if (any) {
    status->checkpoint_path = gang.checkpoint;
    status->checkpoint_age_seconds = ToSeconds(now - gang.checkpoint_written);
  }
  if (state.phase != JobPhase::kRunning) return;
  const TimePoint saved = any ? std::max(gang.began, gang.checkpoint_written) : gang.began;
  status->unsaved_seconds = std::max(0.0, ToSeconds(now - saved));
  if (any) {
    status->line += ", last checkpoint " + AgeText(now - gang.checkpoint_written) + " ago";
  } else {
    status->line += ", no checkpoint seen";
  }
  if (gang.silent_since) {
    status->line += ", no progress seen for " + AgeText(now - *gang.silent_since);
  }
}

TaskStatus StatusOf(TimePoint now, const JobState& state, const WorkerEntry& worker) {
  TaskStatus status;
  status.task = worker.task.ToString();
  if (auto agent = state.agents.find(worker.agent); agent != state.agents.end()) {
    status.host = HostForPeople(agent->second.self.host);
  }
  status.state = NameOf(worker.state);
  if (worker.hello) status.step = worker.hello->step;
  if (worker.beat) {
    status.phase = worker.beat->phase;
    status.step = worker.beat->step;
  }
  // The last step is told by no heartbeat.
  status.step = std::max(status.step, worker.committed);
  if (worker.closed) status.step = std::max(status.step, worker.closed->step);
  if (worker.leaving) status.step = std::max(status.step, worker.leaving->step);
  if (worker.hello) status.silent_seconds = std::max(0.0, ToSeconds(now - worker.last_beat));
  if (state.restarts.gang) AddVitals(now, state, worker, &status);
  return status;
}

}  // namespace

JobStatus StatusOf(TimePoint now, const JobState& state) {
  JobStatus status;
  status.phase = NameOf(state.phase);
  status.line = state.line;
  status.term = state.options.term;
  status.view = state.view.id;
  status.history = state.origin.history;
  status.step = state.origin.step;
  const JobOptions& options = state.options;
  status.workers_wanted = options.SaidToBeGang() ? options.workers : options.Tasks();
  status.restarts = state.restarts.total;
  status.restarts_left = RestartsLeft(state.restarts);
  status.incidents = state.next_incident - 1;
  if (state.checkpoint) {
    status.checkpoint_step = state.checkpoint->step;
    status.checkpoint_age_seconds = ToSeconds(now - state.checkpoint_at);
  }
  if (state.restarts.gang) AddGang(now, state, &status);
  for (const WorkerEntry& worker : state.workers) {
    status.tasks.push_back(StatusOf(now, state, worker));
    status.step = std::max(status.step, status.tasks.back().step);
    const bool committer = state.view.RankOf(worker.incarnation) == state.view.committer;
    if (committer && worker.beat) status.scalars = worker.beat->scalars;
  }
  if (state.phase == JobPhase::kEnded) {
    status.exit_code = state.ending->code;
    status.reason = state.ending->reason;
  }
  return status;
}

}  // namespace everstep
