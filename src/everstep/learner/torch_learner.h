// learner: TorchLearner, the Learner that computes with libtorch. Internal to the room: others make
// it by MakeLearner (model_spec.h).
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "everstep/learner/gradient_sink.h"
#include "everstep/learner/learner.h"
#include "everstep/learner/model_plan.h"

namespace everstep {

class TorchLearner final : public Learner {
 public:
  TorchLearner(ModelSpec spec, LearnerOptions options, ModelPlan plan, ModelLayout layout);

  const StateLayout& layout() const override { return layout_.state; }
  absl::Status Bind(StateMemory memory, uint64_t seed) override;
  absl::StatusOr<ReplicaResult> Gradient(Step step, int r, const Batch& batch,
                                         absl::Span<float> gradients,
                                         absl::FunctionRef<void(int)> ready) override;
  absl::StatusOr<ReplicaResult> Evaluate(const Batch& batch) override;
  absl::Status Apply(Step step, const Reduced& reduced) override;
  Step step() const override;
  std::vector<std::string> SummaryNames() const override;
  std::vector<double> Summarize(absl::Span<const double> sums, int64_t examples) const override;

 private:
  struct Pass;  // the tensors of one forward

  absl::Status CheckBatch(const Batch& batch) const;
  absl::Status CheckField(const Batch& batch, const FieldSpec& field) const;
  // Leaves over the state; fresh for each call, so no gradient or version outlives it.
  std::vector<at::Tensor> MakeLeaves(bool training) const;
  absl::Status Forward(const Batch& batch, bool training, uint64_t key, Pass& pass);
  absl::Status RunLayers(bool training, uint64_t key, Pass& pass) const;
  absl::Status CheckUntouched(const Pass& pass) const;
  absl::Status Backward(const Batch& batch, Pass& pass, GradientSink& sink) const;
  std::vector<float> Statistics(const Batch& batch, const Pass& pass) const;

  float* Floats(int64_t region) const;
  int64_t& Number(int64_t region) const;

  const ModelSpec spec_;
  const LearnerOptions options_;
  const ModelPlan plan_;
  const ModelLayout layout_;
  absl::Span<std::byte> memory_;  // the caller's; empty until Bind
  bool hashed_forward_[2] = {};   // evaluation, training: whether the first was looked at closely
};

}  // namespace everstep
