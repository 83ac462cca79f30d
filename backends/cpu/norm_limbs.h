/* SPDX-License-Identifier: Apache-2.0 */
/* The norm where products are of int8: q = 256 * high + low with both in int8, which
 * holds for |q| <= CKV_CPU_VALUE_MAX, and weights of at most 7 bits and a sign. */
#include <stdint.h>

/* STEP channels of one row: their high limbs, then their low ones. */
static inline void place_limbs(int16_t *to, const int16_t *from)
{
    int8_t limb[2][STEP];
    for (int c = 0; c < STEP; c++) {
        int32_t high = (from[c] + 32768 + 128) / 256 - 128;
        limb[0][c] = (int8_t)high;
        limb[1][c] = (int8_t)(from[c] - 256 * high);
    }
    memcpy(to, limb, sizeof limb);
}
#define PLACE_STEP(to, from) place_limbs(to, from)

#include "kernels_norm.h"

/* T of four columns; neither 256 * high nor the sum leaves 32 bits (spec 5.2). */
static inline int32x4_t joined(int32x4_t high, int32x4_t low)
{
    return vaddq_s32(vshlq_n_s32(high, 8), low);
}
