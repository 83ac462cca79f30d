/* SPDX-License-Identifier: Apache-2.0 */
/* AArch64's Advanced SIMD, which every AArch64 machine has. */
#include "backends/cpu/optimize.h"

#include "isa_loops.h"

#include <arm_neon.h>

static int usable(void)
{
    return 1;
}

#define EACH(DO)                                                                                                       \
    DO(0)                                                                                                              \
    DO(1)                                                                                                              \
    DO(2)                                                                                                              \
    DO(3)                                                                                                              \
    DO(4)                                                                                                              \
    DO(5)                                                                                                              \
    DO(6)                                                                                                              \
    DO(7)                                                                                                              \
    DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define ACCUMULATORS 24

#define FMA(i) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(a##i) : "w"(x), "w"(y));
#define START_FMA(i) float32x4_t a##i = vdupq_n_f32((float)(i));

static void fma_rounds(int64_t rounds)
{
    const float32x4_t x = vdupq_n_f32(0.75f), y = vdupq_n_f32(-0.25f);
    EACH(START_FMA)

    for (int64_t i = 0; i < rounds; i++) {
        EACH(FMA)
    }
}

#define INTEGER(i) __asm__ volatile("smlal %0.4s, %1.4h, %2.4h" : "+w"(a##i) : "w"(x), "w"(y));
#define START_INTEGER(i) int32x4_t a##i = vdupq_n_s32(i);

static void integer_rounds(int64_t rounds)
{
    const int16x4_t x = vdup_n_s16(77), y = vdup_n_s16(-3);
    EACH(START_INTEGER)

    for (int64_t i = 0; i < rounds; i++) {
        EACH(INTEGER)
    }
}

const struct isa isa_neon = {
    .name = "neon",
    .usable = usable,
    .fma_name = "fmla 4s",
    .integer_name = "smlal 4s",
    .fma_macs = ACCUMULATORS * 4,
    .integer_macs = ACCUMULATORS * 4,
    .fma = fma_rounds,
    .integer = integer_rounds,
    ISA_LOOPS,
};
