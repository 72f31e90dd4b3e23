// engine: Engine, what it has to do with checkpoints: restoring, when one is due, the last one.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"
#include "everstep/engine/engine.h"
#include "everstep/env/clock.h"
#include "everstep/job/record.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

// Between two failures, where nothing better is known.
constexpr Duration kAssumedMtbf = std::chrono::hours(4);
// Also until the first one, which shows what one costs.
constexpr Duration kShortestInterval = std::chrono::seconds(1);
constexpr Duration kLongestInterval = std::chrono::minutes(30);
// Writing in the background takes processor time and bandwidth from training, too.
constexpr int kWriteShare = 10;
// For what is under way in a round that trains nothing.
constexpr Duration kSettle = std::chrono::milliseconds(200);
constexpr int kFirstPauseRounds = 5;

// Young's interval: the square root of twice the cost times the time between failures.
// J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974.
Duration YoungInterval(Duration cost, Duration took) {
  const double seconds = std::sqrt(2 * ToSeconds(cost) * ToSeconds(kAssumedMtbf));
  const Duration interval(static_cast<int64_t>(seconds * 1e9));
  return std::clamp<Duration>(std::max<Duration>(interval, kWriteShare * took), kShortestInterval,
                              kLongestInterval);
}

}  // namespace

absl::Status Engine::Restore(const CheckpointStore::Accept& accept) {
  if (restored_) return absl::OkStatus();
  parts_.phases->Enter(Phase::kRestore);
  const absl::StatusOr<RestoredCheckpoint> restored = parts_.checkpoints->Restore(state_, accept);
  if (!restored.ok() && !absl::IsNotFound(restored.status())) return restored.status();
  restored_ = true;
  last_checkpoint_ = parts_.clock->Now();
  if (!restored.ok()) return absl::OkStatus();
  for (const RejectedCheckpoint& rejected : restored->rejected) {
    const std::string why(rejected.why.message());
    log::Warning("engine", "passes over a checkpoint: {}", why);
    unsaid_.push_back({record_kind::kCheckpointRejected, rejected.id.step, why});
  }
  history_ = restored->history;
  trained_ = restored->id;
  parts_.phases->SetStep(step());
  unfindable_ = !restored->is_newest;
  if (!unfindable_) checkpointed_ = step();
  log::Info("engine", "goes on from {}", parts_.checkpoints->PathOf(restored->id));
  return absl::OkStatus();
}

// Which examples a step has, and so what has been trained, follows from data and batch size.
absl::Status Engine::CheckTraining(const CheckpointId& id, const TrainPlan& plan) {
  const bool inside = plan.begin < id.step && id.step <= plan.end;
  const bool by_this_call = id.fit_begin == plan.begin;
  const bool same = id.data == plan.source->fingerprint();
  if (id.data == 0 || (by_this_call ? same : !inside)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", id.step,
      " was trained on other data, with another batch size or by other calls of Fit than this "
      "program makes; start the job with the arguments it had, or begin another one from its "
      "checkpoint: everstep run --resume CHECKPOINT --job-dir NEW"));
}

// ---- while training ----

// What one member wishes is done by all: by time the committer's clock decides.
bool Engine::CheckpointIsDue() const {
  if (!checkpointer_.idle()) return false;
  if (unfindable_) return true;
  if (communicator_->rank() != communicator_->view().committer) return false;
  const Duration interval = options_.checkpoint_interval.has_value()
                                ? *options_.checkpoint_interval
                                : YoungInterval(checkpoint_cost_, checkpoint_took_);
  if (interval <= Duration(0)) return false;
  return parts_.clock->Now() - last_checkpoint_ >= interval;
}

void Engine::BeginCheckpointIfDue(Step every, const Verdict& verdict) {
  const bool due = (every > 0 && step() % every == 0) || (verdict.wishes & kWishCheckpoint) != 0;
  // Whether one can begin must not depend on this member alone: the verdict and the stage do not.
  if (!due || !checkpointer_.idle() || (verdict.wishes & kWishWriting) != 0) return;
  BeginCheckpoint();
}

void Engine::BeginCheckpoint() {
  parts_.phases->Enter(Phase::kCheckpoint);
  const CheckpointId id{step(), history_, communicator_->view().id, trained_.data,
                        trained_.fit_begin};
  checkpoint_cost_ =
      checkpointer_.Begin(id, memory(), communicator_->view(), communicator_->rank());
  last_checkpoint_ = parts_.clock->Now();
  told_slow_ = false;
}

void Engine::Ended(const CheckpointOutcome& outcome) {
  last_outcome_ = outcome;
  if (outcome.status.ok()) {
    checkpointed_ = outcome.id.step;
    unfindable_ = false;
    checkpoint_took_ = outcome.took;
    if (!outcome.mine) return;
    parts_.control->Send(CheckpointCommitted{outcome.id.view, outcome.id.history, outcome.id.step,
                                             parts_.checkpoints->PathOf(outcome.id),
                                             static_cast<int64_t>(memory().size()), outcome.took});
    return;
  }
  if (!outcome.mine) return;
  const std::string why =
      absl::StrCat("no checkpoint of step ", outcome.id.step, ": ", outcome.status.message());
  log::Warning("engine", "{}", why);
  parts_.control->Send(Note{record_kind::kCheckpointFailed, outcome.id.step, why});
}

void Engine::TellOfSlowStorage() {
  const Duration busy = checkpointer_.BusyFor();
  if (told_slow_ || busy < options_.slow_storage) return;
  told_slow_ = true;
  const std::string text =
      absl::StrCat("writing a checkpoint has taken ", static_cast<int>(ToSeconds(busy)),
                   " s so far; training goes on, further checkpoints wait for it");
  log::Warning("engine", "{}", text);
  parts_.control->Send(Note{record_kind::kStorageSlow, step(), text});
}

// ---- of the present step ----

absl::Status Engine::SettleRound(Verdict* verdict) {
  return InView([&] {
    parts_.phases->Enter(Phase::kCheckpoint);
    checkpointer_.WaitForThread(After(*parts_.clock, kSettle));
    return Conclude(std::nullopt, verdict);
  });
}

absl::Status Engine::TryCheckpoint() {
  last_outcome_.reset();
  while (true) {
    Verdict verdict;
    EV_RETURN_IF_ERROR(SettleRound(&verdict));
    if (last_outcome_.has_value() && last_outcome_->id.step == step()) {
      if (last_outcome_->status.ok()) return absl::OkStatus();
      // The reason of the one at fault becomes the same kind as the others see.
      return absl::ResourceExhaustedError(last_outcome_->status.message());
    }
    // Members need not know alike whether this step has been saved: one is enough that does not.
    if ((verdict.wishes & kWishUnsaved) == 0) return absl::OkStatus();
    if (checkpointer_.idle() && (verdict.wishes & kWishWriting) == 0) BeginCheckpoint();
  }
}

absl::Status Engine::Checkpoint() {
  for (int attempt = 1;; ++attempt) {
    const absl::Status status = TryCheckpoint();
    if (!absl::IsResourceExhausted(status) || attempt >= options_.checkpoint_attempts) {
      return status;
    }
    log::Warning("engine",
                 "all steps are done, but the checkpoint of the last one, {}, is not written: {}; "
                 "it is tried again for some minutes",
                 step(), std::string(status.message()));
    // Rounds, not a clock: the pause ends at the same one on all members.
    for (int round = 0; round < kFirstPauseRounds << attempt; ++round) {
      SleepFor(kSettle);
      Verdict verdict;
      EV_RETURN_IF_ERROR(SettleRound(&verdict));
      if ((verdict.wishes & kWishLeave) != 0) return status;
    }
  }
}

absl::Status Engine::LeaveAtBoundary() {
  const absl::Status saved = TryCheckpoint();
  if (!saved.ok()) {
    log::Warning("engine", "leaving without a checkpoint of step {}: {}", step(),
                 std::string(saved.message()));
  }
  return absl::CancelledError(absl::StrCat("told to leave; stopped after step ", step()));
}

}  // namespace everstep
