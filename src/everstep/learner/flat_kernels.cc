// learner: the loops, once per instruction set.
#include "everstep/learner/flat_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace everstep {
namespace {

#define EV_BODY inline __attribute__((always_inline))

EV_BODY float Canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fc00000u); }

EV_BODY void AdamUpdateBody(AdamScalars s, const float* __restrict g, float* __restrict w,
                            float* __restrict m, float* __restrict v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float mi = m[i] + (g[i] - m[i]) * s.one_minus_beta_1;
    const float vi = v[i] + (g[i] * g[i] - v[i]) * s.one_minus_beta_2;
    m[i] = Canonical(mi);
    v[i] = Canonical(vi);
    w[i] = Canonical(w[i] - (mi * s.alpha) / (std::sqrt(vi) + s.epsilon));
  }
}

EV_BODY void SgdUpdateBody(float learning_rate, const float* __restrict g, float* __restrict w,
                           int64_t n) {
  for (int64_t i = 0; i < n; ++i) w[i] = Canonical(w[i] - learning_rate * g[i]);
}

EV_BODY void MomentumUpdateBody(float learning_rate, float momentum, bool nesterov,
                                const float* __restrict g, float* __restrict w, float* __restrict u,
                                int64_t n) {
  if (nesterov) {
    for (int64_t i = 0; i < n; ++i) {
      const float ui = momentum * u[i] - learning_rate * g[i];
      u[i] = Canonical(ui);
      w[i] = Canonical(w[i] + (momentum * ui - learning_rate * g[i]));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const float ui = momentum * u[i] - learning_rate * g[i];
      u[i] = Canonical(ui);
      w[i] = Canonical(w[i] + ui);
    }
  }
}

EV_BODY void CopyFloatsBody(const float* __restrict from, float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = Canonical(from[i]);
}

EV_BODY void RescaleBytesBody(float scale, float offset, const uint8_t* __restrict from,
                              float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * scale + offset;
}

// base/keyed_random.h's RandomAt, inlined so that it vectorises.
EV_BODY uint64_t RandomWord(uint64_t key, uint64_t k) {
  uint64_t x = key + (k + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

EV_BODY void ApplyDropoutBody(DropoutMask mask, int64_t first, const float* __restrict from,
                              float* __restrict to, int64_t n) {
  constexpr int64_t kWords = 256;
  uint64_t words[kWords];
  uint32_t bits[2 * kWords];
  for (int64_t done = 0; done < n; done += 2 * kWords) {
    const uint64_t word = static_cast<uint64_t>(first + done) / 2;
    for (int64_t k = 0; k < kWords; ++k) words[k] = RandomWord(mask.key, word + k);
    std::memcpy(bits, words, sizeof bits);  // little-endian: low half first
    const int64_t size = std::min<int64_t>(2 * kWords, n - done);
    for (int64_t i = 0; i < size; ++i) {
      const float kept = from[done + i] * mask.scale;
      to[done + i] = bits[i] >= mask.threshold ? kept : 0.0f;
    }
  }
}

}  // namespace

#ifdef __clang__
#define EV_AVX512 "arch=x86-64-v4"
#else
#define EV_AVX512 "arch=x86-64-v4,prefer-vector-width=512"
#endif

// Defines NAME PARAMS as the body compiled for each instruction set and a choice among them. Not
// target_clones: a test must be able to call each, and its resolver runs before sanitizers are up.
#define EV_EACH_ISA(NAME, PARAMS, ARGS)                                                 \
  namespace {                                                                           \
  __attribute__((target(EV_AVX512))) void NAME##Avx512 PARAMS { NAME##Body ARGS; }      \
  __attribute__((target("arch=x86-64-v3"))) void NAME##Avx2 PARAMS { NAME##Body ARGS; } \
  void NAME##Base PARAMS { NAME##Body ARGS; }                                           \
  }

#define EV_DISPATCH(NAME, ARGS) \
  switch (isa) {                \
    case Isa::kAvx512:          \
      return NAME##Avx512 ARGS; \
    case Isa::kAvx2:            \
      return NAME##Avx2 ARGS;   \
    case Isa::kBase:            \
      return NAME##Base ARGS;   \
  }

EV_EACH_ISA(AdamUpdate, (AdamScalars s, const float* g, float* w, float* m, float* v, int64_t n),
            (s, g, w, m, v, n))
void AdamUpdate(AdamScalars s, const float* g, float* w, float* m, float* v, int64_t n,
                Isa isa){EV_DISPATCH(AdamUpdate, (s, g, w, m, v, n))}

EV_EACH_ISA(SgdUpdate, (float learning_rate, const float* g, float* w, int64_t n),
            (learning_rate, g, w, n)) void SgdUpdate(float learning_rate, const float* g, float* w,
                                                     int64_t n, Isa isa){
    EV_DISPATCH(SgdUpdate, (learning_rate, g, w, n))}

EV_EACH_ISA(MomentumUpdate,
            (float learning_rate, float momentum, bool nesterov, const float* g, float* w, float* u,
             int64_t n),
            (learning_rate, momentum, nesterov, g, w, u,
             n)) void MomentumUpdate(float learning_rate, float momentum, bool nesterov,
                                     const float* g, float* w, float* u, int64_t n, Isa isa){
    EV_DISPATCH(MomentumUpdate, (learning_rate, momentum, nesterov, g, w, u, n))}

EV_EACH_ISA(CopyFloats, (const float* from, float* to, int64_t n),
            (from, to, n)) void CopyFloats(const float* from, float* to, int64_t n,
                                           Isa isa){EV_DISPATCH(CopyFloats, (from, to, n))}

EV_EACH_ISA(RescaleBytes, (float scale, float offset, const uint8_t* from, float* to, int64_t n),
            (scale, offset, from, to, n)) void RescaleBytes(float scale, float offset,
                                                            const uint8_t* from, float* to,
                                                            int64_t n, Isa isa){
    EV_DISPATCH(RescaleBytes, (scale, offset, from, to, n))}

EV_EACH_ISA(ApplyDropout,
            (DropoutMask mask, int64_t first, const float* from, float* to, int64_t n),
            (mask, first, from, to, n)) void ApplyDropout(DropoutMask mask, int64_t first,
                                                          const float* from, float* to, int64_t n,
                                                          Isa isa){
    EV_DISPATCH(ApplyDropout, (mask, first, from, to, n))}

std::vector<Isa> UsableIsas() {
  std::vector<Isa> isas = {Isa::kBase};
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx2) isas.push_back(Isa::kAvx2);
  if (avx2 && avx512) isas.push_back(Isa::kAvx512);
  return isas;
}

Isa BestIsa() {
  static const Isa best = UsableIsas().back();
  return best;
}

}  // namespace everstep
