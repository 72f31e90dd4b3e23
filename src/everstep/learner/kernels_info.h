// learner: which kernels compute here, in words, for the start block and the fingerprint. No torch
// in this header. All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "everstep/learner/learner.h"

namespace everstep {

// The BLAS that torch's matrix products go to, and the core it is tuned for:
// "OpenBLAS 0.3.21 DYNAMIC_ARCH USE_OPENMP ... core SkylakeX". "unknown BLAS" when it cannot say.
std::string BlasDescription();

// ATen's instruction set: "AVX512", "AVX2", "DEFAULT".
std::string CpuCapability();

// oneDNN's version and instruction set, e.g. "oneDNN 2.6.3 isa 0x7ef"; "no oneDNN" without it.
std::string OneDnnDescription();

// "1.13.1"
std::string TorchVersion();

// A hash over everything in the layout: names, types, shapes, offsets, buckets. Equal on every
// machine for equal layouts.
uint64_t ModelFingerprint(const StateLayout& layout);

// The four descriptions above in one line, for the fingerprint of a worker.
std::string LearnerFingerprint();

}  // namespace everstep
