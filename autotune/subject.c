/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up layer with all that any stage reads, and any stage run on it. */
#include "subject.h"

#include "lib/numeric.h"
#include "workbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DTYPE CKV_BF16 /* of the tensors, as models have them */

static const char *told(ckv_status status)
{
    return status == CKV_OK ? NULL : ckv_error_detail();
}

/* ------------------------------------------------------------------ the layer */

static void fill_norms(struct tuned_layer *layer)
{
    const struct layer *l = &layer->data.layer;
    const uint16_t *value = l->value.data;
    size_t rows = (size_t)l->kv_heads * (size_t)l->tokens, width = (size_t)l->value_dim;

    for (size_t i = 0; i < rows; i++) {
        float sum = 0;

        for (size_t k = 0; k < width; k++)
            sum += fabsf(ckv_load_f32(value + i * width + k, DTYPE));
        layer->norm[i] = sum;
    }
}

const char *tuned_layer_make(struct tuned_layer *layer, const struct shape *shape, int64_t tokens)
{
    size_t cells = (size_t)shape->kv_heads * (size_t)tokens;

    memset(layer, 0, sizeof *layer);
    if (!data_make(&layer->data, shape, tokens, WORKBENCH_QUERIES, DTYPE))
        return "out of memory for a layer";
    layer->attention = calloc(cells, sizeof *layer->attention);
    layer->norm = calloc(cells, sizeof *layer->norm);
    if (layer->attention == NULL || layer->norm == NULL)
        return "out of memory for attention and norm";
    ckv_tensor_init_2d(&layer->attention_view, CKV_F32, layer->attention, shape->kv_heads, tokens);
    ckv_tensor_init_2d(&layer->norm_view, CKV_F32, layer->norm, shape->kv_heads, tokens);
    fill_norms(layer);
    return NULL;
}

void tuned_layer_free(struct tuned_layer *layer)
{
    data_free(&layer->data);
    free(layer->attention);
    free(layer->norm);
    free(layer->positions);
    free(layer->offsets);
    memset(layer, 0, sizeof *layer);
}

/* ------------------------------------------------------------------ the handles */

const char *handles_open(struct handles *handles, const struct tuned_layer *layer, const char *backend,
                         const char *device, int32_t threads, const char *parameters)
{
    const struct layer *l = &layer->data.layer;
    ckv_context_options options;
    ckv_shape shape;
    ckv_status status;

    memset(handles, 0, sizeof *handles);
    ckv_context_options_init(&options);
    options.backend = backend;
    options.device = device;
    options.threads = threads;
    options.parameters = parameters;
    ckv_shape_init(&shape);
    shape.query_heads = l->query_heads;
    shape.kv_heads = l->kv_heads;
    shape.tokens = l->tokens;
    shape.queries = l->queries;
    shape.head_dim = l->head_dim;
    shape.value_dim = l->value_dim;
    shape.hidden = l->hidden;
    status = ckv_context_create(&options, &handles->context);
    if (status == CKV_OK)
        status = ckv_plan_create(handles->context, &shape, NULL, &handles->plan);
    return told(status);
}

void handles_close(struct handles *handles)
{
    ckv_projection_destroy(handles->projection);
    ckv_plan_destroy(handles->plan);
    ckv_context_destroy(handles->context);
    memset(handles, 0, sizeof *handles);
}

static ckv_status need_projection(const struct tuned_layer *layer, struct handles *handles, const char *stage)
{
    const struct layer *l = &layer->data.layer;

    if (handles->projection != NULL || (strcmp(stage, "norm") != 0 && strcmp(stage, "evict") != 0))
        return CKV_OK;
    return ckv_projection_create(handles->context, &l->weight, l->query_heads, l->value_dim, &handles->projection);
}

/* ------------------------------------------------------------------ one run */

/* What a run writes: one block, cut up. */
struct results {
    char *bytes;
    size_t size, used;
    void *workspace;
    ckv_run run;
};

static void *cut(struct results *r, size_t size)
{
    char *at = r->bytes + r->used;

    r->used += (size + 63) / 64 * 64;
    return at;
}

static bool results_open(struct results *r, const ckv_plan_info *info, size_t size)
{
    r->size = size;
    r->used = 0;
    r->bytes = calloc(1, size);
    r->workspace = calloc(1, info->device_memory ? 1 : info->workspace);
    ckv_run_init(&r->run, r->workspace, info->workspace);
    return r->bytes != NULL && r->workspace != NULL;
}

static ckv_status run_scores(const struct tuned_layer *layer, const struct handles *h, const char *stage,
                             struct results *r)
{
    const struct layer *l = &layer->data.layer;
    ckv_tensor out;

    ckv_tensor_init_2d(&out, CKV_F32, r->bytes, l->kv_heads, l->tokens);
    if (strcmp(stage, "score") == 0)
        return ckv_score(h->plan, &l->query, &l->key, &out, &r->run);
    return ckv_norm(h->plan, &l->value, h->projection, &out, &r->run);
}

static ckv_status run_selection(const struct tuned_layer *layer, const struct handles *h, const char *stage,
                                const ckv_plan_info *info, struct results *r)
{
    const struct layer *l = &layer->data.layer;
    ckv_selection kept;
    int32_t *offsets = cut(r, ((size_t)l->kv_heads + 1) * sizeof *offsets);
    int32_t *positions = cut(r, (size_t)info->positions * sizeof *positions);

    ckv_selection_init(&kept, positions, info->positions, offsets);
    kept.stages = cut(r, (size_t)info->positions);
    if (strcmp(stage, "select") == 0)
        return ckv_select(h->plan, &layer->attention_view, &layer->norm_view, &kept, &r->run);
    return ckv_evict(h->plan, &l->query, &l->key, &l->value, h->projection, &kept, &r->run);
}

static ckv_status run_compact(const struct tuned_layer *layer, const struct handles *h, const ckv_plan_info *info,
                              struct results *r)
{
    const struct layer *l = &layer->data.layer;
    size_t row = (size_t)info->positions * ckv_dtype_size(DTYPE);
    ckv_tensor key, value;
    ckv_status status;

    ckv_tensor_init_3d(&key, DTYPE, cut(r, row * (size_t)l->head_dim), l->kv_heads, info->budget, l->head_dim);
    ckv_tensor_init_3d(&value, DTYPE, cut(r, row * (size_t)l->value_dim), l->kv_heads, info->budget, l->value_dim);
    status = ckv_compact(h->plan, &l->key, &layer->selection, &key, &r->run);
    return status == CKV_OK ? ckv_compact(h->plan, &l->value, &layer->selection, &value, &r->run) : status;
}

static size_t size_of(const struct layer *l, const ckv_plan_info *info, const char *stage)
{
    size_t kept = (size_t)info->positions;

    if (strcmp(stage, "score") == 0 || strcmp(stage, "norm") == 0)
        return (size_t)l->kv_heads * (size_t)l->tokens * sizeof(float);
    if (strcmp(stage, "compact") == 0)
        return kept * ckv_dtype_size(DTYPE) * (size_t)(l->head_dim + l->value_dim) + 128;
    return ((size_t)l->kv_heads + 1 + kept) * sizeof(int32_t) + kept + 192;
}

const char *tuned_layer_run(const struct tuned_layer *layer, struct handles *handles, const char *stage, void **bytes,
                            size_t *size)
{
    ckv_plan_info info = {.struct_size = sizeof info};
    struct results r = {0};
    ckv_status status = ckv_plan_query(handles->plan, &info);

    *bytes = NULL;
    if (status == CKV_OK)
        status = need_projection(layer, handles, stage);
    if (status != CKV_OK)
        return told(status);
    if (!results_open(&r, &info, size_of(&layer->data.layer, &info, stage))) {
        free(r.bytes);
        free(r.workspace);
        return "out of memory for a stage's results";
    }
    if (strcmp(stage, "score") == 0 || strcmp(stage, "norm") == 0)
        status = run_scores(layer, handles, stage, &r);
    else if (strcmp(stage, "compact") == 0)
        status = run_compact(layer, handles, &info, &r);
    else
        status = run_selection(layer, handles, stage, &info, &r);
    free(r.workspace);
    *bytes = r.bytes;
    *size = r.size;
    return told(status);
}

const char *tuned_layer_time(const struct tuned_layer *layer, struct handles *handles, const char *stage,
                             int32_t repeats, double *seconds)
{
    const struct layer *l = &layer->data.layer;
    ckv_inputs inputs;
    ckv_status status = need_projection(layer, handles, stage);

    ckv_inputs_init(&inputs);
    inputs.query = &l->query;
    inputs.key = &l->key;
    inputs.value = &l->value;
    inputs.projection = handles->projection;
    inputs.attention = &layer->attention_view;
    inputs.norm = &layer->norm_view;
    inputs.selection = &layer->selection;
    return told(status == CKV_OK ? ckv_measure(handles->plan, stage, &inputs, repeats, seconds) : status);
}

const char *tuned_layer_complete(struct tuned_layer *layer, const struct handles *handles)
{
    const struct layer *l = &layer->data.layer;
    ckv_plan_info info = {.struct_size = sizeof info};
    ckv_run run;
    ckv_status status = ckv_plan_query(handles->plan, &info);
    void *workspace;

    if (layer->offsets != NULL || status != CKV_OK)
        return told(status);
    workspace = calloc(1, info.workspace == 0 ? 1 : info.workspace);
    layer->positions = calloc((size_t)info.positions, sizeof *layer->positions);
    layer->offsets = calloc((size_t)l->kv_heads + 1, sizeof *layer->offsets);
    if (workspace == NULL || layer->positions == NULL || layer->offsets == NULL) {
        free(workspace);
        return "out of memory for a selection";
    }
    ckv_selection_init(&layer->selection, layer->positions, info.positions, layer->offsets);
    ckv_run_init(&run, workspace, info.workspace);
    status = ckv_score(handles->plan, &l->query, &l->key, &layer->attention_view, &run);
    if (status == CKV_OK)
        status = ckv_select(handles->plan, &layer->attention_view, &layer->norm_view, &layer->selection, &run);
    free(workspace);
    return told(status);
}
