/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up layer.  Not white noise, since work may depend on what the data are: keys
 * in runs that draw much of the attention, the first and the latest tokens among them;
 * the first tokens' values small; a few channels of V several times the others.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "lib/numeric.h"

#define SINKS 4
#define RUN 8 /* neighbours that share their share of the attention */

enum { OF_QUERY, OF_KEY, OF_VALUE, OF_WEIGHT, OF_DIRECTION, OF_TOKEN, OF_RUN, OF_CHANNEL };

/* A counter hashed (the finaliser of splitmix64): any row can be made on its own. */
static uint64_t hash(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t key_of(int what, int64_t i, int64_t j)
{
    return hash(hash(hash((uint64_t)what) ^ (uint64_t)i) ^ (uint64_t)j);
}

static float uniform(uint64_t key, int64_t index)
{
    return (float)(hash(key ^ (uint64_t)index << 20) >> 40) * 0x1p-24f;
}

/* Mean 0, deviation 1: four uniform 16-bit numbers, centred and scaled. */
static float normal(uint64_t key, int64_t index)
{
    uint64_t z = hash(key + (uint64_t)index * UINT64_C(0xd1342543de82ef95));
    int32_t sum = (int32_t)((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48)) - 131070;
    return (float)sum * (1.0f / 37837.2f);
}

static void put(const ckv_tensor *tensor, int64_t index, float x)
{
    uint32_t u = ckv_bits(x), magnitude = u & 0x7fffffffu;
    uint16_t half = (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
    if (tensor->dtype == CKV_F16) { /* below 2^15; what would be subnormal is 0 */
        half = (uint16_t)(u >> 16 & 0x8000u);
        magnitude += 0xfffu + (magnitude >> 13 & 1u);
        if (magnitude >= 0x38800000u)
            half = (uint16_t)(half | (magnitude - 0x38000000u) >> 13);
    }
    memcpy((char *)tensor->data + index * 2, &half, sizeof half);
}

/* How many logits key i of head g is above the others. */
static float pull(int64_t g, int64_t i, int64_t tokens)
{
    uint64_t token = key_of(OF_TOKEN, g, i), run = key_of(OF_RUN, g, i / RUN);
    float amount = 0.7f * normal(token, 0) + normal(run, 0), age = (float)(tokens - i) / (float)tokens;
    if (uniform(run, 1) < 0.03f)
        amount += 3.0f + 4.0f * uniform(run, 2);
    if (age < 0.05f)
        amount += 2.0f * (1.0f - age * 20.0f);
    return i < SINKS ? amount + 7.0f : amount;
}

static void make_row(const struct layer *layer, int what, const ckv_tensor *tensor, int64_t row)
{
    int64_t width = tensor->shape[tensor->rank - 1], rows = tensor->rank == 3 ? tensor->shape[1] : tensor->shape[0];
    int64_t head = row / rows, i = row % rows,
            g = what == OF_QUERY ? head / (layer->query_heads / layer->kv_heads) : head;
    uint64_t own = key_of(what, head, i), direction = key_of(OF_DIRECTION, g, 0), channels = key_of(OF_CHANNEL, g, 0);
    float along = what == OF_KEY ? pull(g, i, layer->tokens) / sqrtf((float)width) : what == OF_QUERY ? 1.0f : 0.0f;
    float size = what == OF_WEIGHT  ? 0.02f * (0.7f + 0.6f * uniform(own, -1))
                 : what == OF_VALUE ? (0.6f + 0.8f * uniform(own, -1)) * (i < SINKS ? 0.3f : 1.0f)
                                    : 1.0f;
    for (int64_t k = 0; k < width; k++) {
        float x = normal(own, k) * size;
        if (what == OF_VALUE)
            x *= (0.7f + 0.6f * uniform(channels, 2 * k)) * (uniform(channels, 2 * k + 1) < 0.03f ? 4.0f : 1.0f);
        else if (along != 0.0f)
            x += along * normal(direction, k);
        put(tensor, row * width + k, x);
    }
}

size_t tensor_bytes(const ckv_tensor *tensor)
{
    size_t bytes = ckv_dtype_size(tensor->dtype);
    for (int32_t i = 0; i < tensor->rank; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

static int fill(struct layer *layer, int what, ckv_tensor *tensor)
{
    int64_t rows = tensor->shape[0] * (tensor->rank == 3 ? tensor->shape[1] : 1);
    layer->memory[what] = malloc(tensor_bytes(tensor));
    tensor->data = layer->memory[what];
    if (tensor->data == NULL)
        return 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t row = 0; row < rows; row++)
        make_row(layer, what, tensor, row);
    return 1;
}

int layer_make(struct layer *layer, const struct options *options, int64_t tokens)
{
    memset(layer, 0, sizeof *layer);
    layer->query_heads = options->query_heads;
    layer->kv_heads = options->kv_heads;
    layer->head_dim = options->head_dim;
    layer->value_dim = options->value_dim;
    layer->hidden = options->hidden;
    layer->tokens = tokens;
    layer->queries = options->window < tokens ? options->window : tokens;
    ckv_tensor_init_3d(&layer->query, options->dtype, NULL, layer->query_heads, layer->queries, layer->head_dim);
    ckv_tensor_init_3d(&layer->key, options->dtype, NULL, layer->kv_heads, tokens, layer->head_dim);
    ckv_tensor_init_3d(&layer->value, options->dtype, NULL, layer->kv_heads, tokens, layer->value_dim);
    ckv_tensor_init_2d(&layer->weight, options->dtype, NULL, layer->hidden,
                       (int64_t)layer->query_heads * layer->value_dim);
    if (fill(layer, OF_QUERY, &layer->query) && fill(layer, OF_KEY, &layer->key) &&
        fill(layer, OF_VALUE, &layer->value) && fill(layer, OF_WEIGHT, &layer->weight))
        return 1;
    fprintf(stderr, "ckv-device-bench: no memory for a layer of %lld tokens\n", (long long)tokens);
    return 0;
}

void layer_free(struct layer *layer)
{
    for (int i = 0; i < 4; i++)
        free(layer->memory[i]);
    memset(layer, 0, sizeof *layer);
}
