/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of any dtype to sanitised floats (spec 3.1), in loops without branches that
 * each including file compiles for its own instruction set. */
#ifndef CKV_BACKENDS_CPU_LOAD_H
#define CKV_BACKENDS_CPU_LOAD_H

#include "lib/numeric.h"

/* All ones where the condition holds: compilers make vectors of masks, not of jumps. */
static inline uint32_t ckv_cpu_mask(int condition)
{
    return 0u - (uint32_t)condition;
}

/* ckv_sanitize_bits; `*greatest` gathers the greatest magnitude. */
static inline uint32_t ckv_cpu_sanitize(uint32_t u, uint32_t *greatest)
{
    uint32_t magnitude = u & ~CKV_SIGN_BIT;
    uint32_t least = magnitude < CKV_TOP_BITS ? magnitude : CKV_TOP_BITS;
    *greatest = magnitude > *greatest ? magnitude : *greatest;
    return ((u & CKV_SIGN_BIT) | least) & ckv_cpu_mask(magnitude <= CKV_INF_BITS) &
           ckv_cpu_mask(magnitude >= CKV_BOTTOM_BITS);
}

/* A subnormal half is its integer times 2^-24; no subnormal float is met on the way,
 * so that no mode of the processor reaches it. */
static inline uint32_t ckv_cpu_half(uint16_t h)
{
    uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t small = ckv_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t special = (magnitude << 13) + (224u << 23);
    uint32_t is_small = ckv_cpu_mask(magnitude < 0x400u), is_special = ckv_cpu_mask(magnitude >= 0x7c00u);
    return sign | (small & is_small) | (normal & ~is_small & ~is_special) | (special & is_special);
}

/* One row of `count` adjacent elements; returns 1 if some was NaN or infinite. */
static inline uint32_t ckv_cpu_load_row(float *row, const void *from, ckv_dtype dtype, int64_t count)
{
    const unsigned char *p = from;
    uint32_t greatest = 0;
    uint16_t half;
    uint32_t word;
    if (dtype == CKV_F32) {
        for (int64_t i = 0; i < count; i++) {
            memcpy(&word, p + 4 * i, sizeof word);
            row[i] = ckv_float(ckv_cpu_sanitize(word, &greatest));
        }
    } else if (dtype == CKV_BF16) {
        for (int64_t i = 0; i < count; i++) {
            memcpy(&half, p + 2 * i, sizeof half);
            row[i] = ckv_float(ckv_cpu_sanitize((uint32_t)half << 16, &greatest));
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            memcpy(&half, p + 2 * i, sizeof half);
            row[i] = ckv_float(ckv_cpu_sanitize(ckv_cpu_half(half), &greatest));
        }
    }
    return greatest >= CKV_INF_BITS;
}

/* The same for elements any distance apart. */
static inline uint32_t ckv_cpu_load_strided(float *row, const void *from, ckv_dtype dtype, int64_t stride,
                                            int64_t count)
{
    const unsigned char *p = from;
    uint32_t greatest = 0;
    if (stride == (int64_t)ckv_dtype_size(dtype) || count == 1)
        return ckv_cpu_load_row(row, from, dtype, count);
    for (int64_t i = 0; i < count; i++)
        row[i] = ckv_float(ckv_cpu_sanitize(ckv_load_bits(p + i * stride, dtype), &greatest));
    return greatest >= CKV_INF_BITS;
}

#endif
