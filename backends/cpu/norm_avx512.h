/* SPDX-License-Identifier: Apache-2.0 */
/* The norm's panel for 512-bit vectors.  ROW(i) adds row i's pair of channels, from
 * q, times the 16 columns in w to the accumulator sum##i. */
#include "kernels.h"

#define STEP 2
#define ROWS 12

static inline void add_row(int64_t *sums, __m512i t, __m128i shift)
{
    __m512i magnitude = _mm512_abs_epi32(t);
    __m512i even = _mm512_and_si512(magnitude, _mm512_set1_epi64(0xffffffff));
    __m512i sum = _mm512_add_epi64(even, _mm512_srli_epi64(magnitude, 32));
    _mm512_storeu_si512(sums, _mm512_add_epi64(_mm512_loadu_si512(sums), _mm512_sll_epi64(sum, shift)));
}

static void norm_panel(const int16_t *panel, const int16_t *q, int steps, int shift, int64_t *sums)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m128i count = _mm_cvtsi32_si128(shift);
    __m512i sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero, sum4 = zero, sum5 = zero;
    __m512i sum6 = zero, sum7 = zero, sum8 = zero, sum9 = zero, sum10 = zero, sum11 = zero;
    for (int s = 0; s < steps; s++, panel += CKV_CPU_PANEL_COLUMNS * STEP, q += ROWS * STEP) {
        __m512i w = _mm512_loadu_si512(panel);
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
    add_row(sums, sum0, count);
    add_row(sums + 1 * CKV_CPU_SUM_LANES, sum1, count);
    add_row(sums + 2 * CKV_CPU_SUM_LANES, sum2, count);
    add_row(sums + 3 * CKV_CPU_SUM_LANES, sum3, count);
    add_row(sums + 4 * CKV_CPU_SUM_LANES, sum4, count);
    add_row(sums + 5 * CKV_CPU_SUM_LANES, sum5, count);
    add_row(sums + 6 * CKV_CPU_SUM_LANES, sum6, count);
    add_row(sums + 7 * CKV_CPU_SUM_LANES, sum7, count);
    add_row(sums + 8 * CKV_CPU_SUM_LANES, sum8, count);
    add_row(sums + 9 * CKV_CPU_SUM_LANES, sum9, count);
    add_row(sums + 10 * CKV_CPU_SUM_LANES, sum10, count);
    add_row(sums + 11 * CKV_CPU_SUM_LANES, sum11, count);
}
