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
static void logits(const float *queries, const float *keys, int head_dim, float *out, int64_t stride, float *tops)
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

/*
 * Spec 4.3 in two loops over as many logits as WEIGHED: all at once is a longer chain than the
 * processor looks ahead, and has more constants than registers.  The first works out
 * e^x = 2^n * (1 + head + tail), n in the low bits of `power`.  What is below -60 gives 0 in the
 * end and must not overflow on the way.  What is above -2^-60 counts as that, whose exponential
 * is 1 too, so that r * r does not underflow.
 */
#define WEIGHED 192
#define LEAST 0x1.5ae192p-87f /* e^-60: the exponential is strictly monotone there */

typedef struct exponentials {
    _Alignas(64) float power[WEIGHED], head[WEIGHED], tail[WEIGHED];
} exponentials;

static inline void expand(const float *row, int count, vf top, exponentials *e)
{
    const vf round = vf_set(12582912.0f);
    for (int i = 0; i < count; i += LANES) {
        vf x = vf_min(vf_max(vf_sub(vf_load(row + i), top), vf_set(-61.0f)), vf_set(-0x1p-60f));
        vf t = vf_fma(x, vf_set(0x1.715476p0f), round);
        vf n = vf_sub(t, round);
        vf rh = vf_fma(n, vf_set(-0x1.62e4p-1f), x);
        vf rl = vf_mul(n, vf_set(-0x1.7f7d1cp-20f));
        vf r = vf_add(rh, rl);
        vf p = vf_fma(vf_set(0x1.6a243ap-10f), r, vf_set(0x1.1239ep-7f));
        p = vf_fma(p, r, vf_set(0x1.5558f2p-5f));
        p = vf_fma(p, r, vf_set(0x1.555492p-3f));
        p = vf_fma(p, r, vf_set(0x1.fffffcp-2f));
        vf_store(e->power + i, t);
        vf_store(e->head + i, rh);
        vf_store(e->tail + i, vf_fma(p, vf_mul(r, r), rl));
    }
}

/*
 * Sums of rne(e * 2^40), e in [0, 1], in two words a lane.  e + 96 rounds e to a multiple of
 * 2^-17, up to 2^17 of them, which are in the low bits of the float's word.  What that leaves is
 * at most 2^-18 in size; times 2^40 and rounded beside 1.5 * 2^23 it is an integer of at most
 * 2^22 in the low bits of that word.  (The rounding of the whole is the rounding of this part,
 * since the other is an even integer; and all but that rounding is exact.)
 */
#define UPPER 96.0f
#define LOWER 12582912.0f

typedef struct weight_sum {
    vu upper, lower;
} weight_sum;

static inline void weight_add(weight_sum *sum, vf e)
{
    vf upper = vf_add(e, vf_set(UPPER));
    vf lower = vf_fma(vf_sub(upper, vf_set(UPPER)), vf_set(-0x1p40f), vf_set(LOWER));
    sum->upper = vu_add(sum->upper, upper);
    sum->lower = vu_add(sum->lower, vf_fma(e, vf_set(0x1p40f), lower));
}

/* Of `terms` terms in each lane: few enough that none overflows. */
static int64_t weight_total(const weight_sum *sum, uint32_t terms)
{
    _Static_assert(WEIGHED / LANES <= 256, "each adds 2^22 at most to 2^31");
    uint32_t upper[LANES], lower[LANES];
    int64_t total = 0;
    vu_store(upper, sum->upper);
    vu_store(lower, sum->lower);
    for (int v = 0; v < LANES; v++)
        total +=
            (int64_t)(upper[v] - terms * ckv_bits(UPPER)) * (1 << 23) + (int32_t)(lower[v] - terms * ckv_bits(LOWER));
    return total;
}

/* Of a multiple of LANES logits, at most WEIGHED. */
static int64_t weigh(float *row, int count, float top)
{
    const vf one = vf_set(1.0f);
    weight_sum sum = {vu_zero(), vu_zero()};
    exponentials parts;
    expand(row, count, vf_set(top), &parts);
    for (int i = 0; i < count; i += LANES) {
        vf head = vf_load(parts.head + i), s = vf_add(one, head), c = vf_sub(head, vf_sub(s, one));
        vf e = vf_add_exponent(vf_add(s, vf_add(c, vf_load(parts.tail + i))), vf_load(parts.power + i));
        e = vf_zero_below(e, LEAST);
        vf_store(row + i, e);
        weight_add(&sum, e);
    }
    return weight_total(&sum, (uint32_t)(count / LANES));
}

static int64_t weights(float *row, int count, float top)
{
    int64_t sum = 0;
    int i = 0;
    for (int left; (left = (count - i) / LANES * LANES) > 0; i += left) {
        left = left < WEIGHED ? left : WEIGHED;
        sum += weigh(row + i, left, top);
    }
    if (i < count) {
        float lane[LANES];
        for (int v = 0; v < LANES; v++) /* what is below every logit (spec 8) weighs nothing */
            lane[v] = v < count - i ? row[i + v] : -0x1p120f;
        sum += weigh(lane, LANES, top);
        memcpy(row + i, lane, (size_t)(count - i) * sizeof *lane);
    }
    return sum;
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
