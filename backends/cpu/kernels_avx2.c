/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 and FMA.  Compiled with -mavx2 -mfma; nothing else here may
 * run before usable() said so. */
#include "optimize.h"

#include "simd_avx2.h"

#include "kernels_score.h"

#include "kernels_bound.h"

#define STEP 2 /* vpmaddwd: two products of int16 summed in int32 */
#define ROWS 6 /* 12 accumulators, 2 of W, 1 of q and 1 product: all 16 registers */

/* What one row has for a step. */
typedef struct channels {
    int16_t value[STEP];
} channels;

static int usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* |T| of eight columns, widened in pairs of even and odd lanes. */
static inline __m256i widened(__m256i t)
{
    __m256i magnitude = _mm256_abs_epi32(t);
    __m256i even = _mm256_and_si256(magnitude, _mm256_set1_epi64x(0xffffffff));
    return _mm256_add_epi64(even, _mm256_srli_epi64(magnitude, 32));
}

static inline void add_row(int64_t *sums, __m256i left, __m256i right, __m128i shift)
{
    __m256i *at = (__m256i *)(void *)sums;
    __m256i sum = _mm256_sll_epi64(_mm256_add_epi64(widened(left), widened(right)), shift);
    _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), sum));
}

/*
 * One row's pair of channels against 16 columns.  In assembly, and over named
 * variables, because gcc 12 otherwise reorders the rows over more temporaries than
 * there are registers and spills the accumulators.
 */
#define ROW(i)                                                                                                         \
    __asm__("vpbroadcastd %4, %2\n\t"                                                                                  \
            "vpmaddwd %5, %2, %3\n\t"                                                                                  \
            "vpmaddwd %6, %2, %2\n\t"                                                                                  \
            "vpaddd %3, %0, %0\n\t"                                                                                    \
            "vpaddd %2, %1, %1"                                                                                        \
            : "+x"(left##i), "+x"(right##i), "=&x"(pair), "=&x"(product)                                               \
            : "m"(*(const channels *)(const void *)(q + i * STEP)), "x"(left), "x"(right))

static void norm_panel(const int16_t *panel, const int16_t *q, int steps, int shift, int64_t *sums)
{
    const __m256i *w = (const __m256i *)(const void *)panel;
    const __m256i zero = _mm256_setzero_si256();
    __m256i left0 = zero, left1 = zero, left2 = zero, left3 = zero, left4 = zero, left5 = zero;
    __m256i right0 = zero, right1 = zero, right2 = zero, right3 = zero, right4 = zero, right5 = zero;
    for (int s = 0; s < steps; s++, w += 2, q += ROWS * STEP) {
        __m256i left = _mm256_loadu_si256(w), right = _mm256_loadu_si256(w + 1), pair, product;
        ROW(0);
        ROW(1);
        ROW(2);
        ROW(3);
        ROW(4);
        ROW(5);
    }
    const __m128i count = _mm_cvtsi32_si128(shift);
    add_row(sums, left0, right0, count);
    add_row(sums + 1 * CKV_CPU_SUM_LANES, left1, right1, count);
    add_row(sums + 2 * CKV_CPU_SUM_LANES, left2, right2, count);
    add_row(sums + 3 * CKV_CPU_SUM_LANES, left3, right3, count);
    add_row(sums + 4 * CKV_CPU_SUM_LANES, left4, right4, count);
    add_row(sums + 5 * CKV_CPU_SUM_LANES, left5, right5, count);
}

const ckv_cpu_kernels ckv_cpu_kernels_avx2 = {
    .isa = "avx2",
    .usable = usable,
    .query_rows = QUERY_ROWS,
    .load_keys = load_keys,
    .logits = logits,
    .greatest = greatest,
    .weights = weights,
    .accumulate = accumulate,
    .norm_step = STEP,
    .norm_rows = ROWS,
    .norm_panel = norm_panel,
    .bound_rows = bound_rows,
};
