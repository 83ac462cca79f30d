/* SPDX-License-Identifier: Apache-2.0 */
/* Adjacent elements to sanitised floats (spec 3.1) with AVX2 and F16C, also where wider
 * vectors do the rest.  vcvtph2ps makes subnormal halves normal in every mode. */
#include "load.h"

#define LOAD_DENSE load_dense

static inline __m256i bits_f16(const unsigned char *p)
{
    return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

static inline __m256i bits_bf16(const unsigned char *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_slli_epi32(wide, 16);
}

static inline __m256i bits_f32(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* ckv_cpu_sanitize, eight at a time. */
static inline __m256i sanitized(__m256i u, __m256i *greatest)
{
    const __m256i top = _mm256_set1_epi32(CKV_TOP_BITS), sign = _mm256_set1_epi32((int32_t)CKV_SIGN_BIT);
    __m256i magnitude = _mm256_andnot_si256(sign, u);
    __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(CKV_INF_BITS));
    __m256i large = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(CKV_BOTTOM_BITS - 1));
    __m256i cut = _mm256_or_si256(_mm256_and_si256(u, sign), _mm256_min_epi32(magnitude, top));
    *greatest = _mm256_max_epi32(*greatest, magnitude);
    return _mm256_and_si256(_mm256_andnot_si256(nan, large), cut);
}

/* `count` rounded down to eight, from elements of `size` bytes; returns how many. */
#define LOAD_EIGHTS(bits, size)                                                                                        \
    for (; i + 8 <= count; i += 8)                                                                                     \
    _mm256_storeu_si256((__m256i *)(void *)(row + i), sanitized(bits(p + (size)*i), &greatest))

static uint32_t load_dense(float *row, const void *from, ckv_dtype dtype, int64_t count)
{
    const unsigned char *p = from;
    __m256i greatest = _mm256_setzero_si256();
    int64_t i = 0;
    if (dtype == CKV_F32)
        LOAD_EIGHTS(bits_f32, 4);
    else if (dtype == CKV_BF16)
        LOAD_EIGHTS(bits_bf16, 2);
    else
        LOAD_EIGHTS(bits_f16, 2);
    __m256i bad = _mm256_cmpgt_epi32(greatest, _mm256_set1_epi32(CKV_INF_BITS - 1));
    uint32_t rest = ckv_cpu_load_row(row + i, p + i * (int64_t)ckv_dtype_size(dtype), dtype, count - i);
    return rest | (uint32_t)(_mm256_movemask_epi8(bad) != 0);
}
