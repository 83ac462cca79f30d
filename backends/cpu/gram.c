/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gram matrices of the quantised weights, for the bounds of the norm.
 *
 * M = sum over outputs j of 2^sh_j w_j w_j^T.  Outputs of one shift are gathered in
 * tiles, so that an entry is a dot product of int16 in int32: with |w| < 2^7 and at most
 * TILE outputs it stays below 2^24, with |w| < 2^10 below 2^30.  Shifted and summed over
 * at most 2^15 outputs it stays below 2^16 * 2^15 * 2^14 (or 2^16 * 2^10 * 2^20), exact in
 * binary64.
 */
#include "gram.h"

#include <string.h>

#include "lib/sizes.h"
#include "optimize.h"
#include "threads.h"

#define TILE 1024
#define SHIFTS 17
#define UNROLL 16

typedef struct layout {
    size_t triangle, outputs, weights, squares, total;
} layout;

static int lay_out(const ckv_projection *p, layout *l)
{
    size_t heads = (size_t)p->query_heads, at = 0;
    int fits = 1;
    l->triangle = (size_t)p->value_dim * ((size_t)p->value_dim + 1) / 2;
    l->outputs = at;
    fits &= ckv_add_block(&at, heads, sizeof(double));
    l->weights = at;
    fits &= ckv_add_block(&at, heads, sizeof(double));
    l->squares = at;
    fits &= ckv_add_block(&at, heads, l->triangle * sizeof(double));
    l->total = at;
    return fits;
}

size_t ckv_cpu_gram_size(const ckv_projection *projection)
{
    layout l;
    return lay_out(projection, &l) ? l.total : 0;
}

ckv_cpu_gram ckv_cpu_gram_open(const ckv_projection *projection, const void *memory)
{
    const char *at = memory;
    layout l;
    lay_out(projection, &l);
    return (ckv_cpu_gram){l.triangle, (const double *)(const void *)(at + l.outputs),
                          (const double *)(const void *)(at + l.weights),
                          (const double *)(const void *)(at + l.squares)};
}

typedef struct job {
    const ckv_projection *projection;
    double *outputs, *weights, *squares;
    size_t triangle;
    int16_t *tiles; /* [workers][dv][TILE] */
    int16_t *used;  /* [workers][D] */
} job;

/* Dot products of `a` with four rows, whose starts are TILE apart. */
static void dot4(const int16_t *a, const int16_t *b, int count, int32_t out[4])
{
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int i = 0; i < count; i++) {
        s0 += a[i] * b[i];
        s1 += a[i] * b[i + TILE];
        s2 += a[i] * b[i + 2 * TILE];
        s3 += a[i] * b[i + 3 * TILE];
    }
    out[0] = s0;
    out[1] = s1;
    out[2] = s2;
    out[3] = s3;
}

static int32_t dot(const int16_t *a, const int16_t *b, int count)
{
    int32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static int32_t sum_of_magnitudes(const int16_t *a, int count)
{
    int32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] < 0 ? -a[i] : a[i];
    return sum;
}

/* Adds a tile of `count` outputs, all of one shift. */
static void add_tile(const job *j, int64_t head, const int16_t *tile, int count, double unit)
{
    double *row = j->squares + (size_t)head * j->triangle;
    int32_t dim = j->projection->value_dim;
    int32_t part[4];
    for (int32_t k = 0; k < dim; row += ++k) {
        const int16_t *a = tile + (int64_t)k * TILE;
        int32_t l = 0;
        for (; l + 4 <= k + 1; l += 4) {
            dot4(a, tile + (int64_t)l * TILE, count, part);
            for (int i = 0; i < 4; i++)
                row[l + i] += unit * part[i];
        }
        for (; l <= k; l++)
            row[l] += unit * dot(a, tile + (int64_t)l * TILE, count);
        j->weights[head] += unit * sum_of_magnitudes(a, count);
    }
}

/* used[j] != 0: output j is not 0 in every channel. */
static void find_used(const ckv_projection *p, int64_t head, int16_t *used)
{
    const int16_t *w = p->weights + head * p->value_dim * p->hidden;
    memset(used, 0, (size_t)p->hidden * sizeof *used);
    for (int32_t k = 0; k < p->value_dim; k++, w += p->hidden)
        for (int32_t j = 0; j < p->hidden; j++)
            used[j] = (int16_t)(used[j] | w[j]);
}

/* Gathers the outputs `order`, with zeros up to a whole number of vectors. */
static int gather(const ckv_projection *p, int64_t head, const int32_t *order, int count, int16_t *tile)
{
    const int16_t *w = p->weights + head * p->value_dim * p->hidden;
    int padded = (count + UNROLL - 1) / UNROLL * UNROLL;
    for (int32_t k = 0; k < p->value_dim; k++, w += p->hidden, tile += TILE) {
        for (int i = 0; i < count; i++)
            tile[i] = w[order[i]];
        for (int i = count; i < padded; i++)
            tile[i] = 0;
    }
    return padded;
}

static void add_head(const void *argument, int64_t head, int32_t worker)
{
    const job *j = argument;
    const ckv_projection *p = j->projection;
    const uint8_t *shifts = p->shifts + head * p->hidden;
    int16_t *tile = j->tiles + (int64_t)worker * p->value_dim * TILE;
    int16_t *used = j->used + (int64_t)worker * p->hidden;
    int32_t order[TILE];
    find_used(p, head, used);
    for (int s = 0; s < SHIFTS; s++) {
        double unit = (double)((int64_t)1 << s);
        int count = 0;
        for (int32_t output = 0; output < p->hidden; output++) {
            if (shifts[output] == s && used[output] != 0)
                order[count++] = output;
            if (count == TILE || (count > 0 && output + 1 == p->hidden)) {
                j->outputs[head] += unit * count;
                add_tile(j, head, tile, gather(p, head, order, count, tile), unit);
                count = 0;
            }
        }
    }
}

ckv_status ckv_cpu_gram_make(const ckv_context *context, const ckv_projection *projection, void *memory)
{
    size_t workers = (size_t)(context->threads < projection->query_heads ? context->threads : projection->query_heads);
    size_t tiles = 0, used = 0;
    char *scratch;
    layout l;
    job j = {.projection = projection};
    if (!ckv_add_block(&tiles, workers, (size_t)projection->value_dim * TILE * sizeof(int16_t)) ||
        !ckv_add_block(&used, workers, (size_t)projection->hidden * sizeof(int16_t)))
        return CKV_ERROR_NO_MEMORY; /* not with the limits of spec 2.3 */
    scratch = ckv_context_allocate(context, tiles + used, "projection");
    if (scratch == NULL)
        return CKV_ERROR_NO_MEMORY;
    lay_out(projection, &l);
    j.outputs = (double *)(void *)((char *)memory + l.outputs);
    j.weights = (double *)(void *)((char *)memory + l.weights);
    j.squares = (double *)(void *)((char *)memory + l.squares);
    j.triangle = l.triangle;
    j.tiles = (int16_t *)(void *)scratch;
    j.used = (int16_t *)(void *)(scratch + tiles);
    memset(memory, 0, l.total);
    ckv_cpu_for_each(context, projection->query_heads, add_head, &j);
    ckv_context_release(context, scratch);
    return CKV_OK;
}
