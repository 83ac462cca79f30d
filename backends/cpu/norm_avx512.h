/* SPDX-License-Identifier: Apache-2.0 */
/* The norm's panel for 512-bit vectors.  ROW(i) adds row i's pair of channels, q[i],
 * times the 32 columns in `first` and `second` to the accumulators left##i and
 * right##i: with those 26 of the 32 registers, and a load for every two products. */
#include "kernels.h"

#define STEP 2
#define ROWS 12
#define COLUMNS 32

#include "kernels_norm.h"

/* What one row has for a step. */
typedef struct channels {
    int16_t value[STEP];
} channels;

/* Two |T| fit 32 bits: see norm_avx2.h. */
static inline void add_row(int64_t *sums, __m512i left, __m512i right, __m128i shift)
{
    __m512i magnitude = _mm512_add_epi32(_mm512_abs_epi32(left), _mm512_abs_epi32(right));
    __m512i even = _mm512_and_si512(magnitude, _mm512_set1_epi64(0xffffffff));
    __m512i sum = _mm512_add_epi64(even, _mm512_srli_epi64(magnitude, 32));
    _mm512_storeu_si512(sums, _mm512_add_epi64(_mm512_loadu_si512(sums), _mm512_sll_epi64(sum, shift)));
}

#define PAIR_OF_ZEROS(i) left##i = zero, right##i = zero
#define ADD_ROW(i) add_row(sums + (i)*CKV_CPU_SUM_LANES, left##i, right##i, count)

static void norm_panel(const void *panel, const int16_t *values, int steps, int shift, int64_t *sums)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m128i count = _mm_cvtsi32_si128(shift);
    const int16_t *w = panel;
    const channels *q = (const channels *)(const void *)values;
    __m512i PAIR_OF_ZEROS(0), PAIR_OF_ZEROS(1), PAIR_OF_ZEROS(2), PAIR_OF_ZEROS(3);
    __m512i PAIR_OF_ZEROS(4), PAIR_OF_ZEROS(5), PAIR_OF_ZEROS(6), PAIR_OF_ZEROS(7);
    __m512i PAIR_OF_ZEROS(8), PAIR_OF_ZEROS(9), PAIR_OF_ZEROS(10), PAIR_OF_ZEROS(11);
    for (int s = 0; s < steps; s++, w += COLUMNS * STEP, q += ROWS) {
        __m512i first = _mm512_loadu_si512(w), second = _mm512_loadu_si512(w + COLUMNS);
        ROW(0);
        ROW(1);
        ROW(2);
        ROW(3);
        ROW(4);
        ROW(5);
        ROW(6);
        ROW(7);
        ROW(8);
        ROW(9);
        ROW(10);
        ROW(11);
    }
    ADD_ROW(0);
    ADD_ROW(1);
    ADD_ROW(2);
    ADD_ROW(3);
    ADD_ROW(4);
    ADD_ROW(5);
    ADD_ROW(6);
    ADD_ROW(7);
    ADD_ROW(8);
    ADD_ROW(9);
    ADD_ROW(10);
    ADD_ROW(11);
}
