/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AVX-512 (F and BW): sixteen lanes. */
#ifdef CKV_CPU_EMULATED
#include CKV_CPU_EMULATED /* the same intrinsics in plain C: tests run these kernels anywhere */
#else
#include <immintrin.h>
#endif

#include "lib/numeric.h"

#define LANES 16
#define KEY_TILE 16
#define QUERY_VECTORS 1
#define QUERY_ROWS 12
#define BOUND_VECTORS 1
#define BOUND_ROWS 12
#define UNROLL_CHANNELS UNROLL_4

typedef __m512 vf;

static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}
static inline vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
static inline vf vf_zero_below(vf v, float limit)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, _mm512_set1_ps(limit), _CMP_LT_OQ), v, _mm512_setzero_ps());
}
static inline vf vf_add_exponent(vf y, vf t)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

/* As in simd_avx2.h. */
typedef __m512i vu;
static inline vu vu_zero(void)
{
    return _mm512_setzero_si512();
}
static inline vu vu_add(vu sum, vf v)
{
    return _mm512_add_epi32(sum, _mm512_castps_si512(v));
}
static inline void vu_store(uint32_t *p, vu sum)
{
    _mm512_storeu_si512(p, sum);
}

#include "load_avx2.h"
#include "select_avx2.h"
#include "transpose_avx2.h"
