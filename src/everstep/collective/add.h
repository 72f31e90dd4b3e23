// collective: the one addition of which every sum of a step is made.
//
// f32, round to nearest even, no flush to zero, never contracted with a multiplication; a NaN
// result is stored as 0x7fc00000 whatever the inputs' payloads were. So defined it commutes, and
// its bits do not depend on the width of the vectors. Needs the float environment of
// base/float_environment.h in the calling thread.
#pragma once

#include <cstdint>

namespace everstep {

// The instructions used; all give the same bits.
enum class AddPath { kPlain, kAvx2, kAvx512 };
bool Supported(AddPath path);  // by this processor
AddPath BestAddPath();

// out[i] = a[i] + b[i]. `out` may be `a` or `b`; otherwise nothing overlaps. Any alignment.
void Add(float* out, const float* a, const float* b, int64_t n);
void AddWith(AddPath path, float* out, const float* a, const float* b, int64_t n);

// dst[i] = dst[i] + src[i].
inline void AddInto(float* dst, const float* src, int64_t n) { Add(dst, dst, src, n); }

}  // namespace everstep
