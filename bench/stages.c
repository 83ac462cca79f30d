/* SPDX-License-Identifier: Apache-2.0 */
/* libckv's stages on one layer under one policy, ready to be timed. */
#include "stages.h"

#include "tools/message.h"

#include <stdlib.h>
#include <string.h>

bool stages_scores(struct scores *scores, const struct subject *subject)
{
    size_t cells = (size_t)subject->layer.kv_heads * (size_t)subject->layer.tokens;

    memset(scores, 0, sizeof *scores);
    scores->attention = calloc(cells, sizeof *scores->attention);
    scores->norm = calloc(cells, sizeof *scores->norm);
    if (scores->attention != NULL && scores->norm != NULL)
        return true;
    message_error("%s: out of memory for attention and norm", subject->name);
    return false;
}

void stages_scores_free(struct scores *scores)
{
    free(scores->attention);
    free(scores->norm);
    memset(scores, 0, sizeof *scores);
}

ckv_projection *stages_projection(ckv_context *context, const struct options *options, const struct subject *subject)
{
    const struct layer *layer = &subject->layer;
    ckv_projection *projection = NULL;

    if (ckv_projection_create(context, &layer->weight, layer->query_heads, layer->value_dim, &projection) != CKV_OK)
        command_library_error(options, layer);
    return projection;
}

bool stages_open(struct stages *stages, ckv_context *context, const struct options *options,
                 const struct subject *subject, const ckv_projection *projection, const struct scores *scores,
                 const ckv_policy *policy)
{
    const struct layer *layer = &subject->layer;
    int64_t budget;
    size_t rows;

    memset(stages, 0, sizeof *stages);
    stages->options = options;
    stages->subject = subject;
    stages->policy = *policy;
    stages->projection = projection;
    if (!command_plan(context, options, layer, &stages->policy, &stages->chosen) ||
        !command_allocate(options, layer, &stages->chosen))
        return false;
    budget = stages->chosen.info.budget;
    rows = (size_t)stages->chosen.info.positions;
    stages->workspace = command_memory(options, layer, stages->chosen.info.workspace, 1);
    stages->kept_key = stages->workspace == NULL ? NULL
                                                 : command_memory(options, layer, rows * (size_t)layer->head_dim,
                                                                  ckv_dtype_size(layer->key.dtype));
    stages->kept_value = stages->kept_key == NULL ? NULL
                                                  : command_memory(options, layer, rows * (size_t)layer->value_dim,
                                                                   ckv_dtype_size(layer->value.dtype));
    if (stages->kept_value == NULL)
        return false;
    ckv_tensor_init_2d(&stages->attention_view, CKV_F32, scores->attention, layer->kv_heads, layer->tokens);
    ckv_tensor_init_2d(&stages->norm_view, CKV_F32, scores->norm, layer->kv_heads, layer->tokens);
    ckv_tensor_init_3d(&stages->kept_key_view, layer->key.dtype, stages->kept_key, layer->kv_heads, budget,
                       layer->head_dim);
    ckv_tensor_init_3d(&stages->kept_value_view, layer->value.dtype, stages->kept_value, layer->kv_heads, budget,
                       layer->value_dim);
    ckv_run_init(&stages->run, stages->workspace, stages->chosen.info.workspace);
    return true;
}

void stages_close(struct stages *stages)
{
    command_destroy(&stages->chosen);
    free(stages->workspace);
    free(stages->kept_key);
    free(stages->kept_value);
    memset(stages, 0, sizeof *stages);
}

static bool done(struct stages *stages, ckv_status status)
{
    return status == CKV_OK || command_library_error(stages->options, &stages->subject->layer);
}

static bool run_score(void *argument)
{
    struct stages *s = argument;
    const struct layer *layer = &s->subject->layer;

    return done(s, ckv_score(s->chosen.plan, &layer->query, &layer->key, &s->attention_view, &s->run));
}

static bool run_norm(void *argument)
{
    struct stages *s = argument;

    return done(s, ckv_norm(s->chosen.plan, &s->subject->layer.value, s->projection, &s->norm_view, &s->run));
}

static bool run_select(void *argument)
{
    struct stages *s = argument;

    return done(s, ckv_select(s->chosen.plan, &s->attention_view, &s->norm_view, &s->chosen.selection, &s->run));
}

static bool run_compact(void *argument)
{
    struct stages *s = argument;
    const struct layer *layer = &s->subject->layer;

    return done(s, ckv_compact(s->chosen.plan, &layer->key, &s->chosen.selection, &s->kept_key_view, &s->run)) &&
           done(s, ckv_compact(s->chosen.plan, &layer->value, &s->chosen.selection, &s->kept_value_view, &s->run));
}

static bool run_layer(void *argument)
{
    struct stages *s = argument;
    const struct layer *layer = &s->subject->layer;

    return done(s, ckv_evict(s->chosen.plan, &layer->query, &layer->key, &layer->value, s->projection,
                             &s->chosen.selection, &s->run));
}

bool (*const stages_run[BENCH_STAGES])(void *argument) = {run_score, run_norm, run_select, run_compact, run_layer};
