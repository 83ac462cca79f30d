/* SPDX-License-Identifier: Apache-2.0 */
/* What tuners ask: a stage's time on this machine, and the backend's own opinion of it. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "sizes.h"
#include "status.h"

#define REPEATS_MAX 1000
#define LONG_RUN 0.25 /* seconds */

static const char *const stage_names[CKV_STAGES] = {"score", "norm", "select", "compact", "evict"};

void ckv_inputs_init(ckv_inputs *inputs)
{
    if (inputs == NULL)
        return;
    memset(inputs, 0, sizeof *inputs);
    inputs->struct_size = sizeof *inputs;
}

static ckv_status read_stage(const char *name, ckv_stage *stage)
{
    if (name == NULL)
        return ckv_fail_null("stage");
    for (int i = 0; i < CKV_STAGES; i++)
        if (strcmp(name, stage_names[i]) == 0) {
            *stage = (ckv_stage)i;
            return CKV_OK;
        }
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "stage: '%.40s', wanted score, norm, select, compact or evict", name);
}

/* ------------------------------------------------------------------ measuring */

enum { WORKSPACE, SCORES, POSITIONS, OFFSETS, KEPT_KEY, KEPT_VALUE, BLOCKS };

/* One stage with results of its own. */
typedef struct trial {
    const ckv_plan *plan;
    ckv_stage stage;
    ckv_inputs in;
    void *block[BLOCKS]; /* NULL: not needed */
    ckv_tensor scores, kept_key, kept_value;
    ckv_selection selection;
    ckv_run run;
} trial;

static ckv_status take(trial *t, int block, int64_t rows, int64_t width, size_t size)
{
    size_t cells = 0, bytes = 0;
    if (!ckv_add_product(&cells, (size_t)rows, (size_t)width) || !ckv_add_product(&bytes, cells, size))
        return ckv_fail(CKV_ERROR_OVERFLOW, "results: more bytes than can be addressed");
    t->block[block] = ckv_context_allocate(t->plan->context, bytes == 0 ? 1 : bytes, "results");
    return t->block[block] == NULL ? CKV_ERROR_NO_MEMORY : CKV_OK;
}

/* Where the kept rows of `from` go.  What is wrong with it ckv_compact says. */
static ckv_status take_rows(trial *t, int block, const ckv_tensor *from, ckv_tensor *to)
{
    int64_t width = from != NULL && from->rank == 3 && from->shape[2] > 0 ? from->shape[2] : 1;
    ckv_dtype dtype = from == NULL ? CKV_BYTES : from->dtype;
    ckv_status status = take(t, block, t->plan->kv_heads * t->plan->budget, width, ckv_dtype_size(dtype));
    ckv_tensor_init_3d(to, dtype, t->block[block], t->plan->kv_heads, t->plan->budget, width);
    return status;
}

static ckv_status prepare(trial *t)
{
    const ckv_plan *plan = t->plan;
    size_t workspace = plan->workspace + CKV_WORKSPACE_ALIGNMENT - 1;
    ckv_status status = CKV_OK;
    if (plan->backend->device == NULL)
        status = take(t, WORKSPACE, 1, (int64_t)workspace, 1);
    if (status == CKV_OK && (t->stage == CKV_SCORE || t->stage == CKV_NORM))
        status = take(t, SCORES, plan->kv_heads, plan->tokens, sizeof(float));
    if (status == CKV_OK && (t->stage == CKV_SELECT || t->stage == CKV_EVICT)) {
        status = take(t, POSITIONS, plan->kv_heads, plan->budget, sizeof(int32_t));
        if (status == CKV_OK)
            status = take(t, OFFSETS, plan->kv_heads + 1, 1, sizeof(int32_t));
    }
    if (status == CKV_OK && t->stage == CKV_COMPACT)
        status = take_rows(t, KEPT_KEY, t->in.key, &t->kept_key);
    if (status == CKV_OK && t->stage == CKV_COMPACT)
        status = take_rows(t, KEPT_VALUE, t->in.value, &t->kept_value);
    ckv_tensor_init_2d(&t->scores, CKV_F32, t->block[SCORES], plan->kv_heads, plan->tokens);
    ckv_selection_init(&t->selection, t->block[POSITIONS], plan->kv_heads * plan->budget, t->block[OFFSETS]);
    ckv_run_init(&t->run, t->block[WORKSPACE], workspace);
    return status;
}

/* As any caller would, with all checks. */
static ckv_status run_once(trial *t)
{
    const ckv_inputs *in = &t->in;
    ckv_status status;
    switch (t->stage) {
    case CKV_SCORE:
        return ckv_score(t->plan, in->query, in->key, &t->scores, &t->run);
    case CKV_NORM:
        return ckv_norm(t->plan, in->value, in->projection, &t->scores, &t->run);
    case CKV_SELECT:
        return ckv_select(t->plan, in->attention, in->norm, &t->selection, &t->run);
    case CKV_COMPACT:
        status = ckv_compact(t->plan, in->key, in->selection, &t->kept_key, &t->run);
        return status != CKV_OK ? status : ckv_compact(t->plan, in->value, in->selection, &t->kept_value, &t->run);
    default:
        return ckv_evict(t->plan, in->query, in->key, in->value, in->projection, &t->selection, &t->run);
    }
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* `first` is what the run before took: memory that it met cold no longer shows in a long one. */
static ckv_status time_on_host(trial *t, double first, int32_t repeats, double *seconds)
{
    ckv_status status = CKV_OK;
    seconds[0] = first;
    for (int32_t i = first >= LONG_RUN; i < repeats && status == CKV_OK; i++) {
        double start = now();
        status = run_once(t);
        seconds[i] = now() - start;
    }
    return status;
}

ckv_status ckv_measure(const ckv_plan *plan, const char *stage, const ckv_inputs *inputs, int32_t repeats,
                       double *seconds)
{
    trial t;
    double first = 0;
    ckv_status status;
    memset(&t, 0, sizeof t);
    if (plan == NULL)
        return ckv_fail_null("plan");
    if (seconds == NULL)
        return ckv_fail_null("seconds");
    t.plan = plan;
    ckv_inputs_init(&t.in);
    status = read_stage(stage, &t.stage);
    if (status == CKV_OK)
        status = ckv_struct_read(&t.in, sizeof t.in, offsetof(ckv_inputs, selection) + sizeof t.in.selection, inputs,
                                 "inputs");
    if (status != CKV_OK)
        return status;
    if (repeats < 1 || repeats > REPEATS_MAX)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "repeats: %d, wanted 1 to %d", (int)repeats, REPEATS_MAX);
    status = prepare(&t);
    if (status == CKV_OK) {
        double start = now();
        status = run_once(&t);
        first = now() - start;
    }
    if (status == CKV_OK && plan->backend->device != NULL)
        status = plan->backend->device->measure(plan, t.stage, &t.in, repeats, seconds);
    else if (status == CKV_OK)
        status = time_on_host(&t, first, repeats, seconds);
    for (int i = 0; i < BLOCKS; i++)
        if (t.block[i] != NULL)
            ckv_context_release(plan->context, t.block[i]);
    return status;
}

/* ------------------------------------------------------------------ the model */

ckv_status ckv_estimate(const ckv_plan *plan, const char *stage, const int32_t *values, double *seconds)
{
    ckv_plan with;
    ckv_stage which = CKV_SCORE;
    ckv_status status;
    if (plan == NULL)
        return ckv_fail_null("plan");
    if (seconds == NULL)
        return ckv_fail_null("seconds");
    status = read_stage(stage, &which);
    if (status != CKV_OK)
        return status;
    with = *plan;
    for (int32_t i = 0; values != NULL && i < plan->backend->tunable_count; i++) {
        if (!ckv_tuning_allows(plan->context, i, values[i]))
            return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "values[%d]: %d, wanted a value of '%s' that the device takes",
                            (int)i, (int)values[i], plan->backend->tunables[i].name);
        with.parameters.value[i] = values[i];
    }
    *seconds = plan->backend->estimate == NULL ? 0 : plan->backend->estimate(&with, which);
    return CKV_OK;
}
