// bench: the learner alone on the work of bench_bare_loop (gather a batch, forward, backward,
// update), so that what the rest of everstep costs can be told apart. Prints one JSON line.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "everstep/base/keyed_random.h"
#include "everstep/learner/kernels_info.h"
#include "everstep/learner/model_spec.h"

namespace {

using namespace everstep;  // NOLINT: a program

constexpr int64_t kImage = 784, kExamples = 60000;

ModelSpec Mnist() {
  ModelSpec spec;
  spec.input = {"image", DType::kUInt8, {28, 28}};
  spec.label = {"label", DType::kUInt8, {}};
  spec.layers = {Flatten(), Rescaling(1 / 255.0), Dense(128, Activation::kRelu), Dropout(0.2),
                 Dense(10)};
  spec.loss = SparseCategoricalCrossentropy({.from_logits = true});
  spec.optimizer = Adam(1e-3);
  spec.metrics = {Accuracy()};
  return spec;
}

struct Data {
  std::vector<uint8_t> images, labels;
};

Data RandomData() {
  Data data = {std::vector<uint8_t>(kExamples * kImage), std::vector<uint8_t>(kExamples)};
  for (size_t i = 0; i < data.images.size(); ++i) data.images[i] = RandomAt(1, i) & 0xff;
  for (size_t i = 0; i < data.labels.size(); ++i) data.labels[i] = RandomAt(2, i) % 10;
  return data;
}

// A batch over buffers that are filled anew for each step.
struct Buffers {
  std::vector<uint8_t> images, labels;
  Batch batch;
  explicit Buffers(int64_t n) : images(n * kImage), labels(n) {
    batch.examples = batch.global_examples = n;
    const auto bytes = [](std::vector<uint8_t>& v) {
      return reinterpret_cast<std::byte*>(v.data());
    };
    batch.fields = {{"image", DType::kUInt8, {n, 28, 28}, bytes(images)},
                    {"label", DType::kUInt8, {n}, bytes(labels)}};
  }
  void Fill(const Data& data, Step step) {
    const KeyedPermutation order(3, kExamples);
    const int64_t n = batch.examples;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t from = order.At((step * n + i) % kExamples);
      std::memcpy(&images[i * kImage], &data.images[from * kImage], kImage);
      labels[i] = data.labels[from];
    }
  }
};

absl::Status Run(int steps, int warmup, int64_t batch_size, int threads) {
  auto learner = MakeLearner(Mnist(), {.threads_per_replica = threads});
  if (!learner.ok()) return learner.status();
  const StateLayout& layout = (*learner)->layout();
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(64, layout.state_bytes), &std::free);
  absl::Status status = (*learner)->Bind(
      {{static_cast<std::byte*>(memory.get()), static_cast<size_t>(layout.state_bytes)}}, 1);
  if (!status.ok()) return status;
  const Data data = RandomData();
  Buffers buffers(batch_size);
  std::vector<float> gradients(layout.gradient_size);
  std::vector<double> step_ms;
  double apply_ms = 0, total = 0;
  for (Step step = 0; step < warmup + steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    buffers.Fill(data, step);
    auto result =
        (*learner)->Gradient(step, 0, buffers.batch, absl::MakeSpan(gradients), [](int) {});
    if (!result.ok()) return result.status();
    const auto middle = std::chrono::steady_clock::now();
    status = (*learner)->Apply(step, {gradients, result->statistics});
    if (!status.ok()) return status;
    const auto end = std::chrono::steady_clock::now();
    using Ms = std::chrono::duration<double, std::milli>;
    if (step < warmup) continue;
    step_ms.push_back(Ms(end - begin).count());
    apply_ms += Ms(end - middle).count();
    total += step_ms.back();
  }
  std::sort(step_ms.begin(), step_ms.end());
  uint64_t digest = 0;  // of the final state, to compare bits between machines and settings
  for (int64_t i = 0; i < layout.state_bytes / 8; ++i) {
    digest = Mix64(digest ^ static_cast<const uint64_t*>(memory.get())[i]);
  }
  std::cout << "{\"benchmark\": \"learner_step\", \"digest\": \"" << std::hex << digest << std::dec
            << "\", \"steps\": " << steps << ", \"batch_size\": " << batch_size
            << ", \"threads\": " << threads << ", \"mean_ms\": " << total / steps
            << ", \"median_ms\": " << step_ms[step_ms.size() / 2]
            << ", \"apply_mean_ms\": " << apply_ms / steps << ", \"kernels\": \""
            << LearnerFingerprint() << "\"}" << std::endl;
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The learner alone on an MNIST model with random bytes, timed"};
  int steps = 1000, warmup = 50, threads = 1;
  int64_t batch_size = 256;
  app.add_option("--steps", steps, "Steps to time")->check(CLI::Range(1, 10000000));
  app.add_option("--warmup", warmup, "Steps before")->check(CLI::Range(0, 1000000));
  app.add_option("--batch-size", batch_size, "Examples a step")->check(CLI::Range(1, 60000));
  app.add_option("--threads", threads, "Of ATen and BLAS")->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(steps, warmup, batch_size, threads);
  if (!status.ok()) std::cerr << "bench_learner_step: " << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
