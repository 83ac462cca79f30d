/* SPDX-License-Identifier: Apache-2.0 */
/* The least work of each stage, counted from the sizes. */
#include "work.h"

const char *const bench_stages[BENCH_STAGES] = {"score", "norm", "select", "compact", "layer"};

static double size_of(const ckv_tensor *tensor)
{
    return (double)ckv_dtype_size(tensor->dtype);
}

static struct work layer_work(const struct layer *layer, int64_t window, int64_t budget)
{
    struct work sum = {BOUND_INTEGER, 0, 0};

    for (int stage = BENCH_SCORE; stage <= BENCH_SELECT; stage++) {
        struct work part = work_of((enum bench_stage)stage, layer, window, budget);

        sum.macs += part.macs;
        sum.bytes += part.bytes;
    }
    return sum;
}

struct work work_of(enum bench_stage stage, const struct layer *layer, int64_t window, int64_t budget)
{
    double heads = layer->query_heads, w = (double)window, d = layer->head_dim, dv = layer->value_dim;
    double entries = (double)layer->kv_heads * (double)layer->tokens;
    double kept = (double)layer->kv_heads * (double)budget, group = heads / layer->kv_heads;
    double key = d * size_of(&layer->key), value = dv * size_of(&layer->value);

    switch (stage) {
    case BENCH_SCORE:
        return (struct work){BOUND_FMA, entries * group * w * d,
                             entries * (key + sizeof(float)) + heads * w * d * size_of(&layer->query)};
    case BENCH_NORM:
        return (struct work){BOUND_INTEGER, entries * group * dv * layer->hidden,
                             entries * (value + sizeof(float)) + heads * dv * layer->hidden * sizeof(int16_t)};
    case BENCH_SELECT:
        return (struct work){BOUND_READ, entries, entries * 2 * sizeof(float) + kept * sizeof(int32_t)};
    case BENCH_COMPACT:
        return (struct work){BOUND_COPY, 0, 2 * kept * (key + value)};
    default:
        return layer_work(layer, window, budget);
    }
}

double work_amount(const struct work *work)
{
    return work->bound == BOUND_FMA || work->bound == BOUND_INTEGER ? work->macs : work->bytes;
}
