/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in plain C, for every machine. */
#include "optimize.h"

#include "simd_portable.h"

#include "kernels_score.h"

#include "kernels_bound.h"
#include "kernels_select.h"

#define STEP 2
#define ROWS 4
#define COLUMNS 16

#include "kernels_norm.h"

static int usable(void)
{
    return 1;
}

static void norm_panel(const void *panel, const int16_t *q, int steps, int shift, int64_t *sums)
{
    for (int row = 0; row < ROWS; row++) {
        int32_t t[COLUMNS] = {0};
        int64_t sum = 0;
        for (int s = 0; s < steps; s++) {
            const int16_t *w = (const int16_t *)panel + s * COLUMNS * STEP;
            const int16_t *v = q + (s * ROWS + row) * STEP;
            for (int j = 0; j < COLUMNS; j++)
                t[j] += v[0] * w[2 * j] + v[1] * w[2 * j + 1];
        }
        for (int j = 0; j < COLUMNS; j++)
            sum += t[j] < 0 ? -t[j] : t[j];
        sums[row * CKV_CPU_SUM_LANES] += sum << shift;
    }
}

const ckv_cpu_kernels ckv_cpu_kernels_portable = {
    .isa = "portable",
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
