/* SPDX-License-Identifier: Apache-2.0 */
/* The score's inner loops (spec 4), over the vectors of the simd_*.h included before. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "load.h"

#define MEAN_VECTORS 8

static uint32_t load_row(float *row, const void *from, ckv_dtype dtype, int64_t stride, int64_t count)
{
#ifdef LOAD_DENSE /* by vectors of its own, given in the simd_*.h */
    if (stride == (int64_t)ckv_dtype_size(dtype))
        return LOAD_DENSE(row, from, dtype, count);
#endif
    return ckv_cpu_load_strided(row, from, dtype, stride, count);
}

static uint32_t load_keys(float *keys, const void *from, ckv_dtype dtype, int64_t token_stride, int64_t element_stride,
                          int count, int head_dim, float *scratch)
{
    int width = (head_dim + 7) & ~7;
    uint32_t bad = 0;
#ifdef LOAD_KEYS_PLAIN /* those that sanitising leaves as they are, by vectors of its own */
    if (count == KEY_TILE && element_stride == (int64_t)ckv_dtype_size(dtype) && head_dim % 8 == 0 &&
        LOAD_KEYS_PLAIN(keys, from, dtype, token_stride, head_dim))
        return 0;
#endif
    for (int t = 0; t < count; t++)
        bad |= load_row(scratch + t * width, (const char *)from + t * token_stride, dtype, element_stride, head_dim);
    if (count < KEY_TILE)
        memset(scratch + count * width, 0, (size_t)((KEY_TILE - count) * width) * sizeof *scratch);
    transpose(keys, scratch, head_dim, width);
    return bad;
}

/* One lane per key; the chain over channels stays one chain per (query, key). */
static void logits(const float *queries, const float *keys, int head_dim, float *out, int64_t stride,
                   float *tops)
{
    for (int half = 0; half < KEY_TILE; half += QUERY_VECTORS * LANES) {
        vf sum[QUERY_ROWS][QUERY_VECTORS];
        for (int i = 0; i < QUERY_ROWS; i++)
            for (int v = 0; v < QUERY_VECTORS; v++)
                sum[i][v] = vf_set(0.0f);
        UNROLL_CHANNELS
        for (int c = 0; c < head_dim; c++) {
            vf key[QUERY_VECTORS];
            for (int v = 0; v < QUERY_VECTORS; v++)
                key[v] = vf_load(keys + (int64_t)c * KEY_TILE + half + v * LANES);
            for (int i = 0; i < QUERY_ROWS; i++) {
                vf query = vf_set(queries[(int64_t)c * QUERY_ROWS + i]);
                for (int v = 0; v < QUERY_VECTORS; v++)
                    sum[i][v] = vf_fma(query, key[v], sum[i][v]);
            }
        }
        for (int i = 0; i < QUERY_ROWS; i++) {
            vf top = vf_load(tops + i * CKV_CPU_TOP_LANES);
            for (int v = 0; v < QUERY_VECTORS; v++) {
                vf_store(out + i * stride + half + v * LANES, sum[i][v]);
                top = vf_max(top, sum[i][v]);
            }
            vf_store(tops + i * CKV_CPU_TOP_LANES, top);
        }
    }
}

static float greatest(const float *row, int count, float start)
{
    vf best = vf_set(start);
    float lane[LANES];
    int i = 0;
    for (; i + LANES <= count; i += LANES)
        best = vf_max(best, vf_load(row + i));
    vf_store(lane, best);
    for (int v = 0; v < LANES; v++)
        start = lane[v] > start ? lane[v] : start;
    for (; i < count; i++)
        start = row[i] > start ? row[i] : start;
    return start;
}

/* Spec 4.3 */
static inline vf weight(vf logit, vf top)
{
    const vf round = vf_set(12582912.0f), one = vf_set(1.0f);
    vf x = vf_sub(logit, top);
    /* What is below -60 gives 0 in the end and must not overflow on the way.  What is above
     * -2^-26 counts as 0, whose exponential is 1, so that r * r does not underflow;
     * -0x1.fffffep-27 is the float next to it. */
    vf cut = vf_where_less(x, -0x1.fffffep-27f, vf_max(x, vf_set(-61.0f)), vf_set(0.0f));
    vf t = vf_fma(cut, vf_set(0x1.715476p0f), round);
    vf n = vf_sub(t, round);
    vf rh = vf_fma(n, vf_set(-0x1.62e4p-1f), cut);
    vf rl = vf_mul(n, vf_set(-0x1.7f7d1cp-20f));
    vf r = vf_add(rh, rl);
    vf p = vf_set(0x1.6a243ap-10f);
    p = vf_fma(p, r, vf_set(0x1.1239ep-7f));
    p = vf_fma(p, r, vf_set(0x1.5558f2p-5f));
    p = vf_fma(p, r, vf_set(0x1.555492p-3f));
    p = vf_fma(p, r, vf_set(0x1.fffffcp-2f));
    p = vf_fma(p, vf_mul(r, r), rl);
    vf s = vf_add(one, rh);
    vf c = vf_sub(rh, vf_sub(s, one));
    vf y = vf_add_exponent(vf_add(s, vf_add(c, p)), t);
    return vf_where_less(x, -60.0f, vf_set(0.0f), y);
}

static int64_t weights(float *row, int count, float top)
{
    vf tops = vf_set(top);
    vsum sum = vsum_zero();
    int i = 0;
    int64_t added = 0, rest = 0;
    for (; i + LANES <= count; i += LANES, added += LANES) {
        vf e = weight(vf_load(row + i), tops);
        vf_store(row + i, e);
        sum = vsum_add(sum, e);
    }
    if (i < count) {
        float lane[LANES] = {0};
        memcpy(lane, row + i, (size_t)(count - i) * sizeof *lane);
        vf_store(lane, weight(vf_load(lane), tops));
        memcpy(row + i, lane, (size_t)(count - i) * sizeof *lane);
        for (int v = 0; v < count - i; v++)
            rest += ckv_rne(lane[v], 40);
    }
    return vsum_total(sum, added) + rest;
}

static void accumulate(float *mean, const float *rows, int64_t stride, const float *r, int queries, int count)
{
    int i = 0;
    for (; i + MEAN_VECTORS * LANES <= count; i += MEAN_VECTORS * LANES) { /* so many chains at once */
        vf sum[MEAN_VECTORS];
        for (int v = 0; v < MEAN_VECTORS; v++)
            sum[v] = vf_load(mean + i + v * LANES);
        for (int q = 0; q < queries; q++) {
            vf share = vf_set(r[q]);
            for (int v = 0; v < MEAN_VECTORS; v++)
                sum[v] = vf_fma(vf_load(rows + q * stride + i + v * LANES), share, sum[v]);
        }
        for (int v = 0; v < MEAN_VECTORS; v++)
            vf_store(mean + i + v * LANES, sum[v]);
    }
    for (; i + LANES <= count; i += LANES) {
        vf sum = vf_load(mean + i);
        for (int q = 0; q < queries; q++)
            sum = vf_fma(vf_load(rows + q * stride + i), vf_set(r[q]), sum);
        vf_store(mean + i, sum);
    }
    for (; i < count; i++)
        for (int q = 0; q < queries; q++)
            mean[i] = fmaf(rows[q * stride + i], r[q], mean[i]);
}
