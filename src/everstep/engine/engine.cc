// engine: Engine.
#include "everstep/engine/engine.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/engine/state_sync.h"
#include "everstep/metrics/log.h"

namespace everstep {
namespace {

constexpr size_t kAlignment = 64;
// For the last word of a coordinator that may only have lost its connection.
constexpr Duration kFarewell = std::chrono::seconds(2);
constexpr ViewId kEveryView{std::numeric_limits<int64_t>::max(), 0};

// Errors after which the same round can be run again in another view.
bool EndsTheViewOnly(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

void Engine::AlignedFree::operator()(std::byte* p) const { std::free(p); }

Engine::Engine(const EngineParts& parts, EngineOptions options)
    : parts_(parts),
      options_(std::move(options)),
      machine_(options_.hello),
      checkpointer_(parts.checkpoints, parts.learner->layout(), *parts.clock),
      last_checkpoint_(parts.clock->Now()) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineParts& parts,
                                                       EngineOptions options) {
  std::unique_ptr<Engine> engine(new Engine(parts, std::move(options)));
  const StateLayout& layout = parts.learner->layout();
  const size_t bytes = (layout.state_bytes + kAlignment - 1) / kAlignment * kAlignment;
  engine->memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
  if (engine->memory_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for the state, ", bytes, " bytes"));
  }
  std::memset(engine->memory_.get(), 0, bytes);
  EV_RETURN_IF_ERROR(parts.learner->Bind({engine->memory()}, engine->options_.seed));
  engine->state_ = StateTensors(layout, engine->memory());
  EV_RETURN_IF_ERROR(
      parts.collectives->Prepare(ArenaShapeFor(layout, engine->options_.num_replicas)));
  Probe* probe = parts.probe;
  probe->SetFactory(parts.collectives);
  parts.control->OnInterrupt([probe](const WorkerOrder& order) {
    if (const auto* stop = std::get_if<Stop>(&order)) {
      // Told to leave is not an accident: the step is finished first.
      if (stop->code == kExitToldToLeave) return probe->TellToLeave();
      return probe->Interrupt(kEveryView,
                              absl::AbortedError(absl::StrCat("the job ends: ", stop->reason)));
    }
    if (const auto* close = std::get_if<Close>(&order)) {
      probe->Interrupt(close->view,
                       absl::AbortedError(absl::StrCat("the view is closed: ", close->reason)));
    }
  });
  return engine;
}

Engine::~Engine() {
  parts_.control->OnInterrupt(nullptr);
  Unlink();
}

absl::Span<std::byte> Engine::memory() const {
  return {memory_.get(), static_cast<size_t>(parts_.learner->layout().state_bytes)};
}

Position Engine::Now() const { return {step(), history_, QuickDigest(state_)}; }

// ---- views ----

absl::Status Engine::Link(const View& view, const StateOrigin& origin) {
  if (view.num_replicas != options_.num_replicas) {
    refused_ = absl::FailedPreconditionError(
        absl::StrCat("this process shares its batches among ", options_.num_replicas,
                     " replicas but the job has ", view.num_replicas,
                     "; the program must leave EVERSTEP_REPLICAS as it finds it"));
    return refused_;
  }
  auto communicator = parts_.collectives->Connect(view, options_.hello.incarnation,
                                                  After(*parts_.clock, options_.link_deadline));
  EV_RETURN_IF_ERROR(communicator.status());
  communicator_ = std::move(*communicator);
  round_ = 0;
  parts_.probe->SetCommunicator(communicator_.get());
  log::Info("engine", "view {}: rank {} of {}, replicas [{}, {}) of {}", view.id.ToString(),
            communicator_->rank(), view.members.size(),
            view.members[communicator_->rank()].replica_begin,
            view.members[communicator_->rank()].replica_end, view.num_replicas);
  return TakeOrigin(origin);
}

// All members begin a view with one state. A worker never chooses by itself: whoever holds another
// one takes the donor's.
absl::Status Engine::TakeOrigin(const StateOrigin& origin) {
  const Position own = Now();
  const bool same =
      own.history == origin.history && own.step == origin.step && own.digest == origin.digest;
  if (origin.donor < 0) {
    if (same) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the view begins at step ", origin.step,
                                            " and this worker is at step ", own.step,
                                            ", but nobody gives it the state"));
  }
  std::vector<std::byte> taken(memory().size());
  EV_RETURN_IF_ERROR(SyncState(*communicator_, parts_.learner->layout(), origin.donor, memory(),
                               absl::MakeSpan(taken), &round_, RoundDeadline()));
  if (same) return absl::OkStatus();
  if (QuickDigest(StateTensors(parts_.learner->layout(), absl::MakeSpan(taken))) != origin.digest) {
    return absl::InternalError("the state that was sent does not have the digest that was said");
  }
  std::memcpy(memory_.get(), taken.data(), taken.size());
  history_ = origin.history;
  parts_.phases->SetStep(step());
  log::Warning("engine", "takes the state of step {} from {} in place of its own of step {}",
               origin.step, communicator_->view().members[origin.donor].task.ToString(), own.step);
  return absl::OkStatus();
}

void Engine::Unlink() {
  parts_.probe->SetCommunicator(nullptr);
  checkpointer_.Drop();
  runner_.reset();
  communicator_.reset();
}

void Engine::Perform(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* say = std::get_if<SayAction>(&action)) {
      parts_.control->Send(say->message);
    } else if (const auto* link = std::get_if<LinkAction>(&action)) {
      parts_.phases->Enter(Phase::kViewChange);
      const absl::Status linked = Link(link->view, link->origin);
      Perform(machine_.Linked(linked, BlamedPeer(linked), Now()));
    } else if (std::holds_alternative<UnlinkAction>(action)) {
      Unlink();
    }
  }
}

void Engine::HandleOrder(const WorkerOrder& order) {
  const auto* stop = std::get_if<Stop>(&order);
  if (stop != nullptr && stop->code == kExitToldToLeave &&
      machine_.state() == WorkerMachine::State::kRunning) {
    pending_stop_ = *stop;
    parts_.probe->TellToLeave();
    return;
  }
  Perform(machine_.OnOrder(order, Now()));
}

void Engine::PollOrders() {
  while (refused_.ok()) {
    auto order = parts_.control->Next(TimePoint());
    if (!order) return;
    HandleOrder(*order);
  }
}

absl::Status Engine::WaitForOrder() {
  if (auto order = parts_.control->Next(After(*parts_.clock, std::chrono::milliseconds(200)))) {
    HandleOrder(*order);
    return absl::OkStatus();
  }
  const Duration away = parts_.control->AwayFor();
  if (away < options_.coordinator_deadline) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the coordinator has been out of reach for ",
                                             static_cast<int>(ToSeconds(away)),
                                             " s and a new view is needed"));
}

absl::Status Engine::EnterView() {
  if (machine_.state() == WorkerMachine::State::kNew) {
    EV_RETURN_IF_ERROR(Restore());
    if (parts_.probe->ToldToLeave()) {
      return absl::CancelledError("told to leave before the first step");
    }
    Perform(machine_.Start(Now()));
    for (Note& note : std::exchange(unsaid_, {})) parts_.control->Send(std::move(note));
  }
  PollOrders();
  while (machine_.state() != WorkerMachine::State::kRunning) {
    if (machine_.state() == WorkerMachine::State::kEnded) {
      return WithExitCode(absl::CancelledError(machine_.end().reason), machine_.end().code);
    }
    if (!refused_.ok()) return refused_;
    // A job that is told to leave ends although its view is broken: nobody will make a new one.
    if (pending_stop_) {
      Perform(machine_.OnOrder(*pending_stop_, Now()));
      continue;
    }
    if (parts_.probe->ToldToLeave()) {
      return absl::CancelledError(
          absl::StrCat("told to leave while no step could run, at step ", step()));
    }
    parts_.phases->Enter(Phase::kViewChange);
    EV_RETURN_IF_ERROR(WaitForOrder());
  }
  return absl::OkStatus();
}

absl::Status Engine::InView(const std::function<absl::Status()>& round) {
  while (true) {
    EV_RETURN_IF_ERROR(EnterView());
    if (runner_ == nullptr || runner_source_ != source_) {
      runner_ =
          std::make_unique<RoundRunner>(RoundParts{parts_.learner, communicator_.get(), source_,
                                                   parts_.phases, &parts_.probe->input_cancel()});
      runner_source_ = source_;
    }
    absl::Status status = round();
    if (status.ok()) return status;
    const bool input_cut = absl::IsCancelled(status) && parts_.probe->input_cancel().IsSet();
    if (!EndsTheViewOnly(status) && !input_cut) return status;
    log::Warning("engine", "step {} is cut short: {}", step(), std::string(status.message()));
    Perform(machine_.RoundFailed(status, BlamedPeer(status)));
  }
}

// ---- rounds ----

Vote Engine::MakeVote() {
  Vote vote;
  vote.step = step();
  if (parts_.probe->ToldToLeave()) vote.wishes |= kWishLeave;
  if (CheckpointIsDue()) vote.wishes |= kWishCheckpoint;
  if (checkpointed_ != step()) vote.wishes |= kWishUnsaved;
  checkpointer_.AddTo(&vote);
  return vote;
}

absl::Status Engine::Conclude(std::optional<uint64_t> state_digest, Verdict* verdict) {
  Vote vote = MakeVote();
  const bool compared = state_digest.has_value() || checkpointer_.compares();
  // Programs that make different calls would wait for each other or mix up their sums.
  vote.digest = HashKey({call_, vote.digest, state_digest.value_or(0)});
  EV_ASSIGN_OR_RETURN(*verdict, communicator_->Conclude(round_, vote, RoundDeadline()));
  ++round_;
  EV_RETURN_IF_ERROR(CheckVerdict(*verdict, compared));
  if (auto outcome = checkpointer_.Hear(*verdict)) Ended(*outcome);
  TellOfSlowStorage();
  return absl::OkStatus();
}

absl::Status Engine::CheckVerdict(const Verdict& verdict, bool compared) const {
  if (verdict.min_step != verdict.max_step) {
    return absl::InternalError(absl::StrCat("workers of one view are at different steps, ",
                                            verdict.min_step, " to ", verdict.max_step));
  }
  if (!verdict.digests_equal && !compared) {
    return absl::FailedPreconditionError(
        "the workers' programs do not make the same calls: Fit or Evaluate was called with other "
        "data, batch size, epochs or checkpoint interval on another worker; all must be started "
        "with the same arguments");
  }
  if (!verdict.digests_equal) {
    return absl::InternalError(absl::StrCat(
        "the states of the workers differ at step ", verdict.min_step,
        ": a machine computed other bits, or memory was damaged; nothing after the last "
        "checkpoint can be trusted"));
  }
  return absl::OkStatus();
}

absl::Status Engine::TrainStep(const TrainPlan& plan, bool* leave) {
  const Step now = step();
  std::optional<uint64_t> digest;
  if (options_.digest_every > 0 && now % options_.digest_every == options_.digest_every - 1) {
    digest = QuickDigest(state_);
  }
  EV_RETURN_IF_ERROR(runner_->Train(round_, now, now - plan.begin, RoundDeadline()));
  Verdict verdict;
  EV_RETURN_IF_ERROR(Conclude(digest, &verdict));
  *leave = (verdict.wishes & kWishLeave) != 0;
  parts_.phases->Enter(Phase::kUpdate);
  const Reduced reduced = runner_->result();
  // An error inside the update leaves the state unknown; it is final, never run again.
  absl::Status applied = parts_.learner->Apply(now, reduced);
  if (!applied.ok()) return absl::InternalError(applied.message());
  parts_.phases->SetStep(now + 1);
  if (plan.after_step) {
    plan.after_step({now, plan.source->GlobalExamples(now - plan.begin), reduced.statistics});
  }
  BeginCheckpointIfDue(plan.checkpoint_every, verdict);
  return absl::OkStatus();
}

absl::Status Engine::Train(const TrainPlan& plan) {
  EV_RETURN_IF_ERROR(Restore([&](const CheckpointId& id) { return CheckTraining(id, plan); }));
  EV_RETURN_IF_ERROR(CheckTraining({step(), 0, {}, trained_.data, trained_.fit_begin}, plan));
  if (trained_.data != 0 && trained_.fit_begin == plan.begin && step() > plan.end) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job is at step ", step(), ", beyond the ", plan.end,
                     " steps that this program asks for, so nothing is left to train; ask for more "
                     "epochs, or go "
                     "back by everstep run --resume CHECKPOINT"));
  }
  source_ = plan.source;
  call_ = HashKey({1, plan.source->fingerprint(), static_cast<uint64_t>(plan.begin),
                   static_cast<uint64_t>(plan.end), static_cast<uint64_t>(plan.checkpoint_every)});
  while (step() < plan.end) {
    bool leave = false;
    absl::Status status = InView([&] {
      // The view may have begun with a state that is further.
      if (step() >= plan.end) return absl::OkStatus();
      trained_.data = plan.source->fingerprint();
      trained_.fit_begin = plan.begin;
      const Member& self = communicator_->view().members[communicator_->rank()];
      plan.source->Expect({step() - plan.begin, plan.end - plan.begin}, self.replica_begin,
                          self.replica_end);
      return TrainStep(plan, &leave);
    });
    EV_RETURN_IF_ERROR(status);
    if (leave) return LeaveAtBoundary();
  }
  return absl::OkStatus();
}

absl::StatusOr<EvaluationSums> Engine::Evaluate(BatchSource& source, Step steps) {
  source_ = &source;
  call_ = HashKey({2, source.fingerprint(), static_cast<uint64_t>(steps)});
  EvaluationSums total;
  total.sums.assign(parts_.learner->layout().statistics_size, 0.0);
  for (Step s = 0; s < steps; ++s) {
    bool leave = false;
    absl::Status status = InView([&] {
      const Member& self = communicator_->view().members[communicator_->rank()];
      source.Expect({s, steps}, self.replica_begin, self.replica_end);
      parts_.phases->Enter(Phase::kEvaluate);
      EV_RETURN_IF_ERROR(runner_->Evaluate(round_, s, RoundDeadline()));
      Verdict verdict;
      EV_RETURN_IF_ERROR(Conclude(std::nullopt, &verdict));
      leave = (verdict.wishes & kWishLeave) != 0;
      return absl::OkStatus();
    });
    EV_RETURN_IF_ERROR(status);
    if (leave) return LeaveAtBoundary();
    const int64_t examples = source.GlobalExamples(s);
    absl::Span<const float> statistics = runner_->result().statistics;
    total.sums[0] += static_cast<double>(statistics[0]) * static_cast<double>(examples);
    for (size_t i = 1; i < statistics.size(); ++i) total.sums[i] += statistics[i];
    total.examples += examples;
  }
  return total;
}

// ---- the end ----

int Engine::Leave(LeaveReason reason, int exit_code, const std::string& message) {
  parts_.phases->Enter(Phase::kProgram);
  if (pending_stop_) Perform(machine_.OnOrder(*pending_stop_, Now()));
  Perform(machine_.Leave({reason, {}, 0, 0, exit_code, message}, Now()));
  const Deadline failed_deadline = After(*parts_.clock, std::chrono::seconds(5));
  while (machine_.state() != WorkerMachine::State::kEnded) {
    if (!WaitForOrder().ok()) break;
    // Its work is saved; a coordinator that is gone will not say more.
    if (reason == LeaveReason::kToldToLeave && parts_.control->AwayFor() > kFarewell) break;
    // A failed worker has told why; it does not wait long for an answer.
    if (reason == LeaveReason::kFailed && parts_.clock->Now() > failed_deadline) break;
  }
  Unlink();
  if (machine_.state() != WorkerMachine::State::kEnded) {
    return reason == LeaveReason::kFinished ? int{kExitToldToLeave} : exit_code;
  }
  return reason == LeaveReason::kFailed ? exit_code : machine_.end().code;
}

}  // namespace everstep
