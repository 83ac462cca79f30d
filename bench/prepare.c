/* SPDX-License-Identifier: Apache-2.0 */
/* A layer made ready to be timed, and one stage timed beside its peer. */
#include "bench.h"

#include "tools/message.h"
#include "tools/progress.h"

#include <stdio.h>
#include <string.h>

#define QUERIES 32 /* of a made-up layer: the default window */

void bench_note(const struct prepared *prepared, const char *what)
{
    char text[200];

    snprintf(text, sizeof text, "measuring %s, %lld tokens: %s", prepared->subject.name,
             (long long)prepared->subject.layer.tokens, what);
    progress_note(text);
}

static int64_t window_of(const struct prepared *prepared)
{
    const struct layer *layer = &prepared->subject.layer;
    int64_t window = prepared->bench->options.run.policy.window;

    window = window < layer->queries ? window : layer->queries;
    return window < layer->tokens ? window : layer->tokens;
}

/* What both kinds of subject need; the subject is there. */
static bool prepare(struct prepared *prepared)
{
    struct bench *bench = prepared->bench;

    bench->options.run.input = prepared->subject.name;
    if (bench->options.peers && (!data_plain(&prepared->subject) ||
                                 !peers_open(&prepared->peers, &prepared->subject, &bench->blas, bench->threads,
                                             &bench->options.run.policy, window_of(prepared))))
        return false;
    prepared->projection = stages_projection(bench->context, &bench->options.run, &prepared->subject);
    return prepared->projection != NULL && stages_scores(&prepared->scores, &prepared->subject);
}

bool prepare_shape(struct prepared *prepared, struct bench *bench, const struct shape *shape, int64_t tokens)
{
    memset(prepared, 0, sizeof *prepared);
    prepared->bench = bench;
    snprintf(prepared->subject.name, sizeof prepared->subject.name, "%s", shape->name);
    prepared->subject.layer.tokens = tokens;
    bench_note(prepared, "making it up");
    return data_make(&prepared->subject, shape, tokens, QUERIES, bench->options.dtype) && prepare(prepared);
}

bool prepare_layer(struct prepared *prepared, struct bench *bench, const char *name, const struct layer *layer)
{
    memset(prepared, 0, sizeof *prepared);
    prepared->bench = bench;
    data_borrow(&prepared->subject, name, layer);
    return prepare(prepared);
}

void prepared_close(struct prepared *prepared)
{
    peers_close(&prepared->peers);
    stages_scores_free(&prepared->scores);
    ckv_projection_destroy(prepared->projection);
    data_free(&prepared->subject);
    memset(prepared, 0, sizeof *prepared);
}

bool prepare_stages(struct prepared *prepared, const ckv_ratio *keep, struct stages *stages)
{
    struct bench *bench = prepared->bench;
    ckv_policy policy = bench->options.run.policy;

    policy.keep = *keep;
    return stages_open(stages, bench->context, &bench->options.run, &prepared->subject, prepared->projection,
                       &prepared->scores, &policy) &&
           (!bench->options.peers || peers_keep(&prepared->peers, &stages->chosen.info));
}

/* ------------------------------------------------------------------ one stage */

static double floor_of(const struct prepared *prepared, const struct stages *stages, enum bench_stage stage,
                       const double rates[BOUNDS])
{
    const ckv_plan_info *info = &stages->chosen.info;
    double sum = 0;

    for (int part = BENCH_SCORE; part <= BENCH_COMPACT; part++) {
        struct work work = work_of((enum bench_stage)part, &prepared->subject.layer, info->window, info->budget);

        if (part == (int)stage || (stage == BENCH_LAYER && part <= BENCH_SELECT))
            sum += show_floor(rates, &work);
    }
    return sum;
}

/* Limits take turns with what they limit; the layer's are those of score and norm. */
static size_t bounds_of(enum bench_stage stage, const struct work *work, enum bound bounds[2])
{
    bounds[0] = stage == BENCH_LAYER ? BOUND_FMA : work->bound;
    bounds[1] = BOUND_INTEGER;
    return stage == BENCH_LAYER ? 2 : 1;
}

bool bench_row(struct prepared *prepared, struct stages *stages, enum bench_stage stage, struct row *row)
{
    static bool (*const peer_runs[BENCH_STAGES])(void *) = {peers_score, peers_norm, peers_select, peers_compact, NULL};
    const struct bench *bench = prepared->bench;
    const ckv_plan_info *info = &stages->chosen.info;
    struct timed items[4] = {{.run = stages_run[stage], .argument = stages},
                             {.run = peer_runs[stage], .argument = &prepared->peers}};
    struct limits_loop loops[2];
    enum bound bounds[2];
    size_t count = 1, limits = 0;

    memset(row, 0, sizeof *row);
    row->stage = stage;
    row->work = work_of(stage, &prepared->subject.layer, info->window, info->budget);
    row->peer_reason = "left out";
    if (bench->options.peers)
        row->peer = peers_name(&prepared->peers, stage, &row->peer_reason);
    count += row->peer != NULL;
    /* A cache that was just written by the model lies in memory, not in the processor. */
    for (size_t i = 0; i < count && stage == BENCH_COMPACT && bench->has_limits; i++) {
        items[i].before = limits_clear_caches;
        items[i].before_argument = &bench->limits;
    }
    if (bench->has_limits)
        limits = bounds_of(stage, &row->work, bounds);
    for (size_t i = 0; i < limits; i++)
        limits_turn(&bench->limits, bounds[i], &loops[i], &items[count + i]);
    bench_note(prepared, bench_stages[stage]);
    if (!timing_measure(items, count + limits, &bench->options.effort))
        return false;
    row->times = items[0].times;
    if (row->peer != NULL)
        row->peer_times = items[1].times;
    for (int bound = 0; bound < BOUNDS && bench->has_limits; bound++)
        row->rates[bound] = bench->limits.all[bound].rate;
    for (size_t i = 0; i < limits; i++)
        row->rates[bounds[i]] = limits_rate(&loops[i], &items[count + i].times);
    row->floor = floor_of(prepared, stages, stage, row->rates);
    prepared->scores.has_attention = prepared->scores.has_attention || stage == BENCH_SCORE;
    prepared->scores.has_norm = prepared->scores.has_norm || stage == BENCH_NORM;
    return true;
}
