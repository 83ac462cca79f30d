/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AArch64 with the matrix product of int8 (I8MM): smmla, two rows by two
 * columns over eight channels.  The two rows are the two limbs of one row of V.
 * Compiled with flags of its own (m4/ckv_isa.m4); nothing else here may run before
 * usable() said so. */
#include "optimize.h"

#include "simd_neon.h"

#include "kernels_score.h"

#include "kernels_select.h"

#include "kernels_bound.h"

#ifdef __linux__
#include <sys/auxv.h>
#endif

#define STEP 8
#define ROWS 2 /* 16 accumulators, 2 of q and 8 of W of the 32 registers */
#define COLUMNS 16

#include "norm_limbs.h"
#include "norm_neon.h"

static int usable(void)
{
#if defined(__linux__) && defined(HWCAP2_I8MM)
    return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#else
    return 0;
#endif
}

/* T of four columns from two products, each of which has the high limb's two columns,
 * then the low one's. */
static inline int32x4_t four(int32x4_t first, int32x4_t second)
{
    int64x2_t a = vreinterpretq_s64_s32(first), b = vreinterpretq_s64_s32(second);
    return joined(vreinterpretq_s32_s64(vzip1q_s64(a, b)), vreinterpretq_s32_s64(vzip2q_s64(a, b)));
}

static void norm_panel(const void *panel, const int16_t *values, int steps, int shift, int64_t *sums)
{
    const int64x2_t count = vdupq_n_s64(shift);
    const int8_t *w = panel, *q = (const int8_t *)values;
    int32x4_t t[ROWS][8];
    UNROLL_8
    for (int row = 0; row < ROWS; row++) {
        UNROLL_8
        for (int v = 0; v < 8; v++)
            t[row][v] = vdupq_n_s32(0);
    }
    for (int s = 0; s < steps; s++, w += COLUMNS * STEP, q += ROWS * 2 * STEP) {
        int8x16_t limbs[ROWS];
        UNROLL_8
        for (int row = 0; row < ROWS; row++)
            limbs[row] = vld1q_s8(q + row * 2 * STEP);
        UNROLL_8
        for (int v = 0; v < 8; v++) {
            int8x16_t columns = vld1q_s8(w + 16 * v);
            UNROLL_8
            for (int row = 0; row < ROWS; row++)
                t[row][v] = vmmlaq_s32(t[row][v], limbs[row], columns);
        }
    }
    UNROLL_8
    for (int row = 0; row < ROWS; row++, sums += CKV_CPU_SUM_LANES)
        add_row(sums, four(t[row][0], t[row][1]), four(t[row][2], t[row][3]), four(t[row][4], t[row][5]),
                four(t[row][6], t[row][7]), count);
}

const ckv_cpu_kernels ckv_cpu_kernels_neon_i8mm = {
    .isa = "neon_i8mm",
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
