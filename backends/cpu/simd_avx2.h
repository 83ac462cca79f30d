/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AVX2 and FMA: eight lanes. */
#include <immintrin.h>

#include "lib/numeric.h"

#define LANES 8
#define KEY_TILE 24
#define QUERY_VECTORS 3
#define QUERY_ROWS 4
#define BOUND_VECTORS 2
#define BOUND_ROWS 6
#define UNROLL_CHANNELS UNROLL_4 /* the loop's own instructions are a tenth of it */

typedef __m256 vf;

static inline vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}
static inline vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}
static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}
static inline vf vf_zero_below(vf v, float limit)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(v, _mm256_set1_ps(limit), _CMP_LT_OQ), v);
}
static inline vf vf_add_exponent(vf y, vf t)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}

/* Sums of the words of floats, modulo 2^32. */
typedef __m256i vu;
static inline vu vu_zero(void)
{
    return _mm256_setzero_si256();
}
static inline vu vu_add(vu sum, vf v)
{
    return _mm256_add_epi32(sum, _mm256_castps_si256(v));
}
static inline void vu_store(uint32_t *p, vu sum)
{
    _mm256_storeu_si256((__m256i *)(void *)p, sum);
}

#include "load_avx2.h"
#include "select_avx2.h"
#include "transpose_avx2.h"
