/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AArch64's Advanced SIMD: four lanes. */
#include <arm_neon.h>

#include "lib/numeric.h"

#define LANES 4
#define KEY_TILE 16
#define QUERY_VECTORS 4
#define QUERY_ROWS 5
#define BOUND_VECTORS 4
#define BOUND_ROWS 5
#define UNROLL_CHANNELS

typedef float32x4_t vf;

static inline vf vf_load(const float *p)
{
    return vld1q_f32(p);
}
static inline void vf_store(float *p, vf v)
{
    vst1q_f32(p, v);
}
static inline vf vf_set(float x)
{
    return vdupq_n_f32(x);
}
static inline vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}
static inline vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}
static inline vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
static inline vf vf_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return vminq_f32(a, b);
}
static inline vf vf_zero_below(vf v, float limit)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(v, vdupq_n_f32(limit))));
}
static inline vf vf_add_exponent(vf y, vf t)
{
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(y), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
}

/* Sums of the words of floats, modulo 2^32. */
typedef uint32x4_t vu;
static inline vu vu_zero(void)
{
    return vdupq_n_u32(0);
}
static inline vu vu_add(vu sum, vf v)
{
    return vaddq_u32(sum, vreinterpretq_u32_f32(v));
}
static inline void vu_store(uint32_t *p, vu sum)
{
    vst1q_u32(p, sum);
}

/* keys[c][t] = rows[t][c], four by four; `width` is a multiple of 8. */
static void transpose(float *keys, const float *rows, int head_dim, int width)
{
    for (int t = 0; t < KEY_TILE; t += 4)
        for (int c = 0; c < head_dim; c += 4) {
            float32x4_t r0 = vld1q_f32(rows + (t + 0) * width + c), r1 = vld1q_f32(rows + (t + 1) * width + c);
            float32x4_t r2 = vld1q_f32(rows + (t + 2) * width + c), r3 = vld1q_f32(rows + (t + 3) * width + c);
            float64x2_t a0 = vreinterpretq_f64_f32(vtrn1q_f32(r0, r1)), a1 = vreinterpretq_f64_f32(vtrn2q_f32(r0, r1));
            float64x2_t b0 = vreinterpretq_f64_f32(vtrn1q_f32(r2, r3)), b1 = vreinterpretq_f64_f32(vtrn2q_f32(r2, r3));
            float32x4_t column[4] = {
                vreinterpretq_f32_f64(vzip1q_f64(a0, b0)), vreinterpretq_f32_f64(vzip1q_f64(a1, b1)),
                vreinterpretq_f32_f64(vzip2q_f64(a0, b0)), vreinterpretq_f32_f64(vzip2q_f64(a1, b1))};
            for (int i = 0; i < 4 && c + i < head_dim; i++)
                vst1q_f32(keys + (c + i) * KEY_TILE + t, column[i]);
        }
}
