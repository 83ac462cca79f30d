/* SPDX-License-Identifier: Apache-2.0 */
/* The layers that are timed: made up, or from a capture; and fp32 copies for the peers. */
#include "data.h"

#include "lib/numeric.h"
#include "threads.h"
#include "tools/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN 8   /* neighbouring tokens that share some of their attention */
#define SINKS 4 /* first tokens: much attention, small values */

enum tensor { QUERY, KEY, VALUE, WEIGHT };

/* ------------------------------------------------------------------ random numbers */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A stream of its own for each (what, i, j), so that threads do not matter. */
static uint64_t stream(int what, int64_t i, int64_t j)
{
    uint64_t state = (uint64_t)what * 0xd1342543de82ef95u + (uint64_t)i * 0xaf251af3b0f025b5u + (uint64_t)j;

    state = next(&state);
    return next(&state);
}

/* In [0, 1). */
static float uniform(uint64_t *state)
{
    return (float)(next(state) >> 40) * 0x1p-24f;
}

/* Mean 0, deviation 1, nearly normal: four uniform numbers, centred and scaled. */
static float normal(uint64_t *state)
{
    uint64_t z = next(state);
    int32_t sum = (int32_t)((z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48)) - 131070;

    return (float)sum * (1.0f / 37837.2f);
}

/* ------------------------------------------------------------------ elements */

static uint16_t bf16_of(float x)
{
    uint32_t u = ckv_bits(x);

    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* Of numbers below 2^15; what binary16 has as a subnormal becomes 0. */
static uint16_t f16_of(float x)
{
    uint32_t u = ckv_bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;

    if (magnitude < 0x38800000u)
        return (uint16_t)sign;
    magnitude += 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

static void store(const ckv_tensor *tensor, int64_t row, const float *values, int64_t width)
{
    char *at = (char *)tensor->data + (size_t)(row * width) * ckv_dtype_size(tensor->dtype);

    if (tensor->dtype == CKV_F32) {
        memcpy(at, values, (size_t)width * sizeof *values);
        return;
    }
    for (int64_t k = 0; k < width; k++) {
        uint16_t half = tensor->dtype == CKV_BF16 ? bf16_of(values[k]) : f16_of(values[k]);

        memcpy(at + 2 * k, &half, sizeof half);
    }
}

/* ------------------------------------------------------------------ rows */

/* Component k of the direction that KV head g's queries and heavy keys share: of
 * length about sqrt(d). */
static void direction(int64_t g, int64_t width, float *u)
{
    uint64_t state = stream(10, g, 0);

    for (int64_t k = 0; k < width; k++)
        u[k] = normal(&state);
}

/* How much of the direction key i has, in logits. */
static float pull(int64_t g, int64_t i, int64_t tokens)
{
    uint64_t token = stream(11, g, i), run = stream(12, g, i / RUN);
    float amount = 0.7f * normal(&token) + normal(&run);
    float age = (float)(tokens - i) / (float)tokens;

    amount += uniform(&run) < 0.03f ? 3.0f + 4.0f * uniform(&run) : 0.0f;
    amount += age < 0.05f ? 2.0f * (1.0f - age / 0.05f) : 0.0f;
    return i < SINKS ? amount + 7.0f : amount;
}

static void query_row(const struct layer *layer, int64_t row, float *values)
{
    int64_t head = row / layer->queries, d = layer->head_dim;
    uint64_t state = stream(QUERY, head, row % layer->queries);

    direction(head / (layer->query_heads / layer->kv_heads), d, values);
    for (int64_t k = 0; k < d; k++)
        values[k] += normal(&state);
}

/* A pull of a adds about a * |u|^2 / sqrt(d) / sqrt(d) = a to the logits. */
static void key_row(const struct layer *layer, int64_t row, float *values)
{
    int64_t g = row / layer->tokens, i = row % layer->tokens, d = layer->head_dim;
    uint64_t state = stream(KEY, g, i);
    float amount = pull(g, i, layer->tokens) / sqrtf((float)d);

    direction(g, d, values);
    for (int64_t k = 0; k < d; k++)
        values[k] = values[k] * amount + normal(&state);
}

static void value_row(const struct layer *layer, int64_t row, float *values)
{
    int64_t g = row / layer->tokens, i = row % layer->tokens;
    uint64_t channels = stream(13, g, 0), state = stream(VALUE, g, i);
    float size = 0.6f + 0.8f * uniform(&state);

    if (i < SINKS)
        size *= 0.3f;
    for (int64_t k = 0; k < layer->value_dim; k++) {
        float outlier = uniform(&channels) < 0.03f ? 4.0f : 1.0f;

        values[k] = normal(&state) * size * outlier * (0.7f + 0.6f * uniform(&channels));
    }
}

static void weight_row(const struct layer *layer, int64_t row, float *values)
{
    int64_t width = (int64_t)layer->query_heads * layer->value_dim;
    uint64_t state = stream(WEIGHT, 0, row);
    float size = 0.02f * (0.7f + 0.6f * uniform(&state));

    for (int64_t k = 0; k < width; k++)
        values[k] = normal(&state) * size;
}

/* ------------------------------------------------------------------ tensors */

#define ROWS_AT_ONCE 256

/* One tensor being filled, or copied to fp32. */
struct filling {
    const struct layer *layer;
    const ckv_tensor *tensor;
    enum tensor which;
    int64_t rows, width;
    float *scratch; /* a row for each thread */
    float *plain;   /* the copy */
};

static void fill_rows(void *argument, int64_t item, int32_t worker)
{
    static void (*const make[4])(const struct layer *, int64_t, float *) = {query_row, key_row, value_row, weight_row};
    const struct filling *filling = argument;
    float *values = filling->scratch + worker * filling->width;

    for (int64_t row = item * ROWS_AT_ONCE; row < filling->rows && row < (item + 1) * ROWS_AT_ONCE; row++) {
        make[filling->which](filling->layer, row, values);
        store(filling->tensor, row, values, filling->width);
    }
}

static void copy_rows(void *argument, int64_t item, int32_t worker)
{
    const struct filling *filling = argument;
    const ckv_tensor *tensor = filling->tensor;
    size_t size = ckv_dtype_size(tensor->dtype);
    int64_t from = item * ROWS_AT_ONCE * filling->width, to = from + ROWS_AT_ONCE * filling->width;

    (void)worker;
    to = to < filling->rows * filling->width ? to : filling->rows * filling->width;
    for (int64_t i = from; i < to; i++)
        filling->plain[i] = ckv_load_f32((const char *)tensor->data + (size_t)i * size, tensor->dtype);
}

static void extents(const ckv_tensor *tensor, struct filling *filling)
{
    filling->tensor = tensor;
    filling->width = tensor->shape[tensor->rank - 1];
    filling->rows = tensor->shape[0] * (tensor->rank == 3 ? tensor->shape[1] : 1);
}

static int64_t items_of(const struct filling *filling)
{
    return (filling->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
}

static bool fill(struct subject *subject, enum tensor which, ckv_tensor *tensor)
{
    struct filling filling = {.layer = &subject->layer, .which = which};
    int32_t threads = threads_default();
    size_t bytes = layers_bytes(tensor);

    extents(tensor, &filling);
    subject->memory[which] = malloc(bytes);
    filling.scratch = malloc((size_t)threads * (size_t)filling.width * sizeof *filling.scratch);
    if (subject->memory[which] == NULL || filling.scratch == NULL) {
        message_error("%s: out of memory for %zu bytes", subject->name, bytes);
        free(filling.scratch);
        return false;
    }
    tensor->data = subject->memory[which];
    threads_run(threads, items_of(&filling), fill_rows, &filling);
    free(filling.scratch);
    return true;
}

bool data_make(struct subject *subject, const struct shape *shape, int64_t tokens, int64_t queries, ckv_dtype dtype)
{
    struct layer *layer = &subject->layer;

    memset(subject, 0, sizeof *subject);
    snprintf(subject->name, sizeof subject->name, "%s", shape->name);
    layer->query_heads = shape->query_heads;
    layer->kv_heads = shape->kv_heads;
    layer->tokens = tokens;
    layer->queries = queries;
    layer->head_dim = shape->head_dim;
    layer->value_dim = shape->value_dim;
    layer->hidden = shape->hidden;
    ckv_tensor_init_3d(&layer->query, dtype, NULL, shape->query_heads, queries, shape->head_dim);
    ckv_tensor_init_3d(&layer->key, dtype, NULL, shape->kv_heads, tokens, shape->head_dim);
    ckv_tensor_init_3d(&layer->value, dtype, NULL, shape->kv_heads, tokens, shape->value_dim);
    ckv_tensor_init_2d(&layer->weight, dtype, NULL, shape->hidden, (int64_t)shape->query_heads * shape->value_dim);
    return fill(subject, QUERY, &layer->query) && fill(subject, KEY, &layer->key) &&
           fill(subject, VALUE, &layer->value) && fill(subject, WEIGHT, &layer->weight);
}

void data_borrow(struct subject *subject, const char *name, const struct layer *layer)
{
    memset(subject, 0, sizeof *subject);
    snprintf(subject->name, sizeof subject->name, "%.60s layer %d", name, (int)layer->number);
    subject->layer = *layer;
}

static bool copy(const struct subject *subject, const ckv_tensor *tensor, float **plain)
{
    struct filling filling = {.layer = &subject->layer};

    extents(tensor, &filling);
    *plain = malloc((size_t)(filling.rows * filling.width) * sizeof **plain);
    if (*plain == NULL) {
        message_error("%s: out of memory for the peers' fp32 copies", subject->name);
        return false;
    }
    filling.plain = *plain;
    threads_run(threads_default(), items_of(&filling), copy_rows, &filling);
    return true;
}

bool data_plain(struct subject *subject)
{
    const struct layer *layer = &subject->layer;

    return copy(subject, &layer->query, &subject->query) && copy(subject, &layer->key, &subject->key) &&
           copy(subject, &layer->value, &subject->value) && copy(subject, &layer->weight, &subject->weight);
}

void data_free(struct subject *subject)
{
    for (int i = 0; i < 4; i++)
        free(subject->memory[i]);
    free(subject->query);
    free(subject->key);
    free(subject->value);
    free(subject->weight);
    memset(subject, 0, sizeof *subject);
}
