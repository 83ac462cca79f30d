/* SPDX-License-Identifier: Apache-2.0 */
/* The norm (spec 5) by products of four bytes at once: q = 256 * high + low in signed
 * bytes, and weights of 10 bits too. */
#ifndef CKV_GPU_NORM_DOT4_H
#define CKV_GPU_NORM_DOT4_H

#include "quantize.h"

#define DOT4_GROUP 128
#define DOT4_PITCH 512 /* the greatest value_dim */
#define DOT4_COLUMNS 4 /* an item's columns at once */

/* q of four channels as words: limbs[2 * (word * DOT4_ROWS + row)] high, then low. */
FUNCTION void split_limbs(LOCAL const i16 *q, i32 words, LOCAL u32 *limbs)
{
    for (i32 i = local_id(); i < words * DOT4_ROWS; i += DOT4_GROUP) {
        const i32 word = i / DOT4_ROWS, row = i - word * DOT4_ROWS;
        u32 high = 0u, low = 0u;
        UNROLL for (i32 b = 0; b < 4; b++)
        {
            i32 x = q[row * DOT4_PITCH + 4 * word + b];
            low |= ((u32)x & 255u) << (8 * b);
            high |= ((u32)(x + 128) >> 8 & 255u) << (8 * b);
        }
        limbs[2 * i] = high;
        limbs[2 * i + 1] = low;
    }
}

/* Adds |T| * 2^shift of an item's columns to sum[]; with `wide`, of weights that have a high
 * limb too, after all the low ones.  w[word * columns + column] */
FUNCTION void dot_columns(LOCAL const u32 *limbs, GLOBAL const u32 *w, GLOBAL const u8 *shifts, i32 words, i32 columns,
                          i32 count, i32 wide, i64 *sum)
{
    for (i32 first = local_id(); first < columns; first += count * DOT4_GROUP) {
        i32 top[DOT4_COLUMNS][DOT4_ROWS], middle[DOT4_COLUMNS][DOT4_ROWS], low[DOT4_COLUMNS][DOT4_ROWS];
        UNROLL for (i32 c = 0; c < count; c++) UNROLL for (i32 r = 0; r < DOT4_ROWS; r++) top[c][r] = middle[c][r] =
            low[c][r] = 0;
        for (i32 k = 0; k < words; k++) {
            u32 x[DOT4_COLUMNS], y[DOT4_COLUMNS];
            UNROLL for (i32 c = 0; c < count; c++)
            {
                const i32 column = first + c * DOT4_GROUP;
                x[c] = column < columns ? w[(i64)k * columns + column] : 0u;
                y[c] = wide && column < columns ? w[(i64)(words + k) * columns + column] : 0u;
            }
            UNROLL for (i32 r = 0; r < DOT4_ROWS; r++)
            {
                const u32 q_high = limbs[2 * (k * DOT4_ROWS + r)], q_low = limbs[2 * (k * DOT4_ROWS + r) + 1];
                UNROLL for (i32 c = 0; c < count; c++)
                {
                    middle[c][r] = dot4(q_high, x[c], middle[c][r]);
                    low[c][r] = dot4(q_low, x[c], low[c][r]);
                    if (wide) {
                        top[c][r] = dot4(q_high, y[c], top[c][r]);
                        middle[c][r] = dot4(q_low, y[c], middle[c][r]);
                    }
                }
            }
        }
        UNROLL for (i32 c = 0; c < count; c++)
        {
            const i32 column = first + c * DOT4_GROUP, shift = column < columns ? shifts[column] : 0;
            UNROLL for (i32 r = 0; r < DOT4_ROWS; r++)
            {
                i32 t = (i32)(((u32)top[c][r] << 16) + ((u32)middle[c][r] << 8) + (u32)low[c][r]);
                sum[r] += (i64)(t < 0 ? -t : t) << shift;
            }
        }
    }
}

FUNCTION void norm_dot4(GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, i32 wide,
                        LOCAL i16 *q, LOCAL u32 *limbs, LOCAL i64 *sums, LOCAL i32 *scratch, LOCAL i32 *tokens,
                        LOCAL i32 *tops, const ckv_params p)
{
    const i32 id = local_id(), g = group_y(p), words = (p.value_dim + 3) / 4;
    f32 total = 0.0f;
    u32 bad = 0u;
    find_rows(work, g, (i64)group_id(0) * DOT4_ROWS, DOT4_ROWS, DOT4_GROUP, tokens, p);
    for (i32 member = 0; member < p.group; member++) {
        const i32 head = g * p.group + member;
        GLOBAL const u32 *w =
            (GLOBAL const u32 *)(packed + p.at_weights) + (i64)head * (wide ? 2 : 1) * words * p.columns;
        GLOBAL const u8 *shifts = packed + p.at_shifts + (i64)head * p.columns;
        i64 sum[DOT4_ROWS];
        bad |= quantize_rows(value, packed, head, g, tokens, DOT4_ROWS, DOT4_GROUP, 4 * words, DOT4_PITCH, scratch,
                             tops, q, p);
        split_limbs(q, words, limbs);
        BARRIER();
        UNROLL for (i32 r = 0; r < DOT4_ROWS; r++) sum[r] = 0;
        dot_columns(limbs, w, shifts, words, p.columns, wide ? DOT4_COLUMNS / 2 : DOT4_COLUMNS, wide, sum);
        UNROLL for (i32 r = 0; r < DOT4_ROWS; r++) sums[r * DOT4_GROUP + id] = sum[r];
        BARRIER();
        if (id < DOT4_ROWS) {
            i64 all = 0;
            for (i32 i = 0; i < DOT4_GROUP; i++)
                all += sums[id * DOT4_GROUP + i];
            total = total + head_norm(packed, head, tops[id], all, p);
        }
        BARRIER();
    }
    if (id < DOT4_ROWS)
        store_norm(norm, g, tokens[id], total, p);
    report(work, p, bad);
}

/* Grid: (row tiles, Hkv).  Weights of 7 bits, and the wide one for 10.  Two kernels, since
 * then the narrow one has the registers for four columns at once; it is no matter of bits: one
 * kernel that asks for p.value_bits gives the same on PoCL 3.1 too. */
#define NORM_DOT4(name, wide)                                                                                          \
    KERNEL(name, DOT4_GROUP)                                                                                           \
    (GLOBAL const u8 *value, GLOBAL const u8 *packed, GLOBAL u8 *norm, GLOBAL u8 *work, const ckv_params p)            \
    {                                                                                                                  \
        LOCAL_ARRAY(i16, q, DOT4_ROWS *DOT4_PITCH);                                                                    \
        LOCAL_ARRAY(u32, limbs, DOT4_ROWS *DOT4_PITCH / 2);                                                            \
        LOCAL_ARRAY(i64, sums, DOT4_ROWS *DOT4_GROUP);                                                                 \
        LOCAL_ARRAY(i32, scratch, DOT4_GROUP);                                                                         \
        LOCAL_ARRAY(i32, tokens, DOT4_ROWS);                                                                           \
        LOCAL_ARRAY(i32, tops, DOT4_ROWS);                                                                             \
        norm_dot4(value, packed, norm, work, wide, q, limbs, sums, scratch, tokens, tops, p);                          \
    }
NORM_DOT4(ckv_norm_dot4, 0)
NORM_DOT4(ckv_norm_dot4_wide, 1)

#endif
