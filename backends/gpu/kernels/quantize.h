/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of V as the integers of one query head (spec 5.2), in LOCAL memory: shared by
 * every route of the norm. */
#ifndef CKV_GPU_QUANTIZE_H
#define CKV_GPU_QUANTIZE_H

#include "number.h"

#define Q_MAX 32639
#define NO_EXPONENT (-1000)
#define CHANNEL_DROPPED (-32768)

/* Which rows a work-group has: entry r of `tokens` is the row of V, or -1. */
FUNCTION void find_rows(GLOBAL const u8 *work, i32 g, i64 first, i32 rows, i32 items, LOCAL i32 *tokens,
                        const ckv_params p)
{
    i64 count = p.listed ? (i64)((GLOBAL const i32 *)(work + p.at_count))[g] : p.tokens;
    for (i32 r = local_id(); r < rows; r += items) {
        i64 at = first + r;
        i32 token = -1;
        if (at < count)
            token = p.listed ? ((GLOBAL const i32 *)(work + p.at_list))[(i64)g * p.tokens + at] : (i32)at;
        tokens[r] = token;
    }
}

/* rne(V_k * 2^(bits-R+E_k)): the scaled value is exact, and adding 1.5 * 2^23 rounds it
 * to an integer in the low bits. */
FUNCTION i32 quantize(f32 v, i32 exponent, i32 top, i32 value_bits)
{
    const f32 round = 12582912.0f;
    i32 e = value_bits - top + exponent;
    e = e > 60 ? 60 : e;   /* only where V_k is 0 */
    e = e < -80 ? -80 : e; /* 0 all the same, and no underflow on the way */
    if (exponent == CHANNEL_DROPPED || top == NO_EXPONENT)
        return 0;
    return (i32)(bits(v * power(e) + round) - bits(round));
}

/*
 * q[r * pitch + k] for `rows` rows and channels k < padded, 0 beyond dv and in absent
 * rows; tops[r] = R, or NO_EXPONENT for a row that is zero.  `items` work-items, a
 * multiple of rows; scratch[items].  Starts and ends with a barrier.
 */
FUNCTION u32 quantize_rows(GLOBAL const u8 *value, GLOBAL const u8 *packed, i32 head, i32 g, LOCAL const i32 *tokens,
                           i32 rows, i32 items, i32 padded, i32 pitch, LOCAL i32 *scratch, LOCAL i32 *tops,
                           LOCAL i16 *q, const ckv_params p)
{
    GLOBAL const i16 *exponents = (GLOBAL const i16 *)(packed + p.at_exponents) + (i64)head * p.value_dim;
    const i32 id = local_id(), parts = items / rows, r = id / parts, part = id - r * parts;
    i32 top = NO_EXPONENT, greatest = 0, token;
    u32 bad = 0u;
    BARRIER();
    token = tokens[r];
    for (i32 k = part; token >= 0 && k < p.value_dim; k += parts) {
        u32 u = load_bits(value + place(p.value, g, token, k), p.value.dtype, p.value.aligned);
        u32 magnitude = bits(sanitize(u)) & ~SIGN;
        i32 e = (i32)(magnitude >> 23) - 126 + exponents[k];
        bad |= is_nonfinite(u) ? BAD_VALUE : 0u;
        if (magnitude != 0u && exponents[k] != CHANNEL_DROPPED && e > top)
            top = e;
    }
    scratch[id] = top;
    BARRIER();
    for (i32 i = 0; i < parts; i++)
        top = scratch[r * parts + i] > top ? scratch[r * parts + i] : top;
    for (i32 k = part; token >= 0 && k < p.value_dim; k += parts) {
        u32 u = load_bits(value + place(p.value, g, token, k), p.value.dtype, p.value.aligned);
        i32 x = quantize(sanitize(u), exponents[k], top, p.value_bits);
        x = x < 0 ? -x : x;
        greatest = x > greatest ? x : greatest;
    }
    BARRIER();
    scratch[id] = greatest;
    BARRIER();
    for (i32 i = 0; i < parts; i++)
        greatest = scratch[r * parts + i] > greatest ? scratch[r * parts + i] : greatest;
    if (greatest > Q_MAX)
        top++;
    for (i32 k = part; k < padded; k += parts) {
        i32 x = 0;
        if (token >= 0 && k < p.value_dim) {
            u32 u = load_bits(value + place(p.value, g, token, k), p.value.dtype, p.value.aligned);
            x = quantize(sanitize(u), exponents[k], top, p.value_bits);
        }
        q[r * pitch + k] = (i16)x;
    }
    if (part == 0)
        tops[r] = top;
    BARRIER();
    return bad;
}

/* Spec 5.3: one head's norm from S. */
FUNCTION f32 head_norm(GLOBAL const u8 *packed, i32 head, i32 top, i64 sum, const ckv_params p)
{
    GLOBAL const i16 *bases = (GLOBAL const i16 *)(packed + p.at_bases);
    if (top == NO_EXPONENT)
        return 0.0f;
    return scale_by(to_f32_i64(sum), top - p.value_bits + bases[head]);
}

/* Spec 5.4: the norm of a row from the sum over its heads. */
FUNCTION void store_norm(GLOBAL u8 *norm, i32 g, i32 token, f32 total, const ckv_params p)
{
    f32 mean = total * p.group_inverse;
    if (token >= 0)
        store_f32(norm + place(p.norm, g, token, 0), p.norm.aligned, mean < 0x1p-100f ? 0.0f : mean);
}

#endif
