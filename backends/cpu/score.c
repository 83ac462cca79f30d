/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention that each key receives from the window (spec 4).
 *
 * The query rows of one KV head are taken in waves; a wave's logits are computed
 * once and kept, so that memory is bounded and no logit is computed twice.  Three
 * passes over blocks of keys, each block one work item: logits and their greatest;
 * weights and denominators; the mean over the window.  What crosses blocks is a
 * maximum and a sum of integers, so neither blocks nor workers show in the result.
 */
#include "optimize.h"

#include "cpu.h"
#include "lib/numeric.h"
#include "lib/sizes.h"
#include "load.h"

#define LOWEST -0x1p120f /* below every logit (spec 8) */
#define BLOCK 192 /* keys in a work item: a multiple of every key_tile, and not of 256: rows are that far apart */
#define WAVE_BYTES (2 << 20) /* a wave may use this much for each worker, or 64 bytes for each (KV head, key) */

static int64_t round_up(int64_t x, int64_t step)
{
    return (x + step - 1) / step * step;
}

typedef struct shape {
    int64_t blocks;    /* of keys */
    int64_t rows;      /* query rows of one KV head, head after head */
    int64_t wave;      /* rows at a time */
    int64_t wave_room; /* the same, padded to the micro-tile */
    int64_t heads;     /* query heads that one wave can touch */
} shape;

static shape shape_of(const ckv_plan *plan)
{
    shape s;
    int64_t tile = ckv_cpu_kernels_of(plan)->query_rows;
    int64_t by_keys = 16 * (int64_t)plan->kv_heads;
    int64_t by_workers = (int64_t)WAVE_BYTES * plan->context->threads / (4 * (plan->tokens + plan->head_dim));
    s.blocks = (plan->tokens + BLOCK - 1) / BLOCK;
    s.rows = plan->group * plan->window;
    s.wave = by_keys > by_workers ? by_keys : by_workers;
    if (s.wave >= s.rows) {
        s.wave = s.rows;
    } else { /* even waves of whole micro-tiles */
        int64_t waves = (s.rows + s.wave - 1) / s.wave;
        s.wave = round_up((s.rows + waves - 1) / waves, tile);
    }
    s.wave_room = round_up(s.wave, tile);
    s.heads = plan->window == 0 ? 0 : (s.wave + plan->window - 2) / plan->window + 1;
    if (s.heads > plan->group)
        s.heads = plan->group;
    return s;
}

/* Everything in the workspace, and what a pass reads. */
typedef struct job {
    const ckv_plan *plan;
    const ckv_cpu_kernels *kernels;
    const ckv_tensor *query, *key;
    shape shape;
    int64_t kv_head, first, count; /* rows of this wave */

    float *queries; /* [wave_room / tile][d][tile] */
    float *logits;  /* [blocks][wave_room][BLOCK] */
    float *tops;    /* [blocks][wave_room] */
    int64_t *sums;  /* [blocks][wave_room] */
    float *scales;  /* [wave_room]: greatest logits, then r of spec 4.4 */
    float *means;   /* [heads][blocks * BLOCK] */
    float *sum;     /* [blocks * BLOCK] over the heads of the group */
    char *scratch;  /* [workers] */
    size_t scratch_size;
    _Atomic uint32_t *flags;
} job;

static size_t worker_bytes(const ckv_plan *plan)
{
    size_t d = (size_t)round_up(plan->head_dim, 8);
    size_t total = 0;
    ckv_add_block(&total, 2 * CKV_CPU_KEYS_MAX * sizeof(float), d);
    ckv_add_block(&total, CKV_CPU_TOP_LANES * sizeof(float), (size_t)shape_of(plan).wave_room);
    return total;
}

/* Hands out the arrays from `at`, or, with NULL, only adds up their sizes. */
static int lay_out(const ckv_plan *plan, const shape *s, job *j, char *at, size_t *total)
{
    size_t blocks = (size_t)s->blocks, room = (size_t)s->wave_room, n = blocks * BLOCK;
    const struct {
        size_t count, size;
    } parts[] = {
        {room * (size_t)plan->head_dim, sizeof(float)},
        {blocks * room, BLOCK * sizeof(float)},
        {blocks * room, sizeof(float)},
        {blocks * room, sizeof(int64_t)},
        {room, sizeof(float)},
        {(size_t)s->heads * n, sizeof(float)},
        {n, sizeof(float)},
        {1, sizeof(_Atomic uint32_t)},
    };
    void *part[8];
    *total = 0;
    for (int i = 0; i < 8; i++) {
        part[i] = at == NULL ? NULL : at + *total;
        if (!ckv_add_block(total, parts[i].count, parts[i].size))
            return 0;
    }
    j->queries = part[0];
    j->logits = part[1];
    j->tops = part[2];
    j->sums = part[3];
    j->scales = part[4];
    j->means = part[5];
    j->sum = part[6];
    j->flags = part[7];
    return 1;
}

int ckv_cpu_score_sizes(const ckv_plan *plan, ckv_cpu_sizes *sizes)
{
    shape s = shape_of(plan);
    job j;
    sizes->worker = worker_bytes(plan);
    sizes->items = (size_t)s.blocks;
    return lay_out(plan, &s, &j, NULL, &sizes->shared);
}

/* Spec 4.1, into the micro-tiles of the wave; rows past its end are 0. */
static uint32_t pack_queries(const job *j)
{
    const ckv_plan *plan = j->plan;
    int64_t tile = j->kernels->query_rows, d = plan->head_dim;
    uint32_t bad = 0;
    for (int64_t i = 0; i < j->shape.wave_room; i++) {
        float *to = j->queries + i / tile * tile * d + i % tile;
        int64_t row = j->first + i;
        int64_t head = j->kv_head * plan->group + row / plan->window;
        int64_t token = plan->queries - plan->window + row % plan->window;
        for (int64_t c = 0; c < d; c++) {
            float q = 0.0f;
            if (i < j->count) {
                q = ckv_load_f32(ckv_at(j->query, head, token, c), j->query->dtype);
                bad |= (uint32_t)ckv_is_nonfinite_bits(ckv_bits(q));
                q = ckv_is_nan_bits(ckv_bits(q)) ? 0.0f : ckv_sanitize(q * plan->scale);
            }
            to[c * tile] = q;
        }
    }
    return bad;
}

/* Keys of block `block` that row `i` of the wave sees. */
static int visible(const job *j, int64_t block, int64_t i)
{
    int64_t seen = j->plan->tokens - j->plan->window + (j->first + i) % j->plan->window + 1 - block * BLOCK;
    return seen <= 0 ? 0 : seen < BLOCK ? (int)seen : BLOCK;
}

/* Bytes of a key that are worth asking for ahead: 0 where elements are apart. */
static int64_t key_bytes(const ckv_tensor *key)
{
    int64_t size = (int64_t)ckv_dtype_size(key->dtype);
    return key->stride[2] == size ? key->shape[2] * size : 0;
}

/* Asks for `count` keys, while others are worked on: memory is too far away to wait for it. */
static void prefetch_keys(const job *j, int64_t from, int64_t count, int64_t bytes)
{
#ifdef __GNUC__
    int64_t end = from + count < j->key->shape[1] ? from + count : j->key->shape[1];
    for (; from < end; from++)
        for (int64_t at = 0; at < bytes; at += 64)
            __builtin_prefetch((const char *)ckv_at(j->key, j->kv_head, from, 0) + at);
#else
    (void)j;
    (void)from;
    (void)count;
    (void)bytes;
#endif
}

static float greatest_of(const float *lanes)
{
    float top = lanes[0];
    for (int i = 1; i < CKV_CPU_TOP_LANES; i++)
        top = lanes[i] > top ? lanes[i] : top;
    return top;
}

static void first_pass(const void *argument, int64_t block, int32_t worker)
{
    const job *j = argument;
    const ckv_plan *plan = j->plan;
    const ckv_cpu_kernels *kernels = j->kernels;
    int64_t tile = kernels->query_rows, width = kernels->key_tile, room = j->shape.wave_room;
    float *keys = (float *)(void *)(j->scratch + (size_t)worker * j->scratch_size);
    float *rows = keys + CKV_CPU_KEYS_MAX * round_up(plan->head_dim, 8);
    float *tops = rows + CKV_CPU_KEYS_MAX * round_up(plan->head_dim, 8);
    float *logits = j->logits + block * room * BLOCK;
    /* The next tile's keys are asked for a few at a time. */
    int64_t ahead = (width * tile + room - 1) / room, bytes = key_bytes(j->key);
    uint32_t bad = 0;
    for (int64_t i = 0; i < room * CKV_CPU_TOP_LANES; i++)
        tops[i] = LOWEST;
    for (int64_t at = 0; at < BLOCK && block * BLOCK + at < plan->tokens; at += width) {
        int64_t token = block * BLOCK + at, left = plan->tokens - token;
        bad |= kernels->load_keys(keys, ckv_at(j->key, j->kv_head, token, 0), j->key->dtype, j->key->stride[1],
                                  j->key->stride[2], left < width ? (int)left : (int)width, plan->head_dim, rows);
        int64_t next = token + width, end = next + width;
        for (int64_t i = 0; i < room; i += tile, next += ahead) {
            prefetch_keys(j, next, next + ahead < end ? ahead : end - next, bytes);
            kernels->logits(j->queries + i * plan->head_dim, keys, plan->head_dim, logits + i * BLOCK + at, BLOCK,
                            tops + i * CKV_CPU_TOP_LANES);
        }
    }
    for (int64_t i = 0; i < j->count; i++) {
        int seen = visible(j, block, i);
        j->tops[block * room + i] = seen == 0       ? LOWEST
                                    : seen == BLOCK ? greatest_of(tops + i * CKV_CPU_TOP_LANES)
                                                    : kernels->greatest(logits + i * BLOCK, seen, logits[i * BLOCK]);
    }
    if (bad != 0)
        atomic_fetch_or_explicit(j->flags, CKV_NONFINITE_KEY, memory_order_relaxed);
}

static void second_pass(const void *argument, int64_t block, int32_t worker)
{
    const job *j = argument;
    int64_t room = j->shape.wave_room;
    (void)worker;
    for (int64_t i = 0; i < j->count; i++) {
        float *row = j->logits + (block * room + i) * BLOCK;
        int seen = visible(j, block, i);
        j->sums[block * room + i] = j->kernels->weights(row, seen, j->scales[i]);
        for (int k = seen; k < BLOCK; k++)
            row[k] = 0.0f;
    }
}

/* Rows [*from, *to) of the wave that belong to its h-th query head. */
static int head_rows(const job *j, int64_t h, int64_t *from, int64_t *to)
{
    int64_t head = j->first / j->plan->window + h;
    *from = head * j->plan->window - j->first;
    *to = *from + j->plan->window;
    *from = *from < 0 ? 0 : *from;
    *to = *to > j->count ? j->count : *to;
    return *from < *to;
}

static void third_pass(const void *argument, int64_t block, int32_t worker)
{
    const job *j = argument;
    int64_t room = j->shape.wave_room, from, to;
    (void)worker;
    for (int64_t h = 0; head_rows(j, h, &from, &to); h++) {
        float *mean = j->means + (h * j->shape.blocks + block) * BLOCK;
        if ((j->first + from) % j->plan->window == 0)
            memset(mean, 0, BLOCK * sizeof *mean);
        j->kernels->accumulate(mean, j->logits + (block * room + from) * BLOCK, BLOCK, j->scales + from,
                               (int)(to - from), BLOCK);
    }
}

/* Spec 4.5 for the positions of one block that lie in the prefix. */
static void pool_block(const job *j, const float *mean, int64_t block, float *pooled)
{
    const ckv_plan *plan = j->plan;
    int64_t prefix = plan->tokens - plan->window, first = block * BLOCK;
    int64_t end = prefix - first < BLOCK ? prefix - first : BLOCK;
    int64_t left = plan->pool_width / 2, right = plan->pool_width - 1 - left;
    for (int64_t k = 0; k < end; k++)
        pooled[k] = plan->pool == CKV_POOL_AVERAGE ? 0.0f : mean[first + k];
    if (plan->pool == CKV_POOL_NONE)
        return;
    for (int64_t offset = -left; offset <= right; offset++) {
        int64_t low = first + offset < 0 ? -first - offset : 0;
        int64_t high = first + offset + end > prefix ? prefix - first - offset : end;
        const float *shifted = mean + first + offset;
        if (plan->pool == CKV_POOL_MAX)
            for (int64_t k = low; k < high; k++)
                pooled[k] = shifted[k] > pooled[k] ? shifted[k] : pooled[k];
        else
            for (int64_t k = low; k < high; k++)
                pooled[k] = pooled[k] + shifted[k];
    }
    if (plan->pool == CKV_POOL_AVERAGE)
        for (int64_t k = 0; k < end; k++)
            pooled[k] = pooled[k] * plan->pool_inverse;
}

/* The heads whose last row was in this wave. */
static void pool_pass(const void *argument, int64_t block, int32_t worker)
{
    const job *j = argument;
    const ckv_plan *plan = j->plan;
    int64_t end = plan->tokens - plan->window - block * BLOCK, from, to;
    float pooled[BLOCK];
    (void)worker;
    end = end < BLOCK ? end : BLOCK;
    for (int64_t h = 0; head_rows(j, h, &from, &to); h++) {
        if ((j->first + to) % plan->window != 0)
            continue;
        pool_block(j, j->means + h * j->shape.blocks * BLOCK, block, pooled);
        for (int64_t k = 0; k < end; k++)
            j->sum[block * BLOCK + k] = j->sum[block * BLOCK + k] + pooled[k];
    }
}

static void take_tops(const job *j)
{
    int64_t room = j->shape.wave_room;
    memcpy(j->scales, j->tops, (size_t)j->count * sizeof *j->scales);
    for (int64_t b = 1; b < j->shape.blocks; b++)
        for (int64_t i = 0; i < j->count; i++)
            j->scales[i] = j->tops[b * room + i] > j->scales[i] ? j->tops[b * room + i] : j->scales[i];
}

static void take_sums(const job *j)
{
    int64_t room = j->shape.wave_room;
    for (int64_t b = 1; b < j->shape.blocks; b++)
        for (int64_t i = 0; i < j->count; i++)
            j->sums[i] += j->sums[b * room + i];
    for (int64_t i = 0; i < j->count; i++)
        j->scales[i] = ckv_inverse(j->sums[i]) * j->plan->window_inverse;
}

/* The head that a wave leaves unfinished is the first of the next. */
static void carry_mean(const job *j)
{
    int64_t h = (j->first + j->count) / j->plan->window - j->first / j->plan->window, n = j->shape.blocks * BLOCK;
    if ((j->first + j->count) % j->plan->window != 0 && h > 0)
        memcpy(j->means, j->means + h * n, (size_t)n * sizeof *j->means);
}

static void score_head(job *j, const ckv_tensor *attention)
{
    const ckv_plan *plan = j->plan;
    const ckv_context *context = plan->context;
    int64_t prefix = plan->tokens - plan->window;
    memset(j->sum, 0, (size_t)(j->shape.blocks * BLOCK) * sizeof *j->sum);
    for (j->first = 0; j->first < j->shape.rows; j->first += j->shape.wave) {
        int64_t left = j->shape.rows - j->first;
        j->count = left < j->shape.wave ? left : j->shape.wave;
        if (pack_queries(j))
            atomic_fetch_or_explicit(j->flags, CKV_NONFINITE_QUERY, memory_order_relaxed);
        ckv_cpu_for_each(context, j->shape.blocks, first_pass, j);
        take_tops(j);
        ckv_cpu_for_each(context, j->shape.blocks, second_pass, j);
        take_sums(j);
        ckv_cpu_for_each(context, j->shape.blocks, third_pass, j);
        ckv_cpu_for_each(context, (prefix + BLOCK - 1) / BLOCK, pool_pass, j);
        carry_mean(j);
    }
    for (int64_t i = 0; i < plan->tokens; i++) {
        float a = i < prefix ? j->sum[i] * plan->group_inverse : 0.0f;
        memcpy(ckv_at(attention, j->kv_head, i, 0), &a, sizeof a);
    }
}

uint32_t ckv_cpu_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                       const ckv_tensor *attention, void *workspace)
{
    job j = {.plan = plan, .kernels = ckv_cpu_kernels_of(plan), .query = query, .key = key, .shape = shape_of(plan)};
    size_t shared;
    lay_out(plan, &j.shape, &j, workspace, &shared);
    j.scratch = (char *)workspace + shared;
    j.scratch_size = worker_bytes(plan);
    atomic_store_explicit(j.flags, 0, memory_order_relaxed);
    for (j.kv_head = 0; j.kv_head < plan->kv_heads; j.kv_head++)
        score_head(&j, attention);
    return atomic_load_explicit(j.flags, memory_order_relaxed);
}
