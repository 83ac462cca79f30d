/* SPDX-License-Identifier: Apache-2.0 */
/* The selection's inner loops (spec 6): numbers that meet a condition moved together,
 * without jumps, since who is kept cannot be foreseen. */
#include "kernels.h"
#include "load.h"

/* Spec 6.1; *greatest_a and *greatest_v gather the greatest magnitudes of both. */
static void rank(uint32_t *ranks, const float *a, const float *v, int64_t count, uint32_t *greatest_a,
                 uint32_t *greatest_v)
{
    uint32_t most_a = *greatest_a, most_v = *greatest_v;
    for (int64_t i = 0; i < count; i++) {
        uint32_t u = ckv_bits(a[i]), magnitude = u & ~CKV_SIGN_BIT, other = ckv_bits(v[i]) & ~CKV_SIGN_BIT;
        most_a = magnitude > most_a ? magnitude : most_a;
        most_v = other > most_v ? other : most_v;
        ranks[i] = ckv_rank_bits(u);
    }
    *greatest_a = most_a;
    *greatest_v = most_v;
}

/* Spec 6.4, with 1 for a NaN's rank: no number's rank is that low.  Integers as far as
 * they go, so that compilers make vectors of it: those of numbers above 0 are in order,
 * and those of numbers below 0 are negative. */
static inline uint32_t stage2_rank(float attention, float norm, float epsilon)
{
    const int32_t least_a = 0x00800000 /* 2^-126 */, most_a = 0x49800000 /* 2^20 */;
    const int32_t least_v = 0x0d800000 /* 2^-100 */, most_v = 0x74800000 /* 2^106 */;
    int32_t a = (int32_t)ckv_bits(attention), v = (int32_t)ckv_bits(norm);
    uint32_t is_nan =
        ckv_cpu_mask((a & INT32_MAX) > (int32_t)CKV_INF_BITS) | ckv_cpu_mask((v & INT32_MAX) > (int32_t)CKV_INF_BITS);
    uint32_t cut_a = (uint32_t)(a < most_a ? a : most_a) & ckv_cpu_mask(a >= least_a);
    uint32_t cut_v = (uint32_t)(v < most_v ? v : most_v) & ckv_cpu_mask(v >= least_v);
    float sum = ckv_float(cut_a) + epsilon;
    uint32_t rank = ckv_bits(sum * ckv_float(cut_v)) | CKV_SIGN_BIT;
    return (rank & ~is_nan) | (1u & is_nan);
}

static void score(uint32_t *ranks, const float *a, const float *v, int64_t count, uint32_t taken, float epsilon)
{
    for (int64_t i = 0; i < count; i++)
        ranks[i] = (ckv_cpu_mask(ranks[i] < taken) & stage2_rank(a[i], v[i], epsilon)) | CKV_CPU_TAKEN;
}

static int64_t gather(const uint32_t *ranks, int64_t n, uint32_t low, uint32_t high, uint32_t *bin, int64_t *above)
{
    uint32_t range = high - low;
    int64_t inside = 0, more = 0, i = 0;
#ifdef GATHER_EIGHTS /* by vectors of its own, given in the simd_*.h */
    i = GATHER_EIGHTS(ranks, n, low, high, bin, &inside, &more);
#endif
    for (; i < n; i++) {
        bin[inside] = ranks[i];
        inside += ranks[i] - low <= range;
        more += ranks[i] > high;
    }
    *above += more;
    return inside;
}

static int64_t keep(const uint32_t *rank, int32_t first, int64_t count, uint32_t least, int32_t *positions,
                    uint8_t *stages)
{
    int64_t at = 0, i = 0;
#ifdef KEEP_EIGHTS
    i = KEEP_EIGHTS(rank, first, count, least, positions, stages, &at);
#endif
    for (; i < count; i++) {
        positions[at] = first + (int32_t)i;
        stages[at] = (uint8_t)(CKV_KEPT_STAGE1 + (rank[i] != CKV_CPU_TAKEN));
        at += rank[i] - 1u >= least - 1u; /* CKV_CPU_TAKEN - 1 is above all */
    }
    return at;
}
