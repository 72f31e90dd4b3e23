// learner: loops over flat arrays, written so that every instruction set gives the same bits: only
// integer operations and exactly rounded + - * / sqrt, never contracted, no reduction.
//
// Each loop is compiled three times; `isa` picks one (a wider one than the machine has crashes).
// Results that are NaN are stored as 0x7fc00000: x86 keeps an operand's payload, and which operand
// is the compiler's choice.
#pragma once

#include <cstdint>
#include <vector>

namespace everstep {

enum class Isa { kBase, kAvx2, kAvx512 };
Isa BestIsa();                  // of this machine; asked once
std::vector<Isa> UsableIsas();  // kBase first

struct AdamScalars {
  float alpha = 0;
  float one_minus_beta_1 = 0;
  float one_minus_beta_2 = 0;
  float epsilon = 0;
};
// m += (g - m) * one_minus_beta_1; v += (g*g - v) * one_minus_beta_2;
// w -= (m * alpha) / (sqrt(v) + epsilon)
void AdamUpdate(AdamScalars s, const float* g, float* w, float* m, float* v, int64_t n,
                Isa isa = BestIsa());

// w -= learning_rate * g
void SgdUpdate(float learning_rate, const float* g, float* w, int64_t n, Isa isa = BestIsa());

// u = momentum * u - learning_rate * g; w += nesterov ? momentum * u - learning_rate * g : u
void MomentumUpdate(float learning_rate, float momentum, bool nesterov, const float* g, float* w,
                    float* u, int64_t n, Isa isa = BestIsa());

// to[i] = from[i]
void CopyFloats(const float* from, float* to, int64_t n, Isa isa = BestIsa());

// to[i] = float(from[i]) * scale + offset
void RescaleBytes(float scale, float offset, const uint8_t* from, float* to, int64_t n,
                  Isa isa = BestIsa());

// to[i] = bits(key, first + i) >= threshold ? from[i] * scale : +0, where bits(key, 2k) and
// bits(key, 2k+1) are the low and the high half of RandomAt(key, k). `first` is even.
struct DropoutMask {
  uint64_t key = 0;
  uint32_t threshold = 0;  // rate * 2^32
  float scale = 1;
};
void ApplyDropout(DropoutMask mask, int64_t first, const float* from, float* to, int64_t n,
                  Isa isa = BestIsa());

}  // namespace everstep
