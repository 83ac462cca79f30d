/* SPDX-License-Identifier: Apache-2.0 */
/* The norm (spec 5) by products of integers, on any device. */
#ifndef CKV_GPU_NORM_INT_H
#define CKV_GPU_NORM_INT_H

#include "quantize.h"

#define NORM_INT_GROUP 128
#define NORM_INT_ROWS_MAX 32
#define NORM_INT_PITCH 512 /* the greatest value_dim */

/* Grid: (row tiles, Hkv).  A tile of V meets the W of all the group's heads; each item
 * has columns of its own, and a column costs one load for all the rows. */
FUNCTION void norm_int(GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, i32 rows,
                       LOCAL i16 *q, LOCAL i64 *sums, LOCAL i32 *scratch, LOCAL i32 *tokens, LOCAL i32 *tops,
                       const ckv_params p)
{
    const i32 id = local_id(), g = group_y(p);
    f32 total = 0.0f;
    u32 bad = 0u;
    find_rows(work, g, (i64)group_id(0) * rows, rows, NORM_INT_GROUP, tokens, p);
    for (i32 member = 0; member < p.group; member++) {
        const i32 head = g * p.group + member;
        GLOBAL const i16 *w = (GLOBAL const i16 *)(packed + p.at_weights) + (i64)head * p.value_dim * p.columns;
        GLOBAL const u8 *shifts = packed + p.at_shifts + (i64)head * p.columns;
        i64 sum[NORM_INT_ROWS_MAX];
        bad |= quantize_rows(value, packed, head, g, tokens, rows, NORM_INT_GROUP, p.value_dim, NORM_INT_PITCH, scratch,
                             tops, q, p);
        UNROLL for (i32 r = 0; r < rows; r++) sum[r] = 0;
        for (i32 column = id; column < p.columns; column += NORM_INT_GROUP) {
            i32 t[NORM_INT_ROWS_MAX];
            UNROLL for (i32 r = 0; r < rows; r++) t[r] = 0;
            for (i32 k = 0; k < p.value_dim; k++) {
                i32 x = w[(i64)k * p.columns + column];
                UNROLL for (i32 r = 0; r < rows; r++) t[r] += q[r * NORM_INT_PITCH + k] * x;
            }
            UNROLL for (i32 r = 0; r < rows; r++) sum[r] += (i64)(t[r] < 0 ? -t[r] : t[r]) << shifts[column];
        }
        UNROLL for (i32 half_tile = 0; half_tile < rows; half_tile += 8)
        {
            UNROLL for (i32 r = 0; r < 8; r++) sums[r * NORM_INT_GROUP + id] = sum[half_tile + r];
            BARRIER();
            if (id >= half_tile && id < half_tile + 8) {
                i64 all = 0;
                for (i32 i = 0; i < NORM_INT_GROUP; i++)
                    all += sums[(id - half_tile) * NORM_INT_GROUP + i];
                total = total + head_norm(packed, head, tops[id], all, p);
            }
            BARRIER();
        }
    }
    if (id < rows)
        store_norm(norm, g, tokens[id], total, p);
    report(work, p, bad);
}

#define NORM_INT(name, rows)                                                                                           \
    KERNEL(name, NORM_INT_GROUP)                                                                                       \
    (GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, const ckv_params p)            \
    {                                                                                                                  \
        LOCAL_ARRAY(i16, q, (rows)*NORM_INT_PITCH);                                                                    \
        LOCAL_ARRAY(i64, sums, 8 * NORM_INT_GROUP);                                                                    \
        LOCAL_ARRAY(i32, scratch, NORM_INT_GROUP);                                                                     \
        LOCAL_ARRAY(i32, tokens, rows);                                                                                \
        LOCAL_ARRAY(i32, tops, rows);                                                                                  \
        norm_int(value, packed, norm, work, rows, q, sums, scratch, tokens, tops, p);                                  \
    }
NORM_INT(ckv_norm_int_8, 8)
NORM_INT(ckv_norm_int_16, 16)
NORM_INT(ckv_norm_int_32, 32)

#endif
