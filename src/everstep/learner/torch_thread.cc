// learner: torch's process and thread settings.
#include "everstep/learner/torch_thread.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <malloc.h>

#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "everstep/base/float_environment.h"
#include "everstep/base/keyed_random.h"
#include "everstep/learner/layer.h"

namespace everstep {

void PrepareTorchProcess() {
  static std::once_flag once;
  std::call_once(once, [] {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
#ifdef __GLIBC__
    // Torch's temporaries come and go in every step. By default glibc gives their pages back to the
    // kernel each time and takes them anew, zeroed: a tenth of the time of an MNIST step.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most it allows
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
    try {
      at::set_num_interop_threads(1);
    } catch (const std::exception&) {
      // The program has used the pool already. Nothing of ours runs in it.
    }
  });
}

absl::Status PrepareTorchThread(int threads) {
  SetFloatEnvironment();
  // The setting is the calling thread's (OpenMP), and Debian's OpenBLAS obeys it as ATen does.
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
  if (threads == 1) return absl::OkStatus();
  std::atomic<int> running{0};
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    SetFloatEnvironment();
    ++running;
  });
#ifdef _OPENMP
  if (running != threads) {
    return absl::FailedPreconditionError(absl::StrCat(
        "OpenMP gave ", running.load(), " of the ", threads,
        " threads of a replica; unset OMP_THREAD_LIMIT and OMP_DYNAMIC, or train in a thread that "
        "is in no parallel region"));
  }
#endif
  return absl::OkStatus();
}

void SeedGenerator(at::Generator generator, uint64_t key) {
  at::mt19937_data_pod data;
  data.seed_ = key;
  data.left_ = 1;
  data.seeded_ = true;
  data.next_ = 0;
  for (size_t i = 0; i < data.state_.size(); i += 2) {
    const uint64_t word = RandomAt(key, i / 2);
    data.state_[i] = static_cast<uint32_t>(word);
    data.state_[i + 1] = static_cast<uint32_t>(word >> 32);
  }
  data.state_[0] |= 0x80000000u;  // mt19937's one forbidden state is all zeros
  at::mt19937 engine;
  engine.set_data(data);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  auto* const impl = generator.get<at::CPUGeneratorImpl>();
  impl->set_engine(engine);
  impl->set_next_float_normal_sample(c10::nullopt);
  impl->set_next_double_normal_sample(c10::nullopt);
}

const at::Generator& ForwardContext::generator() {
  if (!generator_.defined()) {
    generator_ = at::detail::createCPUGenerator();
    SeedGenerator(generator_, key_);
  }
  return generator_;
}

}  // namespace everstep
