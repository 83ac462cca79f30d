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
static inline vf vf_where_less(vf x, float limit, vf yes, vf no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_LT_OQ), no, yes);
}
static inline vf vf_add_exponent(vf y, vf t)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

/* As in simd_avx2.h. */
typedef __m512i vsum;
#define SUM_MAGIC 0x1.8p52
static inline vsum vsum_zero(void)
{
    return _mm512_setzero_si512();
}
static inline __m512i vsum_word(__m256 e)
{
    return _mm512_castpd_si512(_mm512_fmadd_pd(_mm512_cvtps_pd(e), _mm512_set1_pd(0x1p40), _mm512_set1_pd(SUM_MAGIC)));
}
static inline vsum vsum_add(vsum s, vf e)
{
    __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(e), 1));
    s = _mm512_add_epi64(s, vsum_word(_mm512_castps512_ps256(e)));
    return _mm512_add_epi64(s, vsum_word(upper));
}
static inline int64_t vsum_total(vsum s, int64_t added)
{
    uint64_t word[8], magic, total = 0;
    double constant = SUM_MAGIC;
    memcpy(&magic, &constant, sizeof magic);
    _mm512_storeu_si512(word, s);
    for (int i = 0; i < 8; i++)
        total += word[i];
    return (int64_t)(total - (uint64_t)added * magic);
}

#include "load_avx2.h"
#include "select_avx2.h"
#include "transpose_avx2.h"
