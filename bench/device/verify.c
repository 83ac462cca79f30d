/* SPDX-License-Identifier: Apache-2.0 */
/* The device's bytes against those of a backend in host memory. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"

void wanted_free(struct wanted *wanted)
{
    free(wanted->attention);
    free(wanted->norm);
    free(wanted->positions);
    free(wanted->offsets);
    free(wanted->stages);
    free(wanted->key);
    free(wanted->value);
    memset(wanted, 0, sizeof *wanted);
}

static int allocate(struct wanted *wanted, const struct layer *layer)
{
    size_t entries = (size_t)layer->kv_heads * (size_t)layer->tokens, kept = (size_t)wanted->info.positions;
    wanted->attention = calloc(entries, sizeof *wanted->attention);
    wanted->norm = calloc(entries, sizeof *wanted->norm);
    wanted->positions = calloc(kept + 1, sizeof *wanted->positions);
    wanted->offsets = calloc((size_t)layer->kv_heads + 1, sizeof *wanted->offsets);
    wanted->stages = calloc(kept + 1, sizeof *wanted->stages);
    wanted->key = malloc(tensor_bytes(&layer->key));
    wanted->value = malloc(tensor_bytes(&layer->value));
    if (wanted->attention == NULL || wanted->norm == NULL || wanted->positions == NULL || wanted->offsets == NULL ||
        wanted->stages == NULL || wanted->key == NULL || wanted->value == NULL)
        return 0;
    memcpy(wanted->key, layer->key.data, tensor_bytes(&layer->key));
    memcpy(wanted->value, layer->value.data, tensor_bytes(&layer->value));
    return 1;
}

/* The stages in turn, as the device is asked for them. */
static ckv_status run(struct wanted *wanted, const struct layer *layer, const ckv_plan *plan,
                      const ckv_projection *projection, void *workspace)
{
    ckv_tensor attention, norm, key = layer->key, value = layer->value;
    ckv_selection selection;
    ckv_run call;
    ckv_status status;
    ckv_run_init(&call, workspace, wanted->info.workspace);
    ckv_tensor_init_2d(&attention, CKV_F32, wanted->attention, layer->kv_heads, layer->tokens);
    ckv_tensor_init_2d(&norm, CKV_F32, wanted->norm, layer->kv_heads, layer->tokens);
    ckv_selection_init(&selection, wanted->positions, wanted->info.positions, wanted->offsets);
    selection.stages = wanted->stages;
    status = ckv_score(plan, &layer->query, &layer->key, &attention, &call);
    wanted->flags |= call.flags;
    if (status == CKV_OK)
        status = ckv_norm(plan, &layer->value, projection, &norm, &call);
    wanted->flags |= call.flags;
    if (status == CKV_OK)
        status = ckv_select(plan, &attention, &norm, &selection, &call);
    wanted->flags |= call.flags;
    key.data = wanted->key;
    value.data = wanted->value;
    if (status == CKV_OK)
        status = ckv_compact(plan, &key, &selection, &key, &call);
    if (status == CKV_OK)
        status = ckv_compact(plan, &value, &selection, &value, &call);
    return status;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int wanted_make(struct wanted *wanted, const struct options *options, const struct layer *layer,
                const ckv_policy *policy)
{
    ckv_context_options choice;
    ckv_context *context = NULL;
    ckv_plan *plan = NULL;
    ckv_projection *projection = NULL;
    ckv_shape shape;
    ckv_status status;
    void *workspace = NULL;
    memset(wanted, 0, sizeof *wanted);
    ckv_context_options_init(&choice);
    choice.backend = options->reference;
    ckv_shape_init(&shape);
    shape.query_heads = layer->query_heads;
    shape.kv_heads = layer->kv_heads;
    shape.tokens = layer->tokens;
    shape.queries = layer->queries;
    shape.head_dim = layer->head_dim;
    shape.value_dim = layer->value_dim;
    shape.hidden = layer->hidden;
    status = ckv_context_create(&choice, &context);
    if (status == CKV_OK)
        status = ckv_plan_create(context, &shape, policy, &plan);
    if (status == CKV_OK)
        status = ckv_projection_create(context, &layer->weight, layer->query_heads, layer->value_dim, &projection);
    wanted->info.struct_size = sizeof wanted->info;
    if (status == CKV_OK)
        status = ckv_plan_query(plan, &wanted->info);
    if (status == CKV_OK) {
        double start = seconds();
        workspace = malloc(wanted->info.workspace + 1);
        status = workspace != NULL && allocate(wanted, layer) ? run(wanted, layer, plan, projection, workspace)
                                                              : CKV_ERROR_NO_MEMORY;
        wanted->seconds = seconds() - start;
    }
    if (status != CKV_OK)
        fprintf(stderr, "ckv-device-bench: backend %s: %s: %s\n", options->reference, ckv_status_string(status),
                ckv_error_detail());
    free(workspace);
    ckv_projection_destroy(projection);
    ckv_plan_destroy(plan);
    ckv_context_destroy(context);
    return status == CKV_OK;
}

/* ------------------------------------------------------------------ comparing */

/* `from` bytes into a place on. */
static char *fetch(const struct subject *subject, enum place place, size_t from, size_t bytes)
{
    const ckv_gpu *gpu = subject->gpu;
    ckv_gpu_memory memory = subject->memory[place];
    char *got = malloc(bytes + 1);
    int code = CKV_GPU_FAILED;
    memory.offset += (int64_t)from;
    if (got != NULL)
        code = gpu->driver->download(gpu->device, NULL, got, memory, bytes);
    if (code == CKV_GPU_OK)
        code = gpu->driver->wait(gpu->device, NULL);
    if (code == CKV_GPU_OK)
        return got;
    failed(subject, "copying from the device", code);
    free(got);
    return NULL;
}

/* Rows of each head: `wanted` may have more of them. */
static int same_rows(const struct subject *subject, enum place place, size_t from, const void *wanted, int64_t heads,
                     size_t bytes, size_t stride, const char *what, int spoil)
{
    char *got = fetch(subject, place, from, (size_t)heads * bytes);
    int same = got == NULL ? -1 : 1;
    if (got != NULL && spoil && bytes > 0)
        got[(size_t)heads * bytes / 2] ^= 1;
    for (int64_t h = 0; got != NULL && same == 1 && h < heads; h++) {
        const char *a = got + (size_t)h * bytes, *b = (const char *)wanted + (size_t)h * stride;
        size_t i = 0;
        if (memcmp(a, b, bytes) == 0)
            continue;
        while (a[i] == b[i])
            i++;
        fprintf(stderr, "ckv-device-bench: %s of head %lld differ from byte %zu on: 0x%02x, wanted 0x%02x\n", what,
                (long long)h, i, (unsigned)(unsigned char)a[i], (unsigned)(unsigned char)b[i]);
        same = 0;
    }
    free(got);
    return same;
}

static int same_selection(const struct subject *subject, const struct wanted *wanted, int spoil)
{
    size_t kept = (size_t)wanted->info.positions;
    int same = same_rows(subject, SELECTION, 0, wanted->offsets, 1, subject->positions, 0, "offsets", 0);
    if (same == 1)
        same = same_rows(subject, SELECTION, subject->positions, wanted->positions, 1, kept * sizeof(int32_t), 0,
                         "positions", spoil);
    if (same == 1)
        same = same_rows(subject, SELECTION, subject->stages, wanted->stages, 1, kept, 0, "stages", 0);
    return same;
}

static int same_flags(const struct subject *subject, const struct wanted *wanted)
{
    return same_rows(subject, WORKSPACE, subject->flags, &wanted->flags, 1, sizeof wanted->flags, 0, "flags", 0);
}

/* Keys and values alike. */
static int same_cache(const struct subject *subject, const struct wanted *wanted, enum place key, enum place value,
                      int64_t rows, int spoil)
{
    const struct layer *l = subject->layer;
    size_t k = (size_t)l->head_dim * 2, v = (size_t)l->value_dim * 2, n = (size_t)l->tokens, b = (size_t)rows;
    int same = same_rows(subject, key, 0, wanted->key, l->kv_heads, b * k, n * k, "keys", 0);
    return same == 1 ? same_rows(subject, value, 0, wanted->value, l->kv_heads, b * v, n * v, "values", spoil) : same;
}

int verify(struct subject *subject, const struct wanted *wanted, enum stage stage, int spoil)
{
    const struct layer *l = subject->layer;
    size_t scores = (size_t)l->tokens * sizeof(float);
    int same;
    switch (stage) {
    case SCORE:
        same = same_rows(subject, ATTENTION, 0, wanted->attention, l->kv_heads, scores, scores, "attention", spoil);
        break;
    case NORM:
        same = same_rows(subject, NORMS, 0, wanted->norm, l->kv_heads, scores, scores, "norms", spoil);
        break;
    case COMPACT:
        same = same_cache(subject, wanted, KEPT_KEY, KEPT_VALUE, subject->info.budget, spoil);
        break;
    case IN_PLACE: /* the rows past the kept ones too: they are as they were */
        same = same_cache(subject, wanted, KEY, VALUE, l->tokens, spoil);
        break;
    default:
        same = same_selection(subject, wanted, spoil);
        break;
    }
    return same == 1 ? same_flags(subject, wanted) : same;
}
