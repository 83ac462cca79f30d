/* SPDX-License-Identifier: Apache-2.0 */
/* Plain C: what the compiler makes of it for the base of the target, as it does for the
 * kernels in plain C.  fmaf may be a call there. */
#include "backends/cpu/optimize.h"

#include "isa_loops.h"

#define LANES 32

static int usable(void)
{
    return 1;
}

/* Factors that the compiler must take as new in each round. */
static volatile float float_factor = 0.75f;
static volatile int16_t integer_factor = -3;
static volatile float float_sink;
static volatile int32_t integer_sink;

static void fma_rounds(int64_t rounds)
{
    float a[LANES], sum = 0;

    for (int k = 0; k < LANES; k++)
        a[k] = (float)k;
    for (int64_t i = 0; i < rounds; i++) {
        float x = float_factor;

        for (int k = 0; k < LANES; k++)
            a[k] = fmaf(x, -0.25f, a[k]);
    }
    for (int k = 0; k < LANES; k++)
        sum += a[k];
    float_sink = sum;
}

/* Two products to a lane, as in kernels_portable.c. */
static void integer_rounds(int64_t rounds)
{
    int32_t a[LANES], sum = 0;
    int16_t w[2 * LANES];

    for (int k = 0; k < LANES; k++)
        a[k] = k;
    for (int k = 0; k < 2 * LANES; k++)
        w[k] = (int16_t)(k & 1);
    for (int64_t i = 0; i < rounds; i++) {
        int16_t x = integer_factor, y = integer_factor;

        for (int k = 0; k < LANES; k++)
            a[k] = (int32_t)((uint32_t)a[k] + (uint32_t)(x * w[2 * k] + y * w[2 * k + 1]));
    }
    for (int k = 0; k < LANES; k++)
        sum ^= a[k];
    integer_sink = sum;
}

const struct isa isa_portable = {
    .name = "portable",
    .usable = usable,
    .fma_name = "fmaf in plain C",
    .integer_name = "int16 products in plain C",
    .fma_macs = LANES,
    .integer_macs = LANES * 2,
    .fma = fma_rounds,
    .integer = integer_rounds,
    ISA_LOOPS,
};
