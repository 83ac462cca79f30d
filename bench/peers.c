/* SPDX-License-Identifier: Apache-2.0 */
/* The same results as a user would get them from what is at hand, in fp32. */
#include "peers.h"

#include "threads.h"
#include "tools/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NORM_ROWS 512 /* of a block: among the best of 64 to 2048 where it was tried */
#define COPY_PIECES 8 /* for each thread */

static int64_t group_of(const struct peers *peers)
{
    return peers->subject->layer.query_heads / peers->subject->layer.kv_heads;
}

/* Query heads of one work item of the score: a whole group, which share their keys,
 * where that keeps all threads busy. */
static int64_t heads_at_once(const struct peers *peers)
{
    return peers->subject->layer.kv_heads % peers->threads == 0 ? group_of(peers) : 1;
}

/* ------------------------------------------------------------------ memory */

static bool no_memory(const struct subject *subject)
{
    message_error("%s: out of memory for the peers", subject->name);
    return false;
}

bool peers_open(struct peers *peers, const struct subject *subject, struct blas *blas, int32_t threads,
                const ckv_policy *policy, int64_t window)
{
    const struct layer *layer = &subject->layer;
    size_t n = (size_t)layer->tokens, cells = (size_t)layer->kv_heads * n, score, norm;

    memset(peers, 0, sizeof *peers);
    peers->subject = subject;
    peers->blas = blas;
    peers->isa = isa_best();
    peers->threads = threads;
    peers->window = window;
    peers->epsilon = policy->epsilon;
    peers->scale = layer->scale == 0.0f ? 1.0f / sqrtf((float)layer->head_dim) : layer->scale;
    peers->width = policy->pool_width;
    score = ((size_t)(heads_at_once(peers) * window) + 1) * n;
    norm = (size_t)NORM_ROWS * (size_t)layer->hidden;
    peers->scratch_size = score > norm ? score : norm;
    peers->attention = calloc(cells, sizeof *peers->attention);
    peers->norm = calloc(cells, sizeof *peers->norm);
    peers->pooled = calloc((size_t)layer->query_heads * n, sizeof *peers->pooled);
    peers->scratch = calloc((size_t)threads * peers->scratch_size, sizeof *peers->scratch);
    peers->entries = calloc((size_t)threads * n, sizeof *peers->entries);
    peers->attention_in = peers->attention;
    peers->norm_in = peers->norm;
    if (peers->attention == NULL || peers->norm == NULL || peers->pooled == NULL || peers->scratch == NULL ||
        peers->entries == NULL)
        return no_memory(subject);
    if (blas->library != NULL)
        blas->set_threads(1);
    return true;
}

static void free_kept(struct peers *peers)
{
    free(peers->positions);
    free(peers->from);
    free(peers->to);
}

bool peers_keep(struct peers *peers, const ckv_plan_info *info)
{
    const struct layer *layer = &peers->subject->layer;
    size_t row = (size_t)layer->head_dim * ckv_dtype_size(layer->key.dtype) +
                 (size_t)layer->value_dim * ckv_dtype_size(layer->value.dtype);

    free_kept(peers);
    peers->budget = info->budget;
    peers->recent = info->window < info->budget ? info->window : info->budget;
    peers->stage1 = info->stage1 > peers->recent ? info->stage1 : peers->recent;
    peers->bytes = (size_t)info->positions * row;
    peers->positions = calloc((size_t)info->positions + 1, sizeof *peers->positions);
    peers->from = malloc(peers->bytes + 1);
    peers->to = malloc(peers->bytes + 1);
    if (peers->positions == NULL || peers->from == NULL || peers->to == NULL)
        return no_memory(peers->subject);
    memset(peers->from, 1, peers->bytes);
    memset(peers->to, 2, peers->bytes);
    return true;
}

void peers_close(struct peers *peers)
{
    free_kept(peers);
    free(peers->attention);
    free(peers->norm);
    free(peers->pooled);
    free(peers->scratch);
    free(peers->entries);
    memset(peers, 0, sizeof *peers);
}

const char *peers_name(const struct peers *peers, enum bench_stage stage, const char **reason)
{
    *reason = "";
    switch (stage) {
    case BENCH_SCORE:
        *reason = peers->blas->reason;
        return peers->blas->library == NULL ? NULL : "OpenBLAS sgemm, softmax, pool";
    case BENCH_NORM:
        *reason = peers->blas->reason;
        return peers->blas->library == NULL ? NULL : "OpenBLAS sgemm, abs-sum";
    case BENCH_SELECT:
#ifdef CKV_BENCH_CXX
        return "std::nth_element, std::sort";
#else
        *reason = "built without a C++ compiler, so without std::nth_element";
        return NULL;
#endif
    case BENCH_COMPACT:
        return "memcpy of as many bytes";
    default:
        *reason = "only its stages have peers";
        return NULL;
    }
}

/* ------------------------------------------------------------------ score */

static void score_heads(void *argument, int64_t item, int32_t worker)
{
    struct peers *peers = argument;
    const struct layer *layer = &peers->subject->layer;
    int64_t n = layer->tokens, w = peers->window, d = layer->head_dim, heads = heads_at_once(peers), prefix = n - w;
    int64_t first = item * heads, g = first / group_of(peers);
    float *logits = peers->scratch + (size_t)worker * peers->scratch_size, *mean = logits + heads * w * n;

    for (int64_t h = 0; h < heads; h++) {
        const float *rows = peers->subject->query + ((first + h) * layer->queries + layer->queries - w) * d;

        if (heads > 1 && layer->queries == w) { /* the group's rows lie side by side */
            if (h == 0)
                blas_multiply(peers->blas, heads * w, n, d, rows, d, peers->subject->key + g * n * d, d, peers->scale,
                              logits, n);
        } else {
            blas_multiply(peers->blas, w, n, d, rows, d, peers->subject->key + g * n * d, d, peers->scale,
                          logits + h * w * n, n);
        }
    }
    for (int64_t h = 0; h < heads; h++) {
        memset(mean, 0, (size_t)n * sizeof *mean);
        for (int64_t j = 0; j < w; j++) {
            float *row = logits + (h * w + j) * n;

            peers->isa->softmax(row, prefix + 1 + j, n);
            peers->isa->add_scaled(mean, row, 1.0f / (float)w, prefix);
        }
        peers->isa->pool_max(peers->pooled + (first + h) * n, mean, prefix, peers->width);
    }
}

static void average_heads(void *argument, int64_t g, int32_t worker)
{
    struct peers *peers = argument;
    int64_t n = peers->subject->layer.tokens, group = group_of(peers);
    float *sum = peers->attention + g * n;

    (void)worker;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        peers->isa->add_scaled(sum, peers->pooled + h * n, 1.0f / (float)group, n - peers->window);
}

bool peers_score(void *argument)
{
    struct peers *peers = argument;
    const struct layer *layer = &peers->subject->layer;

    threads_run(peers->threads, layer->query_heads / heads_at_once(peers), score_heads, peers);
    threads_run(peers->threads, layer->kv_heads, average_heads, peers);
    return true;
}

/* ------------------------------------------------------------------ norm */

static int64_t norm_blocks(const struct peers *peers)
{
    return (peers->subject->layer.tokens + NORM_ROWS - 1) / NORM_ROWS;
}

static void norm_block(void *argument, int64_t item, int32_t worker)
{
    struct peers *peers = argument;
    const struct layer *layer = &peers->subject->layer;
    int64_t g = item / norm_blocks(peers), first = item % norm_blocks(peers) * NORM_ROWS, group = group_of(peers);
    int64_t rows = layer->tokens - first < NORM_ROWS ? layer->tokens - first : NORM_ROWS, dv = layer->value_dim;
    int64_t width = layer->query_heads * dv;
    const float *values = peers->subject->value + (g * layer->tokens + first) * dv;
    float *projected = peers->scratch + (size_t)worker * peers->scratch_size;
    float *norm = peers->norm + g * layer->tokens + first;

    memset(norm, 0, (size_t)rows * sizeof *norm);
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        blas_multiply(peers->blas, rows, layer->hidden, dv, values, dv, peers->subject->weight + h * dv, width, 1.0f,
                      projected, layer->hidden);
        peers->isa->add_absolute(projected, rows, layer->hidden, 1.0f / (float)group, norm);
    }
}

bool peers_norm(void *argument)
{
    struct peers *peers = argument;

    threads_run(peers->threads, peers->subject->layer.kv_heads * norm_blocks(peers), norm_block, peers);
    return true;
}

/* ------------------------------------------------------------------ select */

#ifdef CKV_BENCH_CXX
static void select_head(void *argument, int64_t g, int32_t worker)
{
    struct peers *peers = argument;
    int64_t n = peers->subject->layer.tokens, candidates = n - peers->recent,
            by_attention = peers->stage1 - peers->recent;
    const float *attention = peers->attention_in + g * n, *norm = peers->norm_in + g * n;
    struct scored *entries = peers->entries + worker * n;
    int32_t *kept = peers->positions + g * peers->budget;

    for (int64_t i = 0; i < candidates; i++)
        entries[i] = (struct scored){attention[i], (int32_t)i};
    nth_element_best(entries, candidates, by_attention);
    for (int64_t i = by_attention; i < candidates; i++) {
        int32_t at = entries[i].position;

        entries[i].score = (attention[at] + peers->epsilon) * norm[at];
    }
    nth_element_best(entries + by_attention, candidates - by_attention, peers->budget - peers->stage1);
    for (int64_t i = 0; i < peers->budget - peers->recent; i++)
        kept[i] = entries[i].position;
    for (int64_t i = 0; i < peers->recent; i++)
        kept[peers->budget - peers->recent + i] = (int32_t)(candidates + i);
    sort_positions(kept, peers->budget);
}
#endif

bool peers_select(void *argument)
{
#ifdef CKV_BENCH_CXX
    struct peers *peers = argument;

    threads_run(peers->threads, peers->subject->layer.kv_heads, select_head, peers);
    return true;
#else
    (void)argument;
    return false;
#endif
}

/* ------------------------------------------------------------------ compact */

static void copy_piece(void *argument, int64_t item, int32_t worker)
{
    struct peers *peers = argument;
    size_t pieces = (size_t)peers->threads * COPY_PIECES, size = peers->bytes / pieces;
    size_t start = (size_t)item * size;

    (void)worker;
    if ((size_t)item + 1 == pieces)
        size = peers->bytes - start;
    memcpy(peers->to + start, peers->from + start, size);
}

bool peers_compact(void *argument)
{
    struct peers *peers = argument;

    threads_run(peers->threads, (int64_t)peers->threads * COPY_PIECES, copy_piece, peers);
    return true;
}
