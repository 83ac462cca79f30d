/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 F and BW: vpmaddwd on 512 bits.  Compiled with flags
 * of its own (m4/ckv_isa.m4); nothing else here may run before usable() said so. */
#include "optimize.h"

#include "simd_avx512.h"

#include "kernels_score.h"

#include "kernels_bound.h"
#include "kernels_select.h"

/* vpmaddwd and vpaddd; in assembly, because gcc 12 moves the accumulators of intrinsics
 * to memory and back. */
#ifdef CKV_CPU_EMULATED
#define ROW(i)                                                                                                         \
    do {                                                                                                               \
        int32_t bits;                                                                                                  \
        memcpy(&bits, q + (i), sizeof bits);                                                                           \
        __m512i pair = _mm512_set1_epi32(bits);                                                                        \
        left##i = _mm512_add_epi32(left##i, _mm512_madd_epi16(first, pair));                                           \
        right##i = _mm512_add_epi32(right##i, _mm512_madd_epi16(second, pair));                                        \
    } while (0)
#else
#define ROW(i)                                                                                                         \
    do {                                                                                                               \
        __m512i pair, product;                                                                                         \
        __asm__("vpbroadcastd %4, %2\n\t"                                                                              \
                "vpmaddwd %5, %2, %3\n\t"                                                                              \
                "vpmaddwd %6, %2, %2\n\t"                                                                              \
                "vpaddd %3, %0, %0\n\t"                                                                                \
                "vpaddd %2, %1, %1"                                                                                    \
                : "+v"(left##i), "+v"(right##i), "=&v"(pair), "=&v"(product)                                           \
                : "m"(q[i]), "v"(first), "v"(second));                                                                 \
    } while (0)
#endif

#include "norm_avx512.h"

static int usable(void)
{
#ifdef CKV_CPU_EMULATED
    return 1;
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#endif
}

const ckv_cpu_kernels ckv_cpu_kernels_avx512 = {
    .isa = "avx512",
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
