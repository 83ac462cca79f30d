/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 with VNNI: vpdpwssd, two products of int16 added to int32
 * in one instruction.  Compiled with -mavx512f -mavx512bw -mavx512vnni; nothing else
 * here may run before usable() said so. */
#include "optimize.h"

#include "simd_avx512.h"

#include "kernels_score.h"

#include "kernels_bound.h"

/* What one row has for a step of the norm. */
typedef struct channels {
    int16_t value[2];
} channels;

/* In assembly: gcc 12 moves the accumulators of the intrinsic to memory and back.
 * The pair of q is broadcast by the instruction itself. */
#ifdef CKV_CPU_EMULATED
#define ROW(i)                                                                                                         \
    do {                                                                                                               \
        int32_t pair;                                                                                                  \
        memcpy(&pair, q + i * STEP, sizeof pair);                                                                      \
        sum##i = _mm512_dpwssd_epi32(sum##i, w, _mm512_set1_epi32(pair));                                              \
    } while (0)
#else
#define ROW(i)                                                                                                         \
    __asm__("vpdpwssd %2%{1to16%}, %1, %0"                                                                             \
            : "+v"(sum##i)                                                                                             \
            : "v"(w), "m"(*(const channels *)(const void *)(q + i * STEP)))
#endif

#include "norm_avx512.h"

static int usable(void)
{
#ifdef CKV_CPU_EMULATED
    return 1;
#else
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
}

const ckv_cpu_kernels ckv_cpu_kernels_avx512vnni = {
    .isa = "avx512vnni",
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
