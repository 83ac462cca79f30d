/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AArch64's Advanced SIMD, which every AArch64 machine has. */
#include "optimize.h"

#include "simd_neon.h"

#include "kernels_score.h"

#include "kernels_bound.h"

#define STEP 1 /* smlal: one product of int16 added to int32 */
#define ROWS 4 /* 16 accumulators of the 32 registers */

static int usable(void)
{
    return 1;
}

static inline int64x2_t widened(int32x4_t t)
{
    return vreinterpretq_s64_u64(vpaddlq_u32(vreinterpretq_u32_s32(vabsq_s32(t))));
}

static void norm_panel(const int16_t *panel, const int16_t *q, int steps, int shift, int64_t *sums)
{
    const int64x2_t count = vdupq_n_s64(shift);
    int32x4_t t[ROWS][4];
    for (int row = 0; row < ROWS; row++)
        for (int v = 0; v < 4; v++)
            t[row][v] = vdupq_n_s32(0);
    for (int s = 0; s < steps; s++, panel += CKV_CPU_PANEL_COLUMNS, q += ROWS) {
        int16x8_t left = vld1q_s16(panel), right = vld1q_s16(panel + 8);
        for (int row = 0; row < ROWS; row++) {
            t[row][0] = vmlal_n_s16(t[row][0], vget_low_s16(left), q[row]);
            t[row][1] = vmlal_high_n_s16(t[row][1], left, q[row]);
            t[row][2] = vmlal_n_s16(t[row][2], vget_low_s16(right), q[row]);
            t[row][3] = vmlal_high_n_s16(t[row][3], right, q[row]);
        }
    }
    for (int row = 0; row < ROWS; row++, sums += CKV_CPU_SUM_LANES) {
        int64x2_t sum = vaddq_s64(vaddq_s64(widened(t[row][0]), widened(t[row][1])),
                                  vaddq_s64(widened(t[row][2]), widened(t[row][3])));
        vst1q_s64(sums, vaddq_s64(vld1q_s64(sums), vshlq_s64(sum, count)));
    }
}

const ckv_cpu_kernels ckv_cpu_kernels_neon = {
    .isa = "neon",
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
