/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included by each isa_NAME.c: loops in plain C that the compiler makes into vectors
 * with that file's flags.  Sums have lanes of their own, since a compiler may not
 * reorder them; they are what a user would write who looked at the assembly once.
 */
#include "isa.h"

#include <math.h>
#include <string.h>

#define LOOP_LANES 64

/* Two roundings where the processor has no fused one: the peers promise no bits. */
#if defined(__FMA__) || defined(__aarch64__)
#define MULTIPLY_ADD(a, b, c) fmaf(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

static uint64_t read_words(const uint64_t *words, size_t count)
{
    uint64_t sums[16] = {0}, total = 0;
    size_t i = 0;

    for (; i + 16 <= count; i += 16)
        for (size_t k = 0; k < 16; k++)
            sums[k] ^= words[i + k];
    for (; i < count; i++)
        total ^= words[i];
    for (size_t k = 0; k < 16; k++)
        total ^= sums[k];
    return total;
}

static void add_absolute(const float *rows, int64_t count, int64_t width, float scale, float *sums)
{
    for (int64_t i = 0; i < count; i++, rows += width) {
        float lanes[LOOP_LANES] = {0}, sum = 0;
        int64_t j = 0;

        for (; j + LOOP_LANES <= width; j += LOOP_LANES)
            for (int k = 0; k < LOOP_LANES; k++)
                lanes[k] += fabsf(rows[j + k]);
        for (; j < width; j++)
            sum += fabsf(rows[j]);
        for (int k = 0; k < LOOP_LANES; k++)
            sum += lanes[k];
        sums[i] += sum * scale;
    }
}

static float greatest_of(const float *row, int64_t count)
{
    float lanes[LOOP_LANES], greatest = row[0];
    int64_t i = 0;

    for (int k = 0; k < LOOP_LANES; k++)
        lanes[k] = row[0];
    for (; i + LOOP_LANES <= count; i += LOOP_LANES)
        for (int k = 0; k < LOOP_LANES; k++)
            lanes[k] = row[i + k] > lanes[k] ? row[i + k] : lanes[k];
    for (; i < count; i++)
        greatest = row[i] > greatest ? row[i] : greatest;
    for (int k = 0; k < LOOP_LANES; k++)
        greatest = lanes[k] > greatest ? lanes[k] : greatest;
    return greatest;
}

/* exp(x) for x <= 0, to a few units in the last place: by powers of two and a series. */
static inline float exponential(float x)
{
    float t, n, r, p;
    uint32_t bits, exponent;

    x = x < -80.0f ? -80.0f : x;
    t = MULTIPLY_ADD(x, 1.44269504f, 12582912.0f);
    n = t - 12582912.0f;
    r = MULTIPLY_ADD(n, -0.693359375f, x);
    r = MULTIPLY_ADD(n, 2.12194440e-4f, r);
    p = MULTIPLY_ADD(1.0f / 720.0f, r, 1.0f / 120.0f);
    p = MULTIPLY_ADD(p, r, 1.0f / 24.0f);
    p = MULTIPLY_ADD(p, r, 1.0f / 6.0f);
    p = MULTIPLY_ADD(p, r, 0.5f);
    p = MULTIPLY_ADD(p, r, 1.0f);
    p = MULTIPLY_ADD(p, r, 1.0f);
    memcpy(&exponent, &t, sizeof exponent);
    memcpy(&bits, &p, sizeof bits);
    bits += exponent << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* Of the first `seen` of `count`; the others become 0. */
static void softmax(float *row, int64_t seen, int64_t count)
{
    float lanes[LOOP_LANES] = {0}, greatest = greatest_of(row, seen), sum = 0, inverse;
    int64_t i = 0;

    for (; i + LOOP_LANES <= seen; i += LOOP_LANES)
        for (int k = 0; k < LOOP_LANES; k++) {
            row[i + k] = exponential(row[i + k] - greatest);
            lanes[k] += row[i + k];
        }
    for (; i < seen; i++) {
        row[i] = exponential(row[i] - greatest);
        sum += row[i];
    }
    for (int k = 0; k < LOOP_LANES; k++)
        sum += lanes[k];
    inverse = 1.0f / sum;
    for (i = 0; i < seen; i++)
        row[i] *= inverse;
    for (; i < count; i++)
        row[i] = 0.0f;
}

static void add_scaled(float *sum, const float *row, float scale, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] = MULTIPLY_ADD(row[i], scale, sum[i]);
}

/* What lies outside is ignored. */
static void pool_max(float *pooled, const float *row, int64_t count, int width)
{
    int64_t left = width / 2, right = width - 1 - left;

    memcpy(pooled, row, (size_t)count * sizeof *row);
    for (int64_t offset = -left; offset <= right; offset++) {
        int64_t from = offset < 0 ? -offset : 0, to = offset > 0 ? count - offset : count;

        for (int64_t i = from; i < to; i++)
            pooled[i] = row[i + offset] > pooled[i] ? row[i + offset] : pooled[i];
    }
}

#define ISA_LOOPS                                                                                                      \
    .read = read_words, .add_absolute = add_absolute, .softmax = softmax, .add_scaled = add_scaled, .pool_max = pool_max
