/* SPDX-License-Identifier: Apache-2.0 */
/* The number helpers that every host-side part shares: loads, sanitising and
 * roundings of spec 3, all by integer operations on the bits or by exact ones,
 * so that flush-to-zero modes do not reach them. */
#ifndef CKV_LIB_NUMERIC_H
#define CKV_LIB_NUMERIC_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#include <ckv/ckv.h>

#if FLT_EVAL_METHOD != 0
#error "float expressions must be evaluated in float: use SSE arithmetic (-msse2 -mfpmath=sse) on 32-bit x86"
#endif

static inline uint32_t ckv_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float ckv_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define CKV_SIGN_BIT 0x80000000u
#define CKV_INF_BITS 0x7f800000u
#define CKV_TOP_BITS 0x53800000u    /* 2^40 */
#define CKV_BOTTOM_BITS 0x2c000000u /* 2^-39 */

/* binary16 to binary32, exact (spec 3.1); subnormals become normal, NaN stays NaN. */
static inline uint32_t ckv_f16_to_f32_bits(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (uint32_t)(h >> 10) & 31u;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 31u)
        return sign | CKV_INF_BITS | (mantissa << 13);
    if (exponent != 0u)
        return sign | ((exponent + 112u) << 23) | (mantissa << 13);
    if (mantissa == 0u)
        return sign;
    exponent = 113u;
    while ((mantissa & 0x400u) == 0u) {
        mantissa <<= 1;
        exponent--;
    }
    return sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13);
}

/* The bits of one element as binary32, unsanitised; `p` may have any alignment. */
static inline uint32_t ckv_load_bits(const void *p, ckv_dtype dtype)
{
    uint32_t word;
    uint16_t half;
    if (dtype == CKV_F32) {
        memcpy(&word, p, sizeof word);
        return word;
    }
    memcpy(&half, p, sizeof half);
    return dtype == CKV_BF16 ? (uint32_t)half << 16 : ckv_f16_to_f32_bits(half);
}

static inline float ckv_load_f32(const void *p, ckv_dtype dtype)
{
    return ckv_float(ckv_load_bits(p, dtype));
}

static inline int ckv_is_nan_bits(uint32_t u)
{
    return (u & ~CKV_SIGN_BIT) > CKV_INF_BITS;
}

static inline int ckv_is_nonfinite_bits(uint32_t u)
{
    return (u & CKV_INF_BITS) == CKV_INF_BITS;
}

/* Spec 3.1: NaN -> +0, |x| > 2^40 -> +-2^40, |x| < 2^-39 -> +0. */
static inline uint32_t ckv_sanitize_bits(uint32_t u)
{
    uint32_t magnitude = u & ~CKV_SIGN_BIT;
    if (magnitude > CKV_INF_BITS || magnitude < CKV_BOTTOM_BITS)
        return 0;
    return magnitude > CKV_TOP_BITS ? (u & CKV_SIGN_BIT) | CKV_TOP_BITS : u;
}

static inline float ckv_sanitize(float x)
{
    return ckv_float(ckv_sanitize_bits(ckv_bits(x)));
}

/* The exponent e of frexp, x = f * 2^e with f in [0.5, 1); x normal. */
static inline int ckv_exponent(float x)
{
    return (int)((ckv_bits(x) >> 23) & 0xffu) - 126;
}

/* x * 2^e by the exponent field; x zero or normal, and so is the result. */
static inline float ckv_scale(float x, int e)
{
    uint32_t u = ckv_bits(x);
    return (u & ~CKV_SIGN_BIT) == 0u ? x : ckv_float(u + ((uint32_t)e << 23));
}

/* rne(x * 2^e): the nearest integer, ties to even; x zero or normal, |x * 2^e| < 2^62. */
static inline int64_t ckv_rne(float x, int e)
{
    uint32_t u = ckv_bits(x);
    int shift = (int)((u >> 23) & 0xffu) - 150 + e;
    int64_t m = (int64_t)((u & 0x7fffffu) | 0x800000u);
    if ((u & CKV_INF_BITS) == 0u || shift < -25)
        return 0;
    if (shift >= 0) {
        m <<= shift;
    } else {
        int64_t half = (int64_t)1 << (-shift - 1);
        int64_t odd = (m >> -shift) & 1;
        m = (m + half - 1 + odd) >> -shift;
    }
    return (u & CKV_SIGN_BIT) != 0u ? -m : m;
}

/*
 * RN(2^40 / RN(sum)) by integer division (spec 4.4), sum in [2^40, 2^62].
 * RN(sum) = m * 2^k with m in [2^23, 2^24), so it is (2^47 / m) * 2^(-7-k), and
 * 2^47 / m is in (2^23, 2^24].
 */
static inline float ckv_inverse(int64_t sum)
{
    float rounded = (float)sum;
    int k = ckv_exponent(rounded) - 24;
    int64_t m = ckv_rne(rounded, -k);
    int64_t quotient = ((int64_t)1 << 47) / m;
    int64_t rest = ((int64_t)1 << 47) % m;
    if (2 * rest > m || (2 * rest == m && (quotient & 1) == 1))
        quotient++;
    return ckv_scale((float)quotient, -7 - k);
}

/* A word that orders as the reals do, with -0 equal to +0 and every NaN below
 * -infinity (spec 6.1). */
static inline uint32_t ckv_rank_bits(uint32_t u)
{
    if (ckv_is_nan_bits(u))
        return 0;
    if (u == CKV_SIGN_BIT)
        u = 0;
    return (u & CKV_SIGN_BIT) != 0u ? ~u : u | CKV_SIGN_BIT;
}

#endif
