/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 F and BW: vpmaddwd on 512 bits.  Compiled with -mavx512f
 * -mavx512bw; nothing else here may run before usable() said so. */
#include "optimize.h"

#include "simd_avx512.h"

#include "kernels_score.h"

#include "kernels_bound.h"

/* vpmaddwd and vpaddd; gcc 12 keeps these accumulators in registers by itself. */
#define ROW(i)                                                                                                         \
    do {                                                                                                               \
        int32_t pair;                                                                                                  \
        memcpy(&pair, q + i * STEP, sizeof pair);                                                                      \
        sum##i = _mm512_add_epi32(sum##i, _mm512_madd_epi16(w, _mm512_set1_epi32(pair)));                              \
    } while (0)

#include "norm_avx512.h"

static int usable(void)
{
#ifdef CKV_CPU_EMULATED
    return 1;
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
#endif
}

const ckv_cpu_kernels ckv_cpu_kernels_avx512 = {
    .isa = "avx512",
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
