/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-VNNI: those of AVX2, with vpdpwssd of 256 bits in place of vpmaddwd
 * and vpaddd.  Compiled with flags of its own (m4/ckv_isa.m4); nothing else here may run
 * before usable() said so. */
#include "optimize.h"

#include "simd_avx2.h"

#include "kernels_score.h"

#include "kernels_select.h"

#include "kernels_bound.h"

#include <cpuid.h>

#define STEP 2
#define ROWS 4     /* with 24 columns 12 accumulators, */
#define COLUMNS 24 /* 3 of W and 1 of q: all 16 registers */

#include "kernels_norm.h"

#include "norm_avx2.h"

/* Leaf 7.1 of cpuid, EAX bit 4. */
static int usable(void)
{
#ifdef CKV_CPU_EMULATED
    return 1;
#else
    unsigned a = 0, b, c, d;
    if (__get_cpuid_max(0, NULL) < 7)
        return 0;
    __cpuid_count(7, 1, a, b, c, d);
    return (a >> 4 & 1u) != 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
#endif
}

/* One row's pair of channels against 24 columns; in assembly as in kernels_avx2.c. */
#ifdef CKV_CPU_EMULATED
#define PRODUCTS(sum, w) sum = _mm256_add_epi32(sum, _mm256_madd_epi16(w, pair))
#define ROW(i)                                                                                                         \
    do {                                                                                                               \
        int32_t bits;                                                                                                  \
        memcpy(&bits, q + (i), sizeof bits);                                                                           \
        __m256i pair = _mm256_set1_epi32(bits);                                                                        \
        PRODUCTS(left##i, first);                                                                                      \
        PRODUCTS(middle##i, second);                                                                                   \
        PRODUCTS(right##i, third);                                                                                     \
    } while (0)
#else
#define ROW(i)                                                                                                         \
    do {                                                                                                               \
        __m256i pair;                                                                                                  \
        __asm__("vpbroadcastd %4, %3\n\t"                                                                              \
                "%{vex%} vpdpwssd %5, %3, %0\n\t"                                                                      \
                "%{vex%} vpdpwssd %6, %3, %1\n\t"                                                                      \
                "%{vex%} vpdpwssd %7, %3, %2"                                                                          \
                : "+x"(left##i), "+x"(middle##i), "+x"(right##i), "=&x"(pair)                                          \
                : "m"(q[i]), "x"(first), "x"(second), "x"(third));                                                     \
    } while (0)
#endif

static void norm_panel(const void *panel, const int16_t *values, int steps, int shift, int64_t *sums)
{
    const __m256i zero = _mm256_setzero_si256(), *w = panel;
    const channels *q = (const channels *)(const void *)values;
    __m256i left0 = zero, left1 = zero, left2 = zero, left3 = zero;
    __m256i middle0 = zero, middle1 = zero, middle2 = zero, middle3 = zero;
    __m256i right0 = zero, right1 = zero, right2 = zero, right3 = zero;
    for (int s = 0; s < steps; s++, w += 3, q += ROWS) {
        __m256i first = _mm256_loadu_si256(w), second = _mm256_loadu_si256(w + 1), third = _mm256_loadu_si256(w + 2);
        ROW(0);
        ROW(1);
        ROW(2);
        ROW(3);
    }
    const __m128i count = _mm_cvtsi32_si128(shift);
    add_row(sums, left0, middle0, right0, count, steps * STEP);
    add_row(sums + 1 * CKV_CPU_SUM_LANES, left1, middle1, right1, count, steps * STEP);
    add_row(sums + 2 * CKV_CPU_SUM_LANES, left2, middle2, right2, count, steps * STEP);
    add_row(sums + 3 * CKV_CPU_SUM_LANES, left3, middle3, right3, count, steps * STEP);
}

const ckv_cpu_kernels ckv_cpu_kernels_avxvnni = {
    .isa = "avxvnni",
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
