/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an eviction costs, as the paper defines it: the attention output of a query
 * head is softmax(q K) V W_h; eviction leaves the softmax over the kept keys alone.
 * The difference of the two probabilities is applied to V first and to W_h last, so
 * that no tokens x D product is ever made.
 */
#include "perturbation.h"

#include "lib/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Query heads that share one pass over a KV head's keys and values.  Bounds the
 * memory at this many rows of logits. */
#define BLOCK 8

enum { CRITICALKV, ATTENTION_ONLY, SETS };

/* One KV head's part of a selection. */
struct kept {
    const int32_t *positions;
    const uint8_t *stages;
    int64_t count;
};

/* A key's probability is exp(logit - maximum) * inverse. */
struct softmax {
    double maximum, inverse;
};

/* One query head. */
struct head {
    double *query;             /* [d], scaled */
    double *logits;            /* [n] */
    struct softmax all;        /* over every key */
    struct softmax part[SETS]; /* over the kept ones */
    double *change[SETS];      /* [dv]: (p - p kept) V */
    double mass;
};

struct work {
    const struct layer *layer;
    double *row; /* [d or dv] */
    struct head heads[BLOCK];
    double *memory;
};

static void load_row(const ckv_tensor *tensor, int64_t index, int64_t row, int64_t width, double *out)
{
    const char *at = (const char *)tensor->data + index * tensor->stride[0] + row * tensor->stride[1];

    for (int64_t i = 0; i < width; i++)
        out[i] = (double)ckv_sanitize(ckv_load_f32(at + i * tensor->stride[2], tensor->dtype));
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ------------------------------------------------------------------ probabilities */

static void compute_logits(struct work *work, int32_t kv_head, int32_t first, int count)
{
    const struct layer *layer = work->layer;
    double scale = layer->scale == 0.0f ? 1 / sqrt((double)layer->head_dim) : (double)layer->scale;

    for (int i = 0; i < count; i++) {
        load_row(&layer->query, first + i, layer->queries - 1, layer->head_dim, work->heads[i].query);
        for (int32_t k = 0; k < layer->head_dim; k++)
            work->heads[i].query[k] *= scale;
    }
    for (int64_t token = 0; token < layer->tokens; token++) {
        load_row(&layer->key, kv_head, token, layer->head_dim, work->row);
        for (int i = 0; i < count; i++)
            work->heads[i].logits[token] = dot(work->heads[i].query, work->row, layer->head_dim);
    }
}

/* Over the positions given, or over the first `count` when they are NULL.  Without
 * any, every probability is 0. */
static struct softmax normalise(const double *logits, const int32_t *positions, int64_t count)
{
    struct softmax result = {-HUGE_VAL, 0};
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        result.maximum = fmax(result.maximum, logits[positions == NULL ? i : positions[i]]);
    for (int64_t i = 0; i < count; i++)
        sum += exp(logits[positions == NULL ? i : positions[i]] - result.maximum);
    if (count > 0)
        result.inverse = 1 / sum;
    return result;
}

static double probability(const struct softmax *softmax, double logit)
{
    return exp(logit - softmax->maximum) * softmax->inverse;
}

static void compute_softmax(struct head *head, int64_t tokens, const struct kept kept[SETS])
{
    head->all = normalise(head->logits, NULL, tokens);
    for (int set = 0; set < SETS; set++)
        head->part[set] = normalise(head->logits, kept[set].positions, kept[set].count);
    head->mass = 0;
    for (int64_t i = 0; i < kept[CRITICALKV].count; i++) {
        if (kept[CRITICALKV].stages[i] != CKV_KEPT_STAGE2)
            head->mass += probability(&head->all, head->logits[kept[CRITICALKV].positions[i]]);
    }
}

/* ------------------------------------------------------------------ the output's change */

static void compute_change(struct work *work, int32_t kv_head, int count, const struct kept kept[SETS])
{
    const struct layer *layer = work->layer;
    int64_t next[SETS] = {0, 0};

    for (int i = 0; i < count; i++) {
        for (int set = 0; set < SETS; set++)
            memset(work->heads[i].change[set], 0, (size_t)layer->value_dim * sizeof(double));
    }
    for (int64_t token = 0; token < layer->tokens; token++) {
        bool is_kept[SETS];

        for (int set = 0; set < SETS; set++) {
            is_kept[set] = next[set] < kept[set].count && kept[set].positions[next[set]] == token;
            next[set] += is_kept[set];
        }
        load_row(&layer->value, kv_head, token, layer->value_dim, work->row);
        for (int i = 0; i < count; i++) {
            struct head *head = &work->heads[i];
            double before = probability(&head->all, head->logits[token]);

            for (int set = 0; set < SETS; set++) {
                double after = is_kept[set] ? probability(&head->part[set], head->logits[token]) : 0;

                for (int32_t k = 0; k < layer->value_dim; k++)
                    head->change[set][k] += (before - after) * work->row[k];
            }
        }
    }
}

/* |change W_h|_1, W_h being the columns of query head `query_head`. */
static void project(struct work *work, const struct head *head, int32_t query_head, double result[SETS])
{
    const ckv_tensor *weight = &work->layer->weight;
    int32_t width = work->layer->value_dim;
    ckv_tensor slice = *weight;

    slice.data = (char *)weight->data + (int64_t)query_head * width * weight->stride[1];
    slice.stride[2] = weight->stride[1];
    slice.stride[1] = 0;
    for (int set = 0; set < SETS; set++)
        result[set] = 0;
    for (int32_t output = 0; output < work->layer->hidden; output++) {
        load_row(&slice, output, 0, width, work->row);
        for (int set = 0; set < SETS; set++)
            result[set] += fabs(dot(head->change[set], work->row, width));
    }
}

/* ------------------------------------------------------------------ a layer */

static bool allocate(struct work *work)
{
    const struct layer *layer = work->layer;
    size_t d = (size_t)layer->head_dim, dv = (size_t)layer->value_dim, n = (size_t)layer->tokens;
    size_t group = (size_t)(layer->query_heads / layer->kv_heads), blocks = group < BLOCK ? group : BLOCK;
    double *at;

    /* Far from overflow: d, dv and n are extents of tensors in memory. */
    work->memory = calloc(d + dv + blocks * (d + n + SETS * dv), sizeof *work->memory);
    if (work->memory == NULL)
        return false;
    work->row = work->memory;
    at = work->row + d + dv;
    for (size_t i = 0; i < blocks; i++) {
        struct head *head = &work->heads[i];

        head->query = at;
        head->logits = head->query + d;
        head->change[CRITICALKV] = head->logits + n;
        head->change[ATTENTION_ONLY] = head->change[CRITICALKV] + dv;
        at = head->change[ATTENTION_ONLY] + dv;
    }
    return true;
}

static struct kept part_of(const ckv_selection *selection, int32_t kv_head)
{
    int32_t start = selection->offsets[kv_head];

    return (struct kept){selection->positions + start, selection->stages == NULL ? NULL : selection->stages + start,
                         selection->offsets[kv_head + 1] - start};
}

/* `mean` is a sum until the layer is done. */
static void add(struct spread *spread, double value)
{
    spread->mean += value;
    spread->least = fmin(spread->least, value);
    spread->most = fmax(spread->most, value);
}

bool perturbation_measure(const struct layer *layer, const ckv_selection *kept, const ckv_selection *attention_only,
                          struct perturbation *result)
{
    const struct spread none = {0, HUGE_VAL, -HUGE_VAL};
    struct work work = {.layer = layer};
    int32_t group = layer->query_heads / layer->kv_heads;

    if (!allocate(&work))
        return false;
    *result = (struct perturbation){none, none, none};
    for (int32_t kv_head = 0; kv_head < layer->kv_heads; kv_head++) {
        struct kept sets[SETS] = {part_of(kept, kv_head), part_of(attention_only, kv_head)};

        for (int32_t first = 0; first < group; first += BLOCK) {
            int count = group - first < BLOCK ? group - first : BLOCK;

            compute_logits(&work, kv_head, kv_head * group + first, count);
            for (int i = 0; i < count; i++)
                compute_softmax(&work.heads[i], layer->tokens, sets);
            compute_change(&work, kv_head, count, sets);
            for (int i = 0; i < count; i++) {
                double change[SETS];

                project(&work, &work.heads[i], kv_head * group + first + i, change);
                add(&result->stage1_mass, work.heads[i].mass);
                add(&result->criticalkv, change[CRITICALKV]);
                add(&result->attention_only, change[ATTENTION_ONLY]);
            }
        }
    }
    free(work.memory);
    result->stage1_mass.mean /= layer->query_heads;
    result->criticalkv.mean /= layer->query_heads;
    result->attention_only.mean /= layer->query_heads;
    return true;
}

double perturbation_work(const struct layer *layer)
{
    double keys = layer->head_dim, values = 2.0 * layer->value_dim, exponentials = 50;

    return layer->query_heads * ((double)layer->tokens * (keys + values + exponentials) + layer->hidden * values);
}
