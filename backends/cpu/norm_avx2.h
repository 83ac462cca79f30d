/* SPDX-License-Identifier: Apache-2.0 */
/* What the norm's panels share where a row of 24 columns is three vectors of 256 bits. */

/* What one row has for a step. */
typedef struct channels {
    int16_t value[STEP];
} channels;

/* Widened in pairs of even and odd lanes. */
static inline __m256i widened(__m256i magnitude)
{
    __m256i even = _mm256_and_si256(magnitude, _mm256_set1_epi64x(0xffffffff));
    return _mm256_add_epi64(even, _mm256_srli_epi64(magnitude, 32));
}

/* Two |T| fit 32 bits: |T| is at most 512 * 4096 * 1023 with weights of 10 bits and
 * 512 * 32639 * 127 with 7 (spec 5.2), and twice either is below 2^32. */
static inline void add_row(int64_t *sums, __m256i left, __m256i middle, __m256i right, __m128i shift)
{
    __m256i *at = (__m256i *)(void *)sums;
    __m256i two = widened(_mm256_add_epi32(_mm256_abs_epi32(left), _mm256_abs_epi32(middle)));
    __m256i sum = _mm256_sll_epi64(_mm256_add_epi64(two, widened(_mm256_abs_epi32(right))), shift);
    _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), sum));
}
