/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, sanitising and roundings of spec 3, on the bits: no mode of a device and no
 * missing 16-bit type reaches them. */
#ifndef CKV_GPU_NUMBER_H
#define CKV_GPU_NUMBER_H

#include "params.h"
#include "tiles.h"

/* Of ckv_dtype and the CKV_NONFINITE_* of ckv.h; backend.c holds them equal. */
#define DTYPE_F32 1
#define DTYPE_F16 2
#define DTYPE_BF16 3
#define BAD_QUERY 1u
#define BAD_KEY 2u
#define BAD_VALUE 4u
#define BAD_ATTENTION 16u
#define BAD_NORM 32u
#define BAD_SELECTION 64u

#define SIGN 0x80000000u
#define INFINITE 0x7f800000u

FUNCTION i32 least(i32 a, i32 b)
{
    return a < b ? a : b;
}

/* The second index of this group, over all launches that a grid was split in. */
FUNCTION i32 group_y(const ckv_params p)
{
    return p.first_group + group_id(1);
}

/* binary16 to binary32, exact; NaN stays NaN. */
FUNCTION u32 half_bits(u32 h)
{
    u32 sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 31u)
        return sign | INFINITE | (mantissa << 13);
    if (exponent == 0u)
        return sign | bits(to_f32_i32((i32)mantissa) * 0x1p-24f);
    return sign | ((exponent + 112u) << 23) | (mantissa << 13);
}

/* One element, unsanitised; byte by byte where the view is not aligned. */
FUNCTION u32 load_bits(GLOBAL const u8 *p, i32 dtype, i32 aligned)
{
    u32 word;
    if (dtype == DTYPE_F32) {
        if (aligned)
            return *(GLOBAL const u32 *)p;
        return (u32)p[0] | ((u32)p[1] << 8) | ((u32)p[2] << 16) | ((u32)p[3] << 24);
    }
    word = aligned ? (u32) * (GLOBAL const u16 *)p : (u32)p[0] | ((u32)p[1] << 8);
    return dtype == DTYPE_BF16 ? word << 16 : half_bits(word);
}

FUNCTION void store_f32(GLOBAL u8 *p, i32 aligned, f32 x)
{
    u32 word = bits(x);
    if (aligned) {
        *(GLOBAL u32 *)p = word;
        return;
    }
    for (i32 i = 0; i < 4; i++)
        p[i] = (u8)(word >> (8 * i));
}

/* Byte offset of an element of a view. */
FUNCTION i64 place(const ckv_view v, i64 head, i64 token, i64 element)
{
    return v.offset + head * v.head + token * v.token + element * v.element;
}

FUNCTION i32 is_nonfinite(u32 u)
{
    return (u & INFINITE) == INFINITE;
}

FUNCTION i32 is_nan(u32 u)
{
    return (u & ~SIGN) > INFINITE;
}

/* Spec 3.1 */
FUNCTION f32 sanitize(u32 u)
{
    u32 magnitude = u & ~SIGN;
    if (magnitude > INFINITE || magnitude < 0x2c000000u)
        return 0.0f;
    return from_bits(magnitude > 0x53800000u ? (u & SIGN) | 0x53800000u : u);
}

/* 2^e as a word's exponent, e in [-126, 127]. */
FUNCTION f32 power(i32 e)
{
    return from_bits((u32)(e + 127) << 23);
}

/* x * 2^e by the exponent field; x zero or normal, and so is the result. */
FUNCTION f32 scale_by(f32 x, i32 e)
{
    u32 u = bits(x);
    return (u & ~SIGN) == 0u ? x : from_bits(u + ((u32)e << 23));
}

/* rne(e * 2^40) of a weight e, which is 0 or in [2^-87, 1]. */
FUNCTION i64 weight_integer(f32 e)
{
    u32 u = bits(e);
    i32 shift = (i32)(u >> 23) - 110;
    i64 m = (i64)((u & 0x7fffffu) | 0x800000u), half_unit, odd;
    if (shift >= 0)
        return m << shift;
    if (u == 0u || shift < -25)
        return 0;
    half_unit = (i64)1 << (-shift - 1);
    odd = (m >> -shift) & 1;
    return (m + half_unit - 1 + odd) >> -shift;
}

/* RN(2^40 / RN(sum)) of spec 4.4, by integer division. */
FUNCTION f32 inverse(i64 sum)
{
    f32 rounded = to_f32_i64(sum);
    i32 k = (i32)(bits(rounded) >> 23) - 150; /* rounded = m * 2^k */
    i64 m = (i64)((bits(rounded) & 0x7fffffu) | 0x800000u);
    i64 dividend = (i64)1 << 47;
    i64 quotient = dividend / m, rest = dividend - quotient * m;
    if (2 * rest > m || (2 * rest == m && (quotient & 1) == 1))
        quotient++;
    return scale_by(to_f32_i64(quotient), -7 - k);
}

/* Spec 4.3, of x = l - m. */
FUNCTION f32 weight(f32 x)
{
    const f32 round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    f32 t, n, rh, rl, r, p, s, c, y;
    if (x < -60.0f)
        return 0.0f;
    if (x > -0x1p-26f)
        return 1.0f;
    t = fma_rn(x, 0x1.715476p0f, round);
    n = t - round;
    rh = fma_rn(n, -0x1.62e4p-1f, x);
    rl = n * -0x1.7f7d1cp-20f;
    r = rh + rl;
    p = 0x1.6a243ap-10f;
    p = fma_rn(p, r, 0x1.1239ep-7f);
    p = fma_rn(p, r, 0x1.5558f2p-5f);
    p = fma_rn(p, r, 0x1.555492p-3f);
    p = fma_rn(p, r, 0x1.fffffcp-2f);
    p = fma_rn(p, r * r, rl);
    s = 1.0f + rh;
    c = rh - (s - 1.0f);
    y = s + (c + p);
    return from_bits(bits(y) + (bits(t) << 23));
}

FUNCTION void report(GLOBAL u8 *work, const ckv_params p, u32 bad)
{
    if (bad != 0u)
        global_or((GLOBAL u32 *)(work + p.flags), bad);
}

#endif
