/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of bounds.c, over the vectors of the simd_*.h included before. */
#include <string.h>

#include "kernels.h"
#include "lib/tensor.h"
#include "load.h"

/* Exponent of the greatest |v_k| * 2^E_k. */
static int32_t bound_top(const float *row, const int32_t *exponents, int dim)
{
    int32_t top = CKV_CPU_NO_CHANNEL;
    for (int k = 0; k < dim; k++) {
        uint32_t u = ckv_bits(row[k]) & ~CKV_SIGN_BIT;
        int32_t e = (int32_t)(u >> 23) - 126 + exponents[k];
        e = u == 0 ? CKV_CPU_NO_CHANNEL : e;
        top = e > top ? e : top;
    }
    return top;
}

/* v'_k in place of v_k, by the exponent field; what would be below 2^-126 becomes 0. */
static void bound_scale(float *row, const int32_t *exponents, int dim, int32_t top)
{
    for (int k = 0; k < dim; k++) {
        uint32_t u = ckv_bits(row[k]), field = (u & ~CKV_SIGN_BIT) >> 23;
        int32_t e = exponents[k] - top;
        uint32_t scaled = u + ((uint32_t)e << 23);
        row[k] = ckv_float(scaled & ckv_cpu_mask(field != 0) & ckv_cpu_mask((int32_t)field + e > 0));
    }
}

static float bound_sum(vf v)
{
    float lane[LANES], sum = 0.0f;
    vf_store(lane, v);
    for (int i = 0; i < LANES; i++)
        sum = sum + lane[i];
    return sum;
}

static float bound_spread(const float *row, const float *lengths, int dim)
{
    vf sum = vf_set(0.0f), zero = vf_set(0.0f);
    for (int k = 0; k < dim; k += LANES) {
        vf v = vf_load(row + k);
        sum = vf_fma(vf_max(v, vf_sub(zero, v)), vf_load(lengths + k), sum);
    }
    return bound_sum(sum);
}

/* |L^T v'|^2 of BOUND_ROWS rows: the micro-tile of the logits, whose columns start at the
 * diagonal. */
static void bound_tile(const ckv_cpu_factor *factor, const float *rows, float *squares)
{
    const float *panel = factor->panels;
    vf square[BOUND_ROWS];
    for (int i = 0; i < BOUND_ROWS; i++)
        square[i] = vf_set(0.0f);
    for (int first = 0; first < factor->dim; first += CKV_CPU_BOUND_COLUMNS) {
        int left = factor->dim - first;
        for (int half = 0; half < CKV_CPU_BOUND_COLUMNS; half += BOUND_VECTORS * LANES) {
            vf sum[BOUND_ROWS][BOUND_VECTORS];
            for (int i = 0; i < BOUND_ROWS; i++)
                for (int v = 0; v < BOUND_VECTORS; v++)
                    sum[i][v] = vf_set(0.0f);
            for (int k = 0; k < left; k++) {
                vf column[BOUND_VECTORS];
                for (int v = 0; v < BOUND_VECTORS; v++)
                    column[v] = vf_load(panel + k * CKV_CPU_BOUND_COLUMNS + half + v * LANES);
                for (int i = 0; i < BOUND_ROWS; i++) {
                    vf x = vf_set(rows[i * CKV_CPU_BOUND_STRIDE + first + k]);
                    for (int v = 0; v < BOUND_VECTORS; v++)
                        sum[i][v] = vf_fma(x, column[v], sum[i][v]);
                }
            }
            for (int i = 0; i < BOUND_ROWS; i++)
                for (int v = 0; v < BOUND_VECTORS; v++)
                    square[i] = vf_fma(sum[i][v], sum[i][v], square[i]);
        }
        panel += left * CKV_CPU_BOUND_COLUMNS;
    }
    for (int i = 0; i < BOUND_ROWS; i++)
        squares[i] = bound_sum(square[i]);
}

static uint32_t bound_rows(const ckv_cpu_factor *factor, const ckv_tensor *value, int64_t head, const int32_t *list,
                           int64_t first, int count, float *scratch, ckv_cpu_bound *bounds)
{
    int dim = (int)value->shape[2];
    float squares[BOUND_ROWS];
    uint32_t bad = 0;
    memset(scratch, 0, BOUND_ROWS * CKV_CPU_BOUND_STRIDE * sizeof *scratch); /* also past the last channel */
    for (int at = 0; at < count; at += BOUND_ROWS) {
        int rows = count - at < BOUND_ROWS ? count - at : BOUND_ROWS;
        for (int i = 0; i < rows; i++) {
            float *row = scratch + i * CKV_CPU_BOUND_STRIDE;
            int64_t position = list == NULL ? first + at + i : list[first + at + i];
            bad |= load_row(row, ckv_at(value, head, position, 0), value->dtype, value->stride[2], dim);
            if (factor == NULL)
                continue;
            bounds[at + i].top = bound_top(row, factor->exponents, dim);
            bound_scale(row, factor->exponents, dim, bounds[at + i].top);
            bounds[at + i].spread = bound_spread(row, factor->lengths, dim);
        }
        if (factor == NULL)
            continue;
        bound_tile(factor, scratch, squares);
        for (int i = 0; i < rows; i++)
            bounds[at + i].square = squares[i];
    }
    return bad;
}
