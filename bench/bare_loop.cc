// bench: a plain libtorch MNIST training loop, as a good user would write it: the yardstick of what
// everstep's machinery costs. Prints one JSON line with milliseconds a step.
#include <torch/torch.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace {

struct Data {
  torch::Tensor images;  // uint8 [n, 784]
  torch::Tensor labels;  // int64 [n]
};

// An IDX file of unsigned bytes, plain or gzipped: its bytes after the header.
torch::Tensor ReadIdx(const std::string& path_without_gz, int dims) {
  std::string path = path_without_gz;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) file = gzopen((path += ".gz").c_str(), "rb");
  if (file == nullptr) throw std::runtime_error(path_without_gz + "[.gz]: cannot open");
  std::vector<uint8_t> header(4 + 4 * dims);
  bool ok = gzread(file, header.data(), header.size()) == static_cast<int>(header.size()) &&
            header[2] == 8 && header[3] == dims;
  std::vector<int64_t> shape;
  int64_t size = 1;
  for (int d = 0; ok && d < dims; ++d) {
    const uint8_t* p = header.data() + 4 + 4 * d;
    shape.push_back(int64_t{p[0]} << 24 | p[1] << 16 | p[2] << 8 | p[3]);
    size *= shape.back();
  }
  torch::Tensor tensor = torch::empty(ok ? shape : std::vector<int64_t>{0}, torch::kUInt8);
  ok = ok && gzread(file, tensor.data_ptr(), size) == size;
  gzclose(file);
  if (!ok) throw std::runtime_error(path + ": not a whole IDX file of bytes");
  return tensor;
}

Data Load(const std::string& dir) {
  if (dir.empty()) {
    return {torch::randint(256, {60000, 784}, torch::kUInt8),
            torch::randint(10, {60000}, torch::kInt64)};
  }
  return {ReadIdx(dir + "/train-images-idx3-ubyte", 3).reshape({-1, 784}),
          ReadIdx(dir + "/train-labels-idx1-ubyte", 1).to(torch::kInt64)};
}

struct Net : torch::nn::Module {
  torch::nn::Linear hidden{register_module("hidden", torch::nn::Linear(784, 128))};
  torch::nn::Dropout dropout{register_module("dropout", torch::nn::Dropout(0.2))};
  torch::nn::Linear output{register_module("output", torch::nn::Linear(128, 10))};
  torch::Tensor forward(const torch::Tensor& x) { return output(dropout(torch::relu(hidden(x)))); }
};

struct Timing {
  std::vector<double> step_ms;
  double last_loss = 0;
};

Timing Train(const Data& data, int steps, int warmup, int64_t batch_size) {
  Net net;
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(1e-3));
  const int64_t n = data.images.size(0);
  torch::Tensor order, loss;
  int64_t next = n;
  Timing timing;
  for (int step = 0; step < warmup + steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    if (next + batch_size > n) {
      order = torch::randperm(n);
      next = 0;
    }
    const torch::Tensor index = order.slice(0, next, next + batch_size);
    next += batch_size;
    const torch::Tensor x = data.images.index_select(0, index).to(torch::kFloat32).mul_(1.0 / 255);
    const torch::Tensor y = data.labels.index_select(0, index);
    optimizer.zero_grad();
    loss = torch::nn::functional::cross_entropy(net.forward(x), y);
    loss.backward();
    optimizer.step();
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    if (step >= warmup) timing.step_ms.push_back(ms.count());
  }
  timing.last_loss = loss.item<double>();
  return timing;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A plain libtorch MNIST training loop, timed"};
  int steps = 1000, warmup = 50, threads = 1;
  int64_t batch_size = 256;
  std::string dir;
  app.add_option("--steps", steps, "Steps to time")->check(CLI::Range(1, 10000000));
  app.add_option("--warmup", warmup, "Steps before")->check(CLI::Range(0, 1000000));
  app.add_option("--batch-size", batch_size, "Examples a step")->check(CLI::Range(1, 60000));
  app.add_option("--threads", threads, "Of ATen and BLAS")->check(CLI::Range(1, 1024));
  app.add_option("--data", dir, "Directory of the MNIST IDX files; random bytes without it");
  CLI11_PARSE(app, argc, argv);
  try {
    at::set_num_threads(threads);
    torch::manual_seed(1);
    Timing timing = Train(Load(dir), steps, warmup, batch_size);
    double total = 0;
    for (double ms : timing.step_ms) total += ms;
    std::sort(timing.step_ms.begin(), timing.step_ms.end());
    std::cout << "{\"benchmark\": \"bare_loop\", \"steps\": " << steps
              << ", \"batch_size\": " << batch_size << ", \"threads\": " << threads
              << ", \"mean_ms\": " << total / steps
              << ", \"median_ms\": " << timing.step_ms[timing.step_ms.size() / 2]
              << ", \"last_loss\": " << timing.last_loss << "}" << std::endl;
  } catch (const std::exception& e) {
    std::cerr << "bench_bare_loop: " << e.what() << std::endl;
    return 1;
  }
  return 0;
}
