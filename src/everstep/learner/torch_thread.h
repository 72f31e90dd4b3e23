// learner: what torch keeps per process or thread, set so that a step is a pure function.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "absl/status/status.h"

namespace everstep {

// Deterministic algorithms, one inter-op thread, an allocator that keeps the memory of temporaries.
// For the process, once.
void PrepareTorchProcess();

// `threads` for ATen and BLAS in the calling thread, and the floating-point environment of it and
// of its workers. Cheap when nothing changed; called before every computation. kFailedPrecondition:
// the OpenMP runtime was told to give fewer threads (results would differ, and OpenBLAS would
// hang).
absl::Status PrepareTorchThread(int threads);

// Puts a CPU generator into the state named by all 64 bits of `key`; torch's own seeding keeps 32.
void SeedGenerator(at::Generator generator, uint64_t key);

}  // namespace everstep
