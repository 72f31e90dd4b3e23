// base: MXCSR.
#include "everstep/base/float_environment.h"

#include <xmmintrin.h>

#include "absl/strings/str_cat.h"

namespace everstep {
namespace {
// Flush to zero (15), rounding control (14-13), denormals are zero (6).
constexpr unsigned kMustBeZero = 0x8000 | 0x6000 | 0x0040;
}  // namespace

void SetFloatEnvironment() { _mm_setcsr(_mm_getcsr() & ~kMustBeZero); }

absl::Status CheckFloatEnvironment() {
  const unsigned csr = _mm_getcsr();
  if ((csr & kMustBeZero) == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the floating-point environment was changed (MXCSR 0x", absl::Hex(csr),
                   "): a library set flush-to-zero or another rounding; results would differ "
                   "between workers"));
}

}  // namespace everstep
