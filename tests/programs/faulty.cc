// tests: a small native program that fails as it is told to: at once, or when it computes an
// example whose first feature is above 1000.
//   faulty DATA.tfrecord HOW [WHEN [RANK]]     HOW: none exit throw error segv abort kill hog
//                                              unscoped (compiles outside the strategy's scope)
//                                              WHEN: now record (default) start (when training
//                                              begins)
#include <everstep/everstep.h>
#include <everstep/learner/layer.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace everstep;

void Fail(const std::string& how) {
  std::fprintf(stderr, "faulty: about to fail by %s\n", how.c_str());
  if (how == "exit") std::_Exit(3);
  if (how == "throw") throw std::runtime_error("the record cannot be understood");
  if (how == "segv") raise(SIGSEGV);
  if (how == "abort") std::abort();
  if (how == "kill") raise(SIGKILL);
  if (how == "hog") {
    std::vector<char*> memory;
    while (true) {
      memory.push_back(static_cast<char*>(std::malloc(1 << 24)));
      if (memory.back() == nullptr) throw std::bad_alloc();
      std::memset(memory.back(), 1, 1 << 24);
    }
  }
}

// Keeps its input, and fails on an example that is out of range.
class Trap : public Layer {
 public:
  explicit Trap(std::string how) : how_(std::move(how)) {}
  std::string kind() const override { return "trap"; }
  std::string Describe() const override { return "Trap()"; }
  absl::StatusOr<LayerPlan> Plan(const TensorSpec& input) const override {
    LayerPlan plan;
    plan.output = input;
    return plan;
  }
  at::Tensor Forward(const at::Tensor& input, absl::Span<const at::Tensor>,
                     ForwardContext&) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // a step to be killed in
    if (input.max().item<float>() > 1000) Fail(how_);
    return input * 1;
  }

 private:
  const std::string how_;
};

absl::Status Train(Worker& worker, const std::string& data, const std::string& how,
                   const std::string& when) {
  if (when == "now") Fail(how);
  if (when == "now" && how == "error") return absl::InvalidArgumentError("the learning rate is -1");
  MultiWorkerMirroredStrategy strategy(worker);
  std::optional<StrategyScope> scope;
  if (how != "unscoped") scope.emplace(&strategy);
  Sequential model({std::make_shared<Trap>(how), Dense(8, Activation::kRelu), Dense(3)});
  EV_RETURN_IF_ERROR(model.Compile({.optimizer = Adam(1e-3),
                                    .loss = SparseCategoricalCrossentropy({.from_logits = true}),
                                    .metrics = {Accuracy()}}));
  return model
      .Fit(Dataset::FromTfRecord(data)
               .Features({FixedLen("x", DType::kFloat32, {4}), FixedLen("y", DType::kInt64)})
               .NoShuffle(),
           {.epochs = 1, .batch_size = 4})
      .status();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string data = argc > 1 ? argv[1] : "", when = argc > 3 ? argv[3] : "record";
  std::string how = argc > 2 ? argv[2] : "none";
  const char* rank = std::getenv("RANK");
  if (argc > 4 && rank != nullptr && std::string(argv[4]) != rank) how = "none";
  return RunWorker([&](Worker& worker) { return Train(worker, data, how, when); });
}
