/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of V quantised (spec 5.2) and put where the norm's panels read them.  Loops that each including file compiles for its own
 * instruction set; it has defined ROWS and STEP before, and, where the panels do not
 * read plain int16, PLACE_STEP(to, from), which writes STEP channels of one row.
 */
#include <string.h>

#include "kernels.h"
#include "lib/projection.h"
#include "load.h"

#ifndef PLACE_STEP
#define PLACE_STEP(to, from) memcpy(to, from, STEP * sizeof(int16_t))
#endif

/* R before it may grow. */
static int32_t top_exponent(const float *row, const int16_t *exponents, int32_t dim)
{
    int32_t top = CKV_CPU_NO_EXPONENT;
    for (int32_t k = 0; k < dim; k++) {
        uint32_t u = ckv_bits(row[k]) & ~CKV_SIGN_BIT;
        int32_t e = (int32_t)(u >> 23) - 126 + exponents[k];
        e = u == 0 || exponents[k] == CKV_CHANNEL_DROPPED ? CKV_CPU_NO_EXPONENT : e;
        top = e > top ? e : top;
    }
    return top;
}

/*
 * rne(V_k * 2^(bits-R+E_k)): the scaled value is exact, and adding 1.5 * 2^23 rounds it
 * to an integer in the low bits.  Returns the greatest magnitude.
 */
static int32_t round_row(const float *row, const int16_t *exponents, int32_t dim, int32_t bits_less_top,
                         int16_t *values)
{
    const float round = 12582912.0f;
    int32_t greatest = 0;
    for (int32_t k = 0; k < dim; k++) {
        int32_t e = bits_less_top + exponents[k];
        e = e > 60 ? 60 : e;   /* only where V_k is 0 */
        e = e < -80 ? -80 : e; /* 0 all the same, and no underflow on the way */
        e = exponents[k] == CKV_CHANNEL_DROPPED ? -80 : e;
        float scale = ckv_float((uint32_t)(e + 127) << 23);
        int32_t value = (int32_t)(ckv_bits(row[k] * scale + round) - ckv_bits(round));
        int32_t magnitude = value < 0 ? -value : value;
        greatest = magnitude > greatest ? magnitude : greatest;
        values[k] = (int16_t)value;
    }
    return greatest;
}

static int32_t quantize(const float *row, const int16_t *exponents, int32_t dim, int32_t bits, int16_t *values,
                        int16_t *q)
{
    int32_t steps = (dim + STEP - 1) / STEP, top = CKV_CPU_NO_EXPONENT;
    if (row != NULL)
        top = top_exponent(row, exponents, dim);
    if (top == CKV_CPU_NO_EXPONENT)
        memset(values, 0, (size_t)dim * sizeof *values);
    else if (round_row(row, exponents, dim, bits - top, values) > CKV_CPU_VALUE_MAX)
        round_row(row, exponents, dim, bits - ++top, values);
    memset(values + dim, 0, (size_t)(steps * STEP - dim) * sizeof *values);
    for (int32_t s = 0; s < steps; s++)
        PLACE_STEP(q + (int64_t)s * ROWS * STEP, values + s * STEP);
    return top;
}
