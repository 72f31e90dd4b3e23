// examples: the MNIST classifier of the tutorials, trained by as many workers as there are.
//
//   build/bin/mnist --data mnist-data                               one worker
//   build/bin/everstep run -n 4 -- build/bin/mnist --data mnist-data   four
#include <everstep/everstep.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

namespace {

struct Flags {
  std::string data = "mnist-data";
  int64_t epochs = 15;
  int64_t batch_size = 256;
  int64_t checkpoint_every_steps = 0;
};

using namespace everstep;

absl::Status Train(Worker& worker, const Flags& flags) {
  const auto split = [&](const std::string& name) {
    return Dataset::FromTfRecord(flags.data + "/" + name + ".tfrecord")
        .Features({Raw("image", DType::kUInt8, {784}), FixedLen("label", DType::kInt64)});
  };

  MultiWorkerMirroredStrategy strategy(worker);
  auto scope = strategy.Scope();
  Sequential model({
      Rescaling(1.0 / 255),
      Dense(128, Activation::kRelu),
      Dropout(0.2),
      Dense(10),
  });
  EV_RETURN_IF_ERROR(model.Compile({
      .optimizer = Adam(1e-3),
      .loss = SparseCategoricalCrossentropy({.from_logits = true}),
      .metrics = {Accuracy()},
  }));

  EV_RETURN_IF_ERROR(
      model
          .Fit(split("train"), {.epochs = flags.epochs,
                                .batch_size = flags.batch_size,
                                .checkpoint_every_steps = flags.checkpoint_every_steps})
          .status());

  EV_ASSIGN_OR_RETURN(Logs logs, model.Evaluate(split("test"), {.batch_size = 1000}));
  if (strategy.IsChief()) {
    std::printf("test loss: %.4f - test accuracy: %.4f\n", logs["loss"], logs["accuracy"]);
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains a small network on the MNIST digits.");
  app.footer(
      "As one process by itself, or as many: everstep run -n 4 -- mnist ...\n"
      "By itself it makes a job in runs/, or in EVERSTEP_JOB_DIR, or goes on with the one in\n"
      "EVERSTEP_RESUME. A job that begins with one worker and shall have up to N later needs\n"
      "EVERSTEP_REPLICAS=N. EVERSTEP_SEED and the other variables of everstep run --help count, "
      "too.");
  app.add_option("--data", flags.data, "Directory with train.tfrecord and test.tfrecord")
      ->capture_default_str();
  app.add_option("--epochs", flags.epochs, "Passes over the training set")->capture_default_str();
  app.add_option("--batch-size", flags.batch_size, "Examples of one step, over all replicas")
      ->capture_default_str();
  app.add_option("--checkpoint-every-steps", flags.checkpoint_every_steps,
                 "Steps between checkpoints; 0: as the job says, else by what one costs to write")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "mnist: %s (see mnist --help)\n", error.what());
    return 2;
  }
  return RunWorker([&](Worker& worker) { return Train(worker, flags); });
}
