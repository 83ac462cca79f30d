/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AArch64's Advanced SIMD, which every AArch64 machine has. */
#include "optimize.h"

#include "simd_neon.h"

#include "kernels_score.h"

#include "kernels_bound.h"
#include "kernels_select.h"

#define STEP 1 /* smlal: one product of int16 added to int32 */
#define ROWS 4 /* 16 accumulators of the 32 registers */
#define COLUMNS 16

#include "kernels_norm.h"
#include "norm_neon.h"

static int usable(void)
{
    return 1;
}

static void norm_panel(const void *panel, const int16_t *q, int steps, int shift, int64_t *sums)
{
    const int64x2_t count = vdupq_n_s64(shift);
    const int16_t *w = panel;
    int32x4_t t[ROWS][4];
    UNROLL_8
    for (int row = 0; row < ROWS; row++) {
        UNROLL_8
        for (int v = 0; v < 4; v++)
            t[row][v] = vdupq_n_s32(0);
    }
    for (int s = 0; s < steps; s++, w += COLUMNS, q += ROWS) {
        int16x8_t left = vld1q_s16(w), right = vld1q_s16(w + 8);
        UNROLL_8
        for (int row = 0; row < ROWS; row++) {
            t[row][0] = vmlal_n_s16(t[row][0], vget_low_s16(left), q[row]);
            t[row][1] = vmlal_high_n_s16(t[row][1], left, q[row]);
            t[row][2] = vmlal_n_s16(t[row][2], vget_low_s16(right), q[row]);
            t[row][3] = vmlal_high_n_s16(t[row][3], right, q[row]);
        }
    }
    UNROLL_8
    for (int row = 0; row < ROWS; row++, sums += CKV_CPU_SUM_LANES)
        add_row(sums, t[row][0], t[row][1], t[row][2], t[row][3], count);
}

const ckv_cpu_kernels ckv_cpu_kernels_neon = {
    .isa = "neon",
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
