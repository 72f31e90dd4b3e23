// engine: Engine, the training thread's way through steps, views and checkpoints. It carries out
// what WorkerMachine decides and runs rounds while a view is running. A round cut short is
// forgotten and run again in the next view with the same bits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/checkpoint/store.h"
#include "everstep/collective/communicator.h"
#include "everstep/data/batch_source.h"
#include "everstep/engine/checkpointer.h"
#include "everstep/engine/probe.h"
#include "everstep/engine/round.h"
#include "everstep/engine/worker_machine.h"
#include "everstep/learner/learner.h"
#include "everstep/membership/control.h"
#include "everstep/metrics/phase.h"

namespace everstep {

// The parts an engine drives. All are the caller's and outlive the engine; the store is shared, as
// a write that hangs may outlive even it.
struct EngineParts {
  Learner* learner = nullptr;
  CommunicatorFactory* collectives = nullptr;
  ControlLink* control = nullptr;
  std::shared_ptr<CheckpointStore> checkpoints;
  const Clock* clock = nullptr;
  PhaseBoard* phases = nullptr;
  Probe* probe = nullptr;
};

struct EngineOptions {
  Hello hello;  // who this worker is, with its fingerprint
  int num_replicas = 1;
  uint64_t seed = 0;
  Duration link_deadline = std::chrono::seconds(30);   // linking all members of a view
  Duration round_deadline = std::chrono::minutes(15);  // one round, input and storage included
  Duration coordinator_deadline = std::chrono::seconds(60);  // away for longer when it is needed
  // Rounds of training between comparisons of the state's digest; 0 = never.
  int digest_every = 100;
  // Between two checkpoints by time; zero: none by time; not said: by what one costs.
  std::optional<Duration> checkpoint_interval = Duration(0);
  int checkpoint_attempts = 8;  // at the last one, with pauses from 2 s on, doubled each time
  // A piece of writing that takes longer is told of.
  Duration slow_storage = std::chrono::seconds(10);
};

// What a step came to; the same on all workers. Memory is the engine's, valid during the call.
struct StepReport {
  Step step = 0;
  int64_t examples = 0;  // of the whole step
  absl::Span<const float> statistics;
};

struct TrainPlan {
  BatchSource* source = nullptr;
  Step begin = 0;                                     // the step that the source calls 0
  Step end = 0;                                       // trains until the state is at this step
  Step checkpoint_every = 0;                          // steps; 0 = not by steps
  std::function<void(const StepReport&)> after_step;  // on every worker, after the update
};

struct EvaluationSums {
  std::vector<double> sums;  // as Learner::Summarize takes them
  int64_t examples = 0;
};

// One thread. Errors: kCancelled: told to leave, a checkpoint of the present step is committed; the
// caller calls Leave next. kUnavailable, kAborted, kDeadlineExceeded never mean "try this again":
// what could be tried again has been. Any error but kCancelled ends the worker's part in the job.
class Engine {
 public:
  // Binds the learner to fresh state memory (step 0). Says nothing to the coordinator and reads no
  // checkpoint yet.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineParts& parts,
                                                        EngineOptions options);
  ~Engine();

  absl::Status Train(const TrainPlan& plan);
  // Loss and metrics over steps [0, steps) of `source` at the present state.
  absl::StatusOr<EvaluationSums> Evaluate(BatchSource& source, Step steps);
  // Fills the state from the newest good checkpoint, if there is one. The first call that needs a
  // view does it, if nobody has before. Errors are final: kDataLoss or kFailedPrecondition when
  // there are checkpoints but none that this model can go on from.
  // `accept` as CheckpointStore has it.
  absl::Status Restore(const CheckpointStore::Accept& accept = nullptr);
  // Commits a checkpoint of the present step: returns OK on all workers once it is durable and all
  // digests agreed, else the same kind of error on all. Tries again for some minutes when the disk
  // does not take it.
  absl::Status Checkpoint();

  // The end of this worker's part: says so and waits for the coordinator's word. Returns the
  // process's exit code. Nothing else may be called after it.
  int Leave(LeaveReason reason, int exit_code, const std::string& message);

  Step step() const { return parts_.learner->step(); }
  // Why the coordinator stopped this worker; empty when it did not.
  const std::string& stop_reason() const { return machine_.end().reason; }

 private:
  struct AlignedFree {
    void operator()(std::byte* p) const;
  };

  Engine(const EngineParts& parts, EngineOptions options);

  absl::Status EnterView();
  absl::Status WaitForOrder();
  void Perform(const Actions& actions);
  void PollOrders();
  void HandleOrder(const WorkerOrder& order);
  absl::Status Link(const View& view, const StateOrigin& origin);
  absl::Status TakeOrigin(const StateOrigin& origin);
  // That a training of `plan` is what a state of `id` comes from, or what went before it.
  static absl::Status CheckTraining(const CheckpointId& id, const TrainPlan& plan);
  void Unlink();

  // Runs `round` in a running view until it succeeds there or an error that is final comes up.
  absl::Status InView(const std::function<absl::Status()>& round);
  absl::Status TrainStep(const TrainPlan& plan, bool* leave);
  // Ends a round of the call that call_ names. `state_digest`: of the state, where the round
  // compares it.
  absl::Status Conclude(std::optional<uint64_t> state_digest, Verdict* verdict);
  absl::Status CheckVerdict(const Verdict& verdict, bool compared) const;
  absl::Status LeaveAtBoundary();
  Vote MakeVote();

  // engine_checkpoint.cc
  bool CheckpointIsDue() const;
  void BeginCheckpointIfDue(Step every, const Verdict& verdict);
  void BeginCheckpoint();
  void Ended(const CheckpointOutcome& outcome);
  void TellOfSlowStorage();
  // A round that trains nothing, for what is under way to get on; waits a moment for it.
  absl::Status SettleRound(Verdict* verdict);
  // One attempt at a checkpoint of the present step.
  absl::Status TryCheckpoint();

  Position Now() const;
  Deadline RoundDeadline() const { return After(*parts_.clock, options_.round_deadline); }
  absl::Span<std::byte> memory() const;

  EngineParts parts_;
  EngineOptions options_;
  WorkerMachine machine_;
  std::unique_ptr<std::byte[], AlignedFree> memory_;
  std::vector<TensorSpan> state_;
  std::unique_ptr<Communicator> communicator_;
  BatchSource* source_ = nullptr;  // of the running round
  std::unique_ptr<RoundRunner> runner_;
  BatchSource* runner_source_ = nullptr;
  Round round_ = 0;
  uint64_t call_ = 0;  // names the running Train or Evaluate and its arguments
  History history_ = 0;
  CheckpointId trained_;  // its data and fit_begin: what the present state was trained on
  bool restored_ = false;
  std::vector<Note> unsaid_;  // nothing counts before hello
  bool unfindable_ = false;   // a restart would not find the state that was restored
  Checkpointer checkpointer_;
  std::optional<CheckpointOutcome> last_outcome_;  // equal on all members but for the reason
  TimePoint last_checkpoint_;                      // when it began, or the training
  Duration checkpoint_cost_{};                     // of the last one, to the training thread
  Duration checkpoint_took_{};
  bool told_slow_ = false;
  Step checkpointed_ = -1;            // the newest committed one
  absl::Status refused_;              // a view that cannot be of this job
  std::optional<Stop> pending_stop_;  // to leave at the next boundary
};

}  // namespace everstep
