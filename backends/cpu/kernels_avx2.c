/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 and FMA.  Compiled with -mavx2 -mfma; nothing else here may
 * run before usable() said so. */
#include "optimize.h"

#include "simd_avx2.h"

#include "kernels_score.h"

#include "kernels_bound.h"
#include "kernels_select.h"

#define STEP 2     /* vpmaddwd: two products of int16 summed in int32 */
#define ROWS 4     /* with 24 columns 12 accumulators, 1 of W, 1 of q and 2 products: */
#define COLUMNS 24 /* all 16 registers */

#include "kernels_norm.h"

static int usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

#include "norm_avx2.h"

/*
 * One row's pair of channels against 24 columns.  What limits is the vector units: they take
 * three instructions a cycle of such a mix, and 24 of them make 12 products and sums.  Two
 * vectors of W are read from memory each time, so that there are registers for three products
 * on their way (measured: 4% over one register for them all).  In assembly, because gcc 12
 * otherwise reorders the rows over more temporaries than there are registers and spills the
 * accumulators.
 */
#define ROW(i, q, w)                                                                                                   \
    __asm__("vpbroadcastd %6, %3\n\t"                                                                                  \
            "vpmaddwd %7, %3, %4\n\t"                                                                                  \
            "vpmaddwd %8, %3, %5\n\t"                                                                                  \
            "vpaddd %4, %0, %0\n\t"                                                                                    \
            "vpmaddwd %9, %3, %3\n\t"                                                                                  \
            "vpaddd %5, %1, %1\n\t"                                                                                    \
            "vpaddd %3, %2, %2"                                                                                        \
            : "+x"(left##i), "+x"(middle##i), "+x"(right##i), "=&x"(pair), "=&x"(product), "=&x"(other)                \
            : "m"((q)[i]), "x"(first), "m"((w)[1]), "m"((w)[2]))

#define STEP_OF_ROWS(q, w)                                                                                             \
    do {                                                                                                               \
        __m256i first = _mm256_loadu_si256(w), pair, product, other;                                                   \
        ROW(0, q, w);                                                                                                  \
        ROW(1, q, w);                                                                                                  \
        ROW(2, q, w);                                                                                                  \
        ROW(3, q, w);                                                                                                  \
    } while (0)

static void norm_panel(const void *panel, const int16_t *q, int steps, int shift, int64_t *sums)
{
    const __m256i zero = _mm256_setzero_si256(), *w = panel;
    const channels *pairs = (const channels *)(const void *)q;
    __m256i left0 = zero, left1 = zero, left2 = zero, left3 = zero;
    __m256i middle0 = zero, middle1 = zero, middle2 = zero, middle3 = zero;
    __m256i right0 = zero, right1 = zero, right2 = zero, right3 = zero;
    int s = 0;
    for (; s + 4 <= steps; s += 4, w += 12, pairs += 4 * ROWS) {
        STEP_OF_ROWS(pairs, w);
        STEP_OF_ROWS(pairs + ROWS, w + 3);
        STEP_OF_ROWS(pairs + 2 * ROWS, w + 6);
        STEP_OF_ROWS(pairs + 3 * ROWS, w + 9);
    }
    for (; s < steps; s++, w += 3, pairs += ROWS)
        STEP_OF_ROWS(pairs, w);
    const __m128i count = _mm_cvtsi32_si128(shift);
    add_row(sums, left0, middle0, right0, count, steps * STEP);
    add_row(sums + 1 * CKV_CPU_SUM_LANES, left1, middle1, right1, count, steps * STEP);
    add_row(sums + 2 * CKV_CPU_SUM_LANES, left2, middle2, right2, count, steps * STEP);
    add_row(sums + 3 * CKV_CPU_SUM_LANES, left3, middle3, right3, count, steps * STEP);
}

const ckv_cpu_kernels ckv_cpu_kernels_avx2 = {
    .isa = "avx2",
    .usable = usable,
    .query_rows = QUERY_ROWS,
    .key_tile = KEY_TILE,
    .load_keys = load_keys,
    .logits = logits,
    .greatest = greatest,
    .weights = weights,
    .accumulate = accumulate,
    .rank = rank,
    .score = score,
    .gather = gather,
    .keep = keep,
    .load_row = load_row,
    .norm_step = STEP,
    .norm_rows = ROWS,
    .norm_columns = COLUMNS,
    .norm_weight_size = sizeof(int16_t),
    .quantize = quantize,
    .norm_panel = norm_panel,
    .bound_rows = bound_rows,
};
