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

/* |T| is at most 4096 * 1023 a term with weights of 10 bits and 32639 * 127 with 7 (spec
 * 5.2): the three of a lane fit 32 bits for so many terms, and two of them always (512). */
#define THREE_FIT 340

static inline void add_row(int64_t *sums, __m256i left, __m256i middle, __m256i right, __m128i shift, int terms)
{
    __m256i *at = (__m256i *)(void *)sums;
    __m256i two = _mm256_add_epi32(_mm256_abs_epi32(left), _mm256_abs_epi32(middle)), one = _mm256_abs_epi32(right);
    __m256i sum =
        terms <= THREE_FIT ? widened(_mm256_add_epi32(two, one)) : _mm256_add_epi64(widened(two), widened(one));
    _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), _mm256_sll_epi64(sum, shift)));
}
