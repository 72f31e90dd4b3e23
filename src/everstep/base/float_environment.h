// base: the floating-point environment that "one addition" needs: round to nearest even, no flush
// to zero, denormals are not zero.
#pragma once

#include "absl/status/status.h"

namespace everstep {

// Sets the calling thread's MXCSR to nearest-even without FTZ and DAZ. Call at the start of every
// thread that computes.
void SetFloatEnvironment();

// kInternal, naming the bits, when the calling thread's environment is not that.
absl::Status CheckFloatEnvironment();

}  // namespace everstep
