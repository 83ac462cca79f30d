/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention that each key receives from the window (spec 4.1 to 4.5), in passes over
 * K that compute the logits anew each time rather than store query x key of them:
 * the greatest of each row, the sum of each row, the means of each head.
 *
 * All three share one tile: `width` keys by SCORE_ROWS query rows, each work-item
 * width / 16 keys by 4 rows, so that an FMA costs 3/8 of a LOCAL word at 8 keys.  There are
 * kernels of several widths, each a constant once all is inlined.
 */
#ifndef CKV_GPU_SCORE_H
#define CKV_GPU_SCORE_H

#include "number.h"

#define SCORE_PER_MAX 16 /* keys of a work-item, at most */
#define SCORE_GROUP 128  /* 16 columns of items by 8 rows of items */
#define SCORE_DEPTH 16   /* channels in LOCAL memory at a time */
#define KEY_PITCH(width) ((width) + 4)
#define ROW_PITCH (SCORE_ROWS + 4)

/* Grid: (ceil(Hq * w * d / REDUCE_GROUP)).  Spec 4.1. */
KERNEL(ckv_scale_query, REDUCE_GROUP)(GLOBAL const u8 *query, GLOBAL u8 *work, const ckv_params p)
{
    i64 at = (i64)group_id(0) * REDUCE_GROUP + local_id();
    i64 cells = (i64)p.query_heads * p.window * p.head_dim;
    if (at < cells) {
        i64 row = at / p.head_dim, c = at - row * p.head_dim;
        i64 head = row / p.window, j = row - head * p.window;
        u32 u = load_bits(query + place(p.query, head, p.first_query + j, c), p.query.dtype, p.query.aligned);
        f32 scaled = from_bits(u) * p.scale;
        ((GLOBAL f32 *)(work + p.at_query))[at] = is_nan(u) ? 0.0f : sanitize(bits(scaled));
        report(work, p, is_nonfinite(u) ? BAD_QUERY : 0u);
    }
}

/*
 * acc[r][k] = logits of rows `row`.. (from p.at_query, of KV head g, `rows` of them)
 * with keys `first`...  Returns the BAD_KEY flag of what was read.
 */
FUNCTION u32 logits_tile(GLOBAL const u8 *key, GLOBAL const f32 *rows_of_query, i32 rows, i64 first, i32 g, i32 width,
                         LOCAL f32 *keys, LOCAL f32 *queries, f32 acc[4][SCORE_PER_MAX], const ckv_params p)
{
    const i32 id = local_id(), tx = id % 16, ty = id / 16;
    u32 bad = 0u;
    UNROLL for (i32 r = 0; r < 4; r++) UNROLL for (i32 k = 0; k < width / 16; k++) acc[r][k] = 0.0f;
    for (i32 start = 0; start < p.head_dim; start += SCORE_DEPTH) {
        BARRIER();
        for (i32 i = id; i < width * SCORE_DEPTH; i += SCORE_GROUP) {
            i32 c = i % SCORE_DEPTH, k = i / SCORE_DEPTH;
            f32 x = 0.0f;
            if (first + k < p.tokens && start + c < p.head_dim) {
                u32 u = load_bits(key + place(p.key, g, first + k, start + c), p.key.dtype, p.key.aligned);
                bad |= is_nonfinite(u) ? BAD_KEY : 0u;
                x = sanitize(u);
            }
            keys[c * KEY_PITCH(width) + k] = x;
        }
        for (i32 i = id; i < SCORE_ROWS * SCORE_DEPTH; i += SCORE_GROUP) {
            i32 c = i % SCORE_DEPTH, r = i / SCORE_DEPTH;
            f32 x = 0.0f;
            if (r < rows && start + c < p.head_dim)
                x = rows_of_query[(i64)r * p.head_dim + start + c];
            queries[c * ROW_PITCH + r] = x;
        }
        BARRIER();
        /* Channels past d add 0 * 0 to a sum that is never -0: nothing changes. */
        for (i32 c = 0; c < SCORE_DEPTH; c++) {
            f32x4 q = load4(queries + c * ROW_PITCH + ty * 4);
            UNROLL for (i32 k = 0; k < width / 16; k += 4)
            {
                f32x4 x = load4(keys + c * KEY_PITCH(width) + k * 16 + tx * 4);
                acc[0][k] = fma_rn(q.x, x.x, acc[0][k]);
                acc[0][k + 1] = fma_rn(q.x, x.y, acc[0][k + 1]);
                acc[0][k + 2] = fma_rn(q.x, x.z, acc[0][k + 2]);
                acc[0][k + 3] = fma_rn(q.x, x.w, acc[0][k + 3]);
                acc[1][k] = fma_rn(q.y, x.x, acc[1][k]);
                acc[1][k + 1] = fma_rn(q.y, x.y, acc[1][k + 1]);
                acc[1][k + 2] = fma_rn(q.y, x.z, acc[1][k + 2]);
                acc[1][k + 3] = fma_rn(q.y, x.w, acc[1][k + 3]);
                acc[2][k] = fma_rn(q.z, x.x, acc[2][k]);
                acc[2][k + 1] = fma_rn(q.z, x.y, acc[2][k + 1]);
                acc[2][k + 2] = fma_rn(q.z, x.z, acc[2][k + 2]);
                acc[2][k + 3] = fma_rn(q.z, x.w, acc[2][k + 3]);
                acc[3][k] = fma_rn(q.w, x.x, acc[3][k]);
                acc[3][k + 1] = fma_rn(q.w, x.y, acc[3][k + 1]);
                acc[3][k + 2] = fma_rn(q.w, x.z, acc[3][k + 2]);
                acc[3][k + 3] = fma_rn(q.w, x.w, acc[3][k + 3]);
            }
        }
    }
    return bad;
}

/* Key of acc[.][k] within its tile. */
FUNCTION i32 key_of(i32 k)
{
    return k / 4 * 64 + local_id() % 16 * 4 + k % 4;
}

/* Keys that window row j sees (spec 4.2). */
FUNCTION i64 visible(i32 j, const ckv_params p)
{
    return p.tokens - p.window + j + 1;
}

FUNCTION i32 row_tiles(const ckv_params p)
{
    return (p.group * p.window + SCORE_ROWS - 1) / SCORE_ROWS;
}

/* Grid: (chunks, Hkv * row tiles).  The greatest logit of each row within a chunk. */
FUNCTION void row_max(GLOBAL const u8 *key, GLOBAL u8 *work, i32 width, LOCAL f32 *keys, LOCAL f32 *queries,
                      LOCAL f32 *best, const ckv_params p)
{
    const i32 id = local_id(), tx = id % 16, ty = id / 16;
    const i32 g = group_y(p) / row_tiles(p), tile = group_y(p) - g * row_tiles(p);
    const i32 all = p.group * p.window, first_row = tile * SCORE_ROWS, rows = least(SCORE_ROWS, all - first_row);
    const i64 row = (i64)g * all + first_row, start = (i64)group_id(0) * p.chunk;
    GLOBAL const f32 *q = (GLOBAL const f32 *)(work + p.at_query) + row * p.head_dim;
    f32 acc[4][SCORE_PER_MAX], top[4];
    u32 bad = 0u;
    UNROLL for (i32 r = 0; r < 4; r++) top[r] = from_bits(0xff7fffffu); /* the least finite number */
    for (i64 first = start; first < start + p.chunk && first < p.tokens; first += width) {
        bad |= logits_tile(key, q, rows, first, g, width, keys, queries, acc, p);
        UNROLL for (i32 r = 0; r < 4; r++)
        {
            i64 seen = visible((first_row + ty * 4 + r) % p.window, p);
            UNROLL for (i32 k = 0; k < width / 16; k++) if (first + key_of(k) < seen && acc[r][k] > top[r]) top[r] =
                acc[r][k];
        }
    }
    UNROLL for (i32 r = 0; r < 4; r++) best[(ty * 4 + r) * 17 + tx] = top[r];
    BARRIER();
    if (id < rows) {
        f32 greatest = best[id * 17];
        for (i32 i = 1; i < 16; i++)
            greatest = best[id * 17 + i] > greatest ? best[id * 17 + i] : greatest;
        ((GLOBAL f32 *)(work + p.at_partial))[(i64)group_id(0) * p.query_heads * p.window + row + id] = greatest;
    }
    report(work, p, bad);
}

#define ROW_MAX(name, width, resident)                                                                                 \
    KERNEL_RESIDENT(name, SCORE_GROUP, resident)(GLOBAL const u8 *key, GLOBAL u8 *work, const ckv_params p)            \
    {                                                                                                                  \
        LOCAL_ARRAY(f32, keys, SCORE_DEPTH *KEY_PITCH(width));                                                         \
        LOCAL_ARRAY(f32, queries, SCORE_DEPTH *ROW_PITCH);                                                             \
        LOCAL_ARRAY(f32, best, SCORE_ROWS * 17);                                                                       \
        row_max(key, work, width, keys, queries, best, p);                                                             \
    }
ROW_MAX(ckv_row_max_64, 64, 4)
ROW_MAX(ckv_row_max_128, 128, 4)
ROW_MAX(ckv_row_max_256, 256, 2)

/* Grid: (ceil(Hq * w / REDUCE_GROUP)) */
KERNEL(ckv_row_greatest, REDUCE_GROUP)(GLOBAL u8 *work, const ckv_params p)
{
    i64 rows = (i64)p.query_heads * p.window, row = (i64)group_id(0) * REDUCE_GROUP + local_id();
    GLOBAL const f32 *partial = (GLOBAL const f32 *)(work + p.at_partial);
    if (row < rows) {
        f32 greatest = partial[row];
        for (i32 c = 1; c < p.chunks; c++) {
            f32 x = partial[c * rows + row];
            greatest = x > greatest ? x : greatest;
        }
        ((GLOBAL f32 *)(work + p.at_greatest))[row] = greatest;
    }
}

/* Grid: (chunks, Hkv * row tiles).  The sum of rne(e * 2^40) of each row within a chunk. */
FUNCTION void row_sum(GLOBAL const u8 *key, GLOBAL u8 *work, i32 width, LOCAL f32 *keys, LOCAL f32 *queries,
                      LOCAL i64 *part, const ckv_params p)
{
    const i32 id = local_id(), tx = id % 16, ty = id / 16;
    const i32 g = group_y(p) / row_tiles(p), tile = group_y(p) - g * row_tiles(p);
    const i32 all = p.group * p.window, first_row = tile * SCORE_ROWS, rows = least(SCORE_ROWS, all - first_row);
    const i64 row = (i64)g * all + first_row, start = (i64)group_id(0) * p.chunk;
    GLOBAL const f32 *q = (GLOBAL const f32 *)(work + p.at_query) + row * p.head_dim;
    GLOBAL const f32 *greatest = (GLOBAL const f32 *)(work + p.at_greatest) + row;
    f32 acc[4][SCORE_PER_MAX];
    i64 sum[4];
    UNROLL for (i32 r = 0; r < 4; r++) sum[r] = 0;
    for (i64 first = start; first < start + p.chunk && first < p.tokens; first += width) {
        logits_tile(key, q, rows, first, g, width, keys, queries, acc, p);
        UNROLL for (i32 r = 0; r < 4; r++) if (ty * 4 + r < rows)
        {
            i64 seen = visible((first_row + ty * 4 + r) % p.window, p);
            f32 top = greatest[ty * 4 + r];
            UNROLL for (i32 k = 0; k < width / 16; k++) if (first + key_of(k) < seen) sum[r] +=
                weight_integer(weight(acc[r][k] - top));
        }
    }
    UNROLL for (i32 r = 0; r < 4; r++) part[(ty * 4 + r) * 17 + tx] = sum[r];
    BARRIER();
    if (id < rows) {
        i64 total = 0;
        for (i32 i = 0; i < 16; i++)
            total += part[id * 17 + i];
        ((GLOBAL i64 *)(work + p.at_partial))[(i64)group_id(0) * p.query_heads * p.window + row + id] = total;
    }
}

#define ROW_SUM(name, width)                                                                                           \
    KERNEL(name, SCORE_GROUP)(GLOBAL const u8 *key, GLOBAL u8 *work, const ckv_params p)                               \
    {                                                                                                                  \
        LOCAL_ARRAY(f32, keys, SCORE_DEPTH *KEY_PITCH(width));                                                         \
        LOCAL_ARRAY(f32, queries, SCORE_DEPTH *ROW_PITCH);                                                             \
        LOCAL_ARRAY(i64, part, SCORE_ROWS * 17);                                                                       \
        row_sum(key, work, width, keys, queries, part, p);                                                             \
    }
ROW_SUM(ckv_row_sum_64, 64)
ROW_SUM(ckv_row_sum_128, 128)
ROW_SUM(ckv_row_sum_256, 256)

/* Grid: (ceil(Hq * w / REDUCE_GROUP)).  Spec 4.4. */
KERNEL(ckv_row_factor, REDUCE_GROUP)(GLOBAL u8 *work, const ckv_params p)
{
    i64 rows = (i64)p.query_heads * p.window, row = (i64)group_id(0) * REDUCE_GROUP + local_id();
    GLOBAL const i64 *partial = (GLOBAL const i64 *)(work + p.at_partial);
    if (row < rows) {
        i64 sum = 0;
        for (i32 c = 0; c < p.chunks; c++)
            sum += partial[c * rows + row];
        ((GLOBAL f32 *)(work + p.at_factor))[row] = inverse(sum) * p.window_inverse;
    }
}

/* Grid: (ceil(n / width), Hkv * wave).  The mean of one head over the window's
 * rows, in ascending order (spec 4.5), before pooling. */
FUNCTION void attend(GLOBAL const u8 *key, GLOBAL u8 *work, i32 width, LOCAL f32 *keys, LOCAL f32 *queries,
                     LOCAL f32 *weights, const ckv_params p)
{
    const i32 id = local_id(), ty = id / 16;
    const i32 g = group_y(p) / p.wave, member = group_y(p) - g * p.wave;
    const i64 head = (i64)g * p.group + p.wave_first + member, first = (i64)group_id(0) * width;
    const i32 exists = p.wave_first + member < p.group; /* of the whole work-group */
    f32 acc[4][SCORE_PER_MAX], mean[(16 * SCORE_PER_MAX + SCORE_GROUP - 1) / SCORE_GROUP];
    UNROLL for (i32 i = 0; i * SCORE_GROUP < width; i++) mean[i] = 0.0f;
    for (i32 start = 0; exists && start < p.window; start += SCORE_ROWS) {
        const i32 rows = least(SCORE_ROWS, p.window - start);
        const i64 row = head * p.window + start;
        GLOBAL const f32 *q = (GLOBAL const f32 *)(work + p.at_query) + row * p.head_dim;
        GLOBAL const f32 *greatest = (GLOBAL const f32 *)(work + p.at_greatest) + row;
        GLOBAL const f32 *factor = (GLOBAL const f32 *)(work + p.at_factor) + row;
        logits_tile(key, q, rows, first, g, width, keys, queries, acc, p);
        UNROLL for (i32 r = 0; r < 4; r++) if (ty * 4 + r < rows)
        {
            i64 seen = visible(start + ty * 4 + r, p);
            f32 top = greatest[ty * 4 + r];
            UNROLL for (i32 k = 0; k < width / 16; k++) weights[(ty * 4 + r) * KEY_PITCH(width) + key_of(k)] =
                first + key_of(k) < seen ? weight(acc[r][k] - top) : 0.0f;
        }
        BARRIER();
        UNROLL for (i32 i = 0; i * SCORE_GROUP < width; i++) for (i32 r = 0; r < rows && i * SCORE_GROUP + id < width;
                                                                  r++) mean[i] =
            fma_rn(weights[r * KEY_PITCH(width) + i * SCORE_GROUP + id], factor[r], mean[i]);
    }
    UNROLL for (i32 i = 0; i * SCORE_GROUP < width; i++)
    {
        i64 token = first + i * SCORE_GROUP + id;
        if (exists && token < p.tokens && i * SCORE_GROUP + id < width)
            ((GLOBAL f32 *)(work + p.at_heads))[((i64)member * p.kv_heads + g) * p.tokens + token] = mean[i];
    }
}

#define ATTEND(name, width)                                                                                            \
    KERNEL(name, SCORE_GROUP)(GLOBAL const u8 *key, GLOBAL u8 *work, const ckv_params p)                               \
    {                                                                                                                  \
        LOCAL_ARRAY(f32, keys, SCORE_DEPTH *KEY_PITCH(width));                                                         \
        LOCAL_ARRAY(f32, queries, SCORE_DEPTH *ROW_PITCH);                                                             \
        LOCAL_ARRAY(f32, weights, SCORE_ROWS *KEY_PITCH(width));                                                       \
        attend(key, work, width, keys, queries, weights, p);                                                           \
    }
ATTEND(ckv_attend_64, 64)
ATTEND(ckv_attend_128, 128)

/* Grid: (ceil(n / REDUCE_GROUP), Hkv).  Pools each head of the wave and adds it to the
 * group's sum, which `attention` holds between waves (spec 4.5). */
KERNEL(ckv_pool, REDUCE_GROUP)(GLOBAL u8 *attention, GLOBAL const u8 *work, const ckv_params p)
{
    const i32 g = group_y(p);
    const i64 token = (i64)group_id(0) * REDUCE_GROUP + local_id(), prefix = p.tokens - p.window;
    if (token < p.tokens) {
        GLOBAL u8 *out = attention + place(p.attention, g, token, 0);
        f32 sum = 0.0f;
        if (p.wave_first > 0)
            sum = from_bits(load_bits(out, DTYPE_F32, p.attention.aligned));
        for (i32 member = 0; token < prefix && member < p.wave && p.wave_first + member < p.group; member++) {
            GLOBAL const f32 *mean =
                (GLOBAL const f32 *)(work + p.at_heads) + ((i64)member * p.kv_heads + g) * p.tokens;
            i64 left = token - p.pool_width / 2, right = left + p.pool_width - 1;
            f32 pooled = mean[token];
            left = left < 0 ? 0 : left;
            right = right >= prefix ? prefix - 1 : right;
            if (p.pool == 1) {
                for (i64 i = left; i <= right; i++)
                    pooled = mean[i] > pooled ? mean[i] : pooled;
            } else if (p.pool == 2) {
                pooled = 0.0f;
                for (i64 i = left; i <= right; i++)
                    pooled = pooled + mean[i];
                pooled = pooled * p.pool_inverse;
            }
            sum = sum + pooled;
        }
        if (p.wave_first + p.wave >= p.group)
            sum = sum * p.group_inverse;
        store_f32(out, p.attention.aligned, sum);
    }
}

#endif
