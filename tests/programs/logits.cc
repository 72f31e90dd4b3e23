// tests: what the network of examples/mnist answers, from a checkpoint: its logits as raw float32.
//   logits CHECKPOINT_PREFIX IMAGES(.gz, IDX) COUNT OUTPUT
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "everstep/base/exit_code.h"
#include "everstep/base/status.h"
#include "everstep/checkpoint/stored_state.h"
#include "everstep/env/file.h"
#include "everstep/io/gzip.h"
#include "everstep/io/publish.h"
#include "everstep/learner/layer.h"
#include "everstep/learner/model_spec.h"

namespace {

using namespace everstep;

constexpr int64_t kPixels = 784, kClasses = 10, kIdxHeader = 16;

// Hands its input on, and keeps a copy.
class Recorder : public Layer {
 public:
  explicit Recorder(std::vector<float>* seen) : seen_(seen) {}
  std::string kind() const override { return "recorder"; }
  std::string Describe() const override { return "Recorder()"; }
  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    return LayerPlan{input, {}};
  }
  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor>,
                     ForwardContext&) const override {
    const at::Tensor values = input.detach().contiguous();
    seen_->assign(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
    return input;
  }

 private:
  std::vector<float>* const seen_;
};

ModelSpec Network(std::vector<float>* logits) {
  ModelSpec spec;
  spec.input = {"image", DType::kUInt8, {kPixels}};
  spec.label = {"label", DType::kInt64, {}};
  spec.layers = {Rescaling(1.0 / 255), Dense(128, Activation::kRelu), Dropout(0.2), Dense(kClasses),
                 std::make_shared<Recorder>(logits)};
  spec.loss = SparseCategoricalCrossentropy({.from_logits = true});
  spec.optimizer = Adam(1e-3);
  return spec;
}

absl::Status Run(const std::string& prefix, const std::string& images, int64_t count,
                 const std::string& output) {
  FileSystem& fs = RealFileSystem();
  std::vector<float> logits;
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, MakeLearner(Network(&logits)));
  const auto size = static_cast<size_t>(learner->layout().state_bytes);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64)), &std::free);
  const absl::Span<std::byte> state(memory.get(), size);
  std::fill(state.begin(), state.end(), std::byte{0});

  EV_ASSIGN_OR_RETURN(const auto stored, StoredState::Open(fs, prefix));
  EV_ASSIGN_OR_RETURN(const int64_t seed, stored->ReadInt64("seed"));
  EV_RETURN_IF_ERROR(learner->Bind({state}, static_cast<uint64_t>(seed)));
  EV_RETURN_IF_ERROR(stored->Restore(StateTensors(learner->layout(), state)));

  EV_ASSIGN_OR_RETURN(std::string bytes, ReadMaybeGzip(fs, images));
  if (static_cast<int64_t>(bytes.size()) < kIdxHeader + count * kPixels) {
    return absl::DataLossError(images + ": fewer images than asked for");
  }
  std::vector<int64_t> labels(static_cast<size_t>(count));
  Batch batch;
  batch.examples = batch.global_examples = count;
  batch.fields = {{"image",
                   DType::kUInt8,
                   {count, kPixels},
                   reinterpret_cast<std::byte*>(bytes.data() + kIdxHeader)},
                  {"label", DType::kInt64, {count}, reinterpret_cast<std::byte*>(labels.data())}};
  EV_RETURN_IF_ERROR(learner->Evaluate(batch).status());
  return PublishFile(fs, output,
                     {reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t count = 0;
  if (argc != 5 || !absl::SimpleAtoi(argv[3], &count) || count < 1) {
    std::fprintf(stderr, "logits: CHECKPOINT_PREFIX IMAGES COUNT OUTPUT\n");
    return kExitUsage;
  }
  const absl::Status status = Run(argv[1], argv[2], count, argv[4]);
  if (!status.ok()) std::fprintf(stderr, "logits: %s\n", std::string(status.message()).c_str());
  return ExitCodeFor(status);
}
