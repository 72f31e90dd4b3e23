// collective: the one addition, in three widths.
#include "everstep/collective/add.h"

#include <immintrin.h>

#include <cstring>

namespace everstep {
namespace {

constexpr uint32_t kCanonicalNan = 0x7fc00000;

inline float AddOne(float a, float b) {
  const float sum = a + b;
  if (sum == sum) return sum;
  float nan;
  std::memcpy(&nan, &kCanonicalNan, sizeof nan);
  return nan;
}

void AddPlain(float* out, const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = AddOne(a[i], b[i]);
}

__attribute__((target("avx2"))) inline __m256 AddEight(__m256 a, __m256 b, __m256 nan) {
  const __m256 sum = _mm256_add_ps(a, b);
  return _mm256_blendv_ps(sum, nan, _mm256_cmp_ps(sum, sum, _CMP_UNORD_Q));
}

__attribute__((target("avx2"))) void AddAvx2(float* out, const float* a, const float* b,
                                             int64_t n) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kCanonicalNan)));
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256 low = AddEight(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), nan);
    const __m256 high = AddEight(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8), nan);
    _mm256_storeu_ps(out + i, low);
    _mm256_storeu_ps(out + i + 8, high);
  }
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, AddEight(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), nan));
  }
  for (; i < n; ++i) out[i] = AddOne(a[i], b[i]);
}

__attribute__((target("avx512f"))) inline __m512 AddSixteen(__m512 a, __m512 b, __m512 nan) {
  const __m512 sum = _mm512_add_ps(a, b);
  return _mm512_mask_mov_ps(sum, _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q), nan);
}

__attribute__((target("avx512f"))) void AddAvx512(float* out, const float* a, const float* b,
                                                  int64_t n) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(kCanonicalNan)));
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512 low = AddSixteen(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), nan);
    const __m512 high = AddSixteen(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16), nan);
    _mm512_storeu_ps(out + i, low);
    _mm512_storeu_ps(out + i + 16, high);
  }
  for (; i < n; i += 16) {
    const int64_t left = n - i;
    const __mmask16 mask =
        left >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << left) - 1);
    const __m512 sum =
        AddSixteen(_mm512_maskz_loadu_ps(mask, a + i), _mm512_maskz_loadu_ps(mask, b + i), nan);
    _mm512_mask_storeu_ps(out + i, mask, sum);
  }
}

}  // namespace

bool Supported(AddPath path) {
  switch (path) {
    case AddPath::kPlain:
      return true;
    case AddPath::kAvx2:
      return __builtin_cpu_supports("avx2");
    case AddPath::kAvx512:
      return __builtin_cpu_supports("avx512f");
  }
  return false;
}

AddPath BestAddPath() {
  if (Supported(AddPath::kAvx512)) return AddPath::kAvx512;
  return Supported(AddPath::kAvx2) ? AddPath::kAvx2 : AddPath::kPlain;
}

void AddWith(AddPath path, float* out, const float* a, const float* b, int64_t n) {
  switch (path) {
    case AddPath::kPlain:
      return AddPlain(out, a, b, n);
    case AddPath::kAvx2:
      return AddAvx2(out, a, b, n);
    case AddPath::kAvx512:
      return AddAvx512(out, a, b, n);
  }
}

void Add(float* out, const float* a, const float* b, int64_t n) {
  static const AddPath best = BestAddPath();
  AddWith(best, out, a, b, n);
}

}  // namespace everstep
