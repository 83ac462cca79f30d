/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AArch64 with the dot product (ASIMDDP): sdot, four products of int8
 * added to int32.  Two for each weight, since a value has two limbs; four times what
 * smlal does.  Compiled with flags of its own (m4/ckv_isa.m4); nothing else here may run
 * before usable() said so. */
#include "optimize.h"

#include "simd_neon.h"

#include "kernels_score.h"

#include "kernels_select.h"

#include "kernels_bound.h"

#ifdef __linux__
#include <sys/auxv.h>
#endif

#define STEP 4
#define ROWS 3 /* 24 accumulators, 4 of W and 3 of q of the 32 registers */
#define COLUMNS 16

#include "norm_limbs.h"
#include "norm_neon.h"

static int usable(void)
{
#if defined(__linux__) && defined(HWCAP_ASIMDDP)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return 0;
#endif
}

static void norm_panel(const void *panel, const int16_t *values, int steps, int shift, int64_t *sums)
{
    const int64x2_t count = vdupq_n_s64(shift);
    const int8_t *w = panel, *q = (const int8_t *)values;
    int32x4_t high[ROWS][4], low[ROWS][4];
    UNROLL_8
    for (int row = 0; row < ROWS; row++) {
        UNROLL_8
        for (int v = 0; v < 4; v++)
            high[row][v] = low[row][v] = vdupq_n_s32(0);
    }
    for (int s = 0; s < steps; s++, w += COLUMNS * STEP, q += ROWS * 2 * STEP) {
        int8x16_t columns[4];
        UNROLL_8
        for (int v = 0; v < 4; v++)
            columns[v] = vld1q_s8(w + 16 * v);
        UNROLL_8
        for (int row = 0; row < ROWS; row++) {
            int8x8_t limbs = vld1_s8(q + row * 2 * STEP);
            UNROLL_8
            for (int v = 0; v < 4; v++) {
                high[row][v] = vdotq_lane_s32(high[row][v], columns[v], limbs, 0);
                low[row][v] = vdotq_lane_s32(low[row][v], columns[v], limbs, 1);
            }
        }
    }
    UNROLL_8
    for (int row = 0; row < ROWS; row++, sums += CKV_CPU_SUM_LANES)
        add_row(sums, joined(high[row][0], low[row][0]), joined(high[row][1], low[row][1]),
                joined(high[row][2], low[row][2]), joined(high[row][3], low[row][3]), count);
}

const ckv_cpu_kernels ckv_cpu_kernels_neon_dotprod = {
    .isa = "neon_dotprod",
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
    .norm_weight_size = sizeof(int8_t),
    .quantize = quantize,
    .norm_panel = norm_panel,
    .bound_rows = bound_rows,
    .norm_wide = &ckv_cpu_kernels_neon,
};
