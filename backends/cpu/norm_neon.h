/* SPDX-License-Identifier: Apache-2.0 */
/* What the norm's panels share where a row of 16 columns is four vectors of 128 bits. */

static inline int64x2_t widened(int32x4_t t)
{
    return vreinterpretq_s64_u64(vpaddlq_u32(vreinterpretq_u32_s32(vabsq_s32(t))));
}

static inline void add_row(int64_t *sums, int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d, int64x2_t shift)
{
    int64x2_t sum = vaddq_s64(vaddq_s64(widened(a), widened(b)), vaddq_s64(widened(c), widened(d)));
    vst1q_s64(sums, vaddq_s64(vld1q_s64(sums), vshlq_s64(sum, shift)));
}
