// train: Sequential.
#include "everstep/train/sequential.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/keyed_random.h"
#include "everstep/base/status.h"
#include "everstep/train/progress_meter.h"

namespace everstep {

struct Sequential::State {
  std::vector<LayerPtr> layers;
  CompileOptions options;
  Strategy* strategy = nullptr;  // set by Compile
  Engine* engine = nullptr;      // set by the first Fit or Evaluate; the worker's
  Learner* learner = nullptr;    // the worker's
  Step planned = 0;              // steps of all Fit calls so far: where the next one begins
  uint64_t fits = 0;
  // Batch sources stay: the engine may still hold the last one between calls.
  std::vector<std::unique_ptr<BatchSource>> sources;

  Worker& worker() const { return strategy->worker(); }
  absl::StatusOr<BatchSource*> Open(const Dataset& data, int64_t batch_size, bool training);
  absl::Status Join(const Dataset& data, const BatchSource& source);
  absl::Status CheckCompiled() const;
  Logs ToLogs(const std::vector<double>& values) const;
};

Sequential::Sequential(std::vector<LayerPtr> layers) : state_(std::make_unique<State>()) {
  state_->layers = std::move(layers);
}
Sequential::~Sequential() = default;
Sequential::Sequential(Sequential&&) noexcept = default;
Sequential& Sequential::operator=(Sequential&&) noexcept = default;

absl::Status Sequential::Compile(CompileOptions options) {
  state_->strategy = StrategyScope::Current();
  if (state_->strategy == nullptr) {
    return absl::FailedPreconditionError(
        "Compile was called outside a strategy's scope, so the model would train alone; write "
        "`auto scope = strategy.Scope();` before it");
  }
  if (options.optimizer == nullptr || options.loss == nullptr) {
    return absl::InvalidArgumentError("Compile needs an optimizer and a loss");
  }
  state_->options = std::move(options);
  return absl::OkStatus();
}

absl::Status Sequential::State::CheckCompiled() const {
  if (strategy != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("call Compile before Fit and Evaluate");
}

absl::StatusOr<BatchSource*> Sequential::State::Open(const Dataset& data, int64_t batch_size,
                                                     bool training) {
  BatchOptions batches;
  batches.global_batch = batch_size;
  batches.num_replicas = worker().settings().num_replicas;
  batches.seed = worker().settings().seed;
  // Each Fit shuffles in its own way; the first one as the job's seed says.
  if (fits > 0) batches.seed = HashKey({batches.seed, fits});
  EV_ASSIGN_OR_RETURN(std::unique_ptr<BatchSource> source,
                      worker().Open(training ? data : data.NoShuffle(), batches));
  sources.push_back(std::move(source));
  return sources.back().get();
}

absl::Status Sequential::State::Join(const Dataset& data, const BatchSource& source) {
  if (engine != nullptr) return absl::OkStatus();
  if (data.fields().size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the dataset has ", data.fields().size(),
                     " features; Fit needs an input and a label, in this order"));
  }
  ModelSpec spec;
  const auto field = [&](size_t i) {
    const FeatureSpec& f = data.fields()[i];
    return FieldSpec{f.name, f.dtype, f.shape};
  };
  spec.input = field(0);
  spec.label = field(1);
  spec.layers = layers;
  spec.loss = options.loss;
  spec.optimizer = options.optimizer;
  spec.metrics = options.metrics;
  EV_ASSIGN_OR_RETURN(std::string description, DescribeModel(spec));
  LearnerOptions learner_options;
  learner_options.threads_per_replica = worker().settings().threads_per_replica;
  EV_ASSIGN_OR_RETURN(std::unique_ptr<Learner> made, MakeLearner(spec, learner_options));
  learner = made.get();
  Fingerprint fingerprint;
  fingerprint["model"] = description;
  fingerprint["data"] = fmt::format("{:016x}", source.fingerprint());
  EV_ASSIGN_OR_RETURN(engine, worker().Join(std::move(made), std::move(fingerprint)));
  return absl::OkStatus();
}

Logs Sequential::State::ToLogs(const std::vector<double>& values) const {
  const std::vector<std::string> names = learner->SummaryNames();
  Logs logs;
  for (size_t i = 0; i < values.size(); ++i) logs[names[i]] = values[i];
  return logs;
}

namespace {

std::string EpochLine(int64_t epoch, int64_t epochs, const ProgressMeter& meter,
                      const Learner& learner, Step steps) {
  const double seconds = meter.SecondsInEpoch();
  const Step done = meter.StepsInEpoch();
  // Where training was resumed inside the epoch, time and means are of the rest of it.
  const std::string part = done == steps ? "" : fmt::format("{} of ", done);
  std::string line =
      fmt::format("Epoch {}/{} - {}{} steps - {:.1f}s - {:.3f} ms/step", epoch + 1, epochs, part,
                  steps, seconds, 1e3 * seconds / static_cast<double>(done));
  const std::vector<std::string> names = learner.SummaryNames();
  const std::vector<double> means = meter.Means();
  for (size_t i = 0; i < means.size(); ++i)
    line += fmt::format(" - {}: {:.4f}", names[i], means[i]);
  return line;
}

}  // namespace

absl::StatusOr<FitHistory> Sequential::Fit(const Dataset& data, FitOptions options) {
  State& s = *state_;
  EV_RETURN_IF_ERROR(s.CheckCompiled());
  if (options.epochs < 1 || options.batch_size < 1 || options.checkpoint_every_steps < 0) {
    return absl::InvalidArgumentError(absl::StrCat("Fit: epochs (", options.epochs,
                                                   ") and batch_size (", options.batch_size,
                                                   ") must be at least 1, checkpoint_every_steps (",
                                                   options.checkpoint_every_steps, ") at least 0"));
  }
  EV_ASSIGN_OR_RETURN(BatchSource * source, s.Open(data, options.batch_size, true));
  ++s.fits;
  EV_RETURN_IF_ERROR(s.Join(data, *source));
  const Step per_epoch = source->steps_per_epoch();
  // Counted from the program's start, not from the present step: a program that is run again from a
  // checkpoint goes through the same calls and skips the steps that are done.
  const Step begin = s.planned;
  s.planned += options.epochs * per_epoch;
  TrainPlan plan;
  plan.source = source;
  plan.begin = begin;
  plan.end = s.planned;
  plan.checkpoint_every = options.checkpoint_every_steps > 0
                              ? options.checkpoint_every_steps
                              : s.worker().settings().checkpoint_every_steps;
  ProgressMeter meter(*s.learner, s.worker().clock(), per_epoch, options.epochs,
                      options.epochs * per_epoch);
  FitHistory history;
  plan.after_step = [&](const StepReport& report) {
    meter.Add(report);
    const Step done = report.step + 1 - begin;
    const bool epoch_ends = done % per_epoch == 0;
    if (epoch_ends || meter.Due()) s.worker().ShowProgress(meter.Read(done));
    if (!epoch_ends) return;
    history.epochs.push_back(s.ToLogs(meter.Means()));
    if (options.verbose && s.worker().IsChief()) {
      s.worker().Print(
          EpochLine(done / per_epoch - 1, options.epochs, meter, *s.learner, per_epoch));
    }
    meter.StartEpoch();
  };
  EV_RETURN_IF_ERROR(s.engine->Train(plan));
  EV_RETURN_IF_ERROR(s.engine->Checkpoint());
  return history;
}

absl::StatusOr<Logs> Sequential::Evaluate(const Dataset& data, EvaluateOptions options) {
  State& s = *state_;
  EV_RETURN_IF_ERROR(s.CheckCompiled());
  if (options.batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Evaluate: batch_size is ", options.batch_size, "; it must be at least 1"));
  }
  EV_ASSIGN_OR_RETURN(BatchSource * source, s.Open(data, options.batch_size, false));
  EV_RETURN_IF_ERROR(s.Join(data, *source));
  EV_ASSIGN_OR_RETURN(EvaluationSums sums, s.engine->Evaluate(*source, source->steps_per_epoch()));
  return s.ToLogs(s.learner->Summarize(sums.sums, sums.examples));
}

}  // namespace everstep
