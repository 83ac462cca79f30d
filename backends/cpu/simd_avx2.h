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
static inline vf vf_where_less(vf x, float limit, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_LT_OQ));
}
static inline vf vf_add_exponent(vf y, vf t)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}

/*
 * Partial sums of rne(e * 2^40).  In double, e * 2^40 + 1.5 * 2^52 rounds to an
 * integer in the low bits of the word; the words are summed as integers and the
 * constant's share, `added` times, is taken off at the end (modulo 2^64).
 */
typedef __m256i vsum;
#define SUM_MAGIC 0x1.8p52
static inline vsum vsum_zero(void)
{
    return _mm256_setzero_si256();
}
static inline __m256i vsum_word(__m128 e)
{
    return _mm256_castpd_si256(_mm256_fmadd_pd(_mm256_cvtps_pd(e), _mm256_set1_pd(0x1p40), _mm256_set1_pd(SUM_MAGIC)));
}
static inline vsum vsum_add(vsum s, vf e)
{
    s = _mm256_add_epi64(s, vsum_word(_mm256_castps256_ps128(e)));
    return _mm256_add_epi64(s, vsum_word(_mm256_extractf128_ps(e, 1)));
}
static inline int64_t vsum_total(vsum s, int64_t added)
{
    uint64_t word[4], magic;
    double constant = SUM_MAGIC;
    memcpy(&magic, &constant, sizeof magic);
    _mm256_storeu_si256((__m256i *)(void *)word, s);
    return (int64_t)(word[0] + word[1] + word[2] + word[3] - (uint64_t)added * magic);
}

#include "load_avx2.h"
#include "select_avx2.h"
#include "transpose_avx2.h"
