/* SPDX-License-Identifier: Apache-2.0 */
/* ckv evict: layer by layer, from the tensors of a capture to the kept entries. */
#include "command.h"

#include "checkpoint.h"
#include "message.h"
#include "output.h"
#include "perturbation.h"
#include "progress.h"
#include "report.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

/* The whole run. */
struct job {
    struct options options;
    struct st_file input;
    struct checkpoint model;
    struct layer_list layers;
    ckv_context *context;
    struct output output;
    struct report report;
};

/* One layer's, freed before the next. */
struct work {
    struct job *job;
    size_t index;
    const struct layer *layer;
    struct layer_report *report;
    struct selecting chosen;
    ckv_projection *projection;
    float *attention, *norm;
    ckv_tensor attention_view, norm_view;
    void *workspace;
    ckv_run run;
};

/* ------------------------------------------------------------------ sizes */

static size_t row_bytes(const ckv_tensor *tensor)
{
    return (size_t)tensor->shape[2] * ckv_dtype_size(tensor->dtype);
}

static enum st_dtype output_dtype(ckv_dtype dtype)
{
    return dtype == CKV_F32 ? ST_F32 : dtype == CKV_F16 ? ST_F16 : ST_BF16;
}

static bool add_rows(struct output *output, const struct layer *layer, const char *suffix, const ckv_tensor *rows,
                     int64_t budget)
{
    const int64_t shape[3] = {layer->kv_heads, budget, rows->shape[2]};

    return output_add(output, layer->number, suffix, output_dtype(rows->dtype), 3, shape);
}

static bool add_tensors(struct job *job, const struct layer *layer, const ckv_plan_info *info)
{
    const int64_t kept = info->positions, offsets = layer->kv_heads + 1;
    const int64_t scores[2] = {layer->kv_heads, layer->tokens};
    struct output *output = &job->output;

    if (!output_add(output, layer->number, "kept", ST_I32, 1, &kept) ||
        !output_add(output, layer->number, "kept_offsets", ST_I32, 1, &offsets))
        return false;
    if (job->options.dump && (!output_add(output, layer->number, "attention", ST_F32, 2, scores) ||
                              !output_add(output, layer->number, "norm", ST_F32, 2, scores)))
        return false;
    return !job->options.compact || (add_rows(output, layer, "key", &layer->key, info->budget) &&
                                     add_rows(output, layer, "value", &layer->value, info->budget));
}

static void fill_report(struct layer_report *report, const struct layer *layer, const ckv_plan_info *info)
{
    size_t row = row_bytes(&layer->key) + row_bytes(&layer->value);

    report->number = layer->number;
    report->query_heads = layer->query_heads;
    report->kv_heads = layer->kv_heads;
    report->head_dim = layer->head_dim;
    report->value_dim = layer->value_dim;
    report->hidden = layer->hidden;
    report->scale = layer->scale;
    report->tokens = layer->tokens;
    report->window = info->window;
    report->next_position = info->next_position;
    report->budget = info->budget;
    report->stage1 = info->stage1;
    report->kept = info->positions;
    report->bytes_before = (uint64_t)(layer->kv_heads * layer->tokens) * row;
    report->bytes_after = (uint64_t)info->positions * row;
}

/* Plans every layer before any work: sizes that the library refuses come to light
 * before anything is written, and the output's layout is known. */
static bool prepare(struct job *job)
{
    const struct options *options = &job->options;
    bool good = true;

    if (!report_begin(&job->report, options, true, job->layers.count))
        return false;
    for (size_t i = 0; good && i < job->layers.count; i++) {
        const struct layer *layer = &job->layers.layers[i];
        struct selecting plan;

        good = command_plan(job->context, options, layer, &options->policy, &plan);
        if (good) {
            fill_report(&job->report.layers[i], layer, &plan.info);
            job->report.backend = plan.info.backend;
            job->report.device = plan.info.device;
            job->report.variant = plan.info.variant;
            good = add_tensors(job, layer, &plan.info);
        }
        command_destroy(&plan);
    }
    return good && output_open(&job->output, options->output);
}

/* ------------------------------------------------------------------ stages */

/* In multiply-adds of the norm, as the scalar reference takes them. */
static double stage_work(const struct layer *layer, int32_t window, enum stage stage)
{
    double queries = layer->queries < window ? (double)layer->queries : window;
    double entries = (double)layer->kv_heads * (double)layer->tokens;
    double heads = layer->query_heads, n = (double)layer->tokens, weights = (double)layer->hidden * layer->value_dim;

    switch (stage) {
    case STAGE_PROJECTION:
        return 10 * heads * weights;
    case STAGE_SCORE:
        return 6 * heads * n * queries * layer->head_dim;
    case STAGE_NORM:
        return heads * n * weights;
    case STAGE_SELECT:
        return 100 * entries;
    case STAGE_EVICT:
        return stage_work(layer, window, STAGE_SCORE) + stage_work(layer, window, STAGE_NORM) + 100 * entries;
    case STAGE_COMPACT:
        return entries * (layer->head_dim + layer->value_dim);
    default:
        return perturbation_work(layer);
    }
}

static double begin(const struct work *work, enum stage stage)
{
    progress_stage(work->index, work->layer->number, report_stages[stage],
                   stage_work(work->layer, work->job->options.policy.window, stage));
    return command_clock();
}

/* `status` is what the stage's call returned; its flags are in work->run. */
static bool end(struct work *work, enum stage stage, double start, ckv_status status)
{
    struct job *job = work->job;
    double taken = command_clock() - start;
    const char *weight_path = job->options.model == NULL ? job->options.input : job->options.model;

    if (status != CKV_OK)
        return command_library_error(&job->options, work->layer);
    work->report->seconds[stage] = taken + (work->report->seconds[stage] < 0 ? 0 : work->report->seconds[stage]);
    report_nonfinite(&job->report, work->index, work->run.flags, weight_path);
    work->run.flags = 0;
    return true;
}

/* By ckv_evict, which need not compute every norm; or stage by stage, with the same kept
 * set, where every norm is asked for. */
static bool is_whole(const struct options *options)
{
    return options->policy.skip != 0 && !options->dump;
}

static bool project(struct work *work)
{
    const struct layer *layer = work->layer;
    double start = begin(work, STAGE_PROJECTION);
    ckv_status status = ckv_projection_create(work->job->context, &layer->weight, layer->query_heads, layer->value_dim,
                                              &work->projection);

    work->run.flags = ckv_projection_flags(work->projection);
    return end(work, STAGE_PROJECTION, start, status);
}

static bool score(struct work *work, enum stage stage)
{
    double start = begin(work, stage);
    ckv_status status =
        ckv_score(work->chosen.plan, &work->layer->query, &work->layer->key, &work->attention_view, &work->run);

    return end(work, stage, start, status);
}

static bool norm(struct work *work)
{
    double start = begin(work, STAGE_NORM);
    ckv_status status =
        ckv_norm(work->chosen.plan, &work->layer->value, work->projection, &work->norm_view, &work->run);

    work->report->exact_norms = work->run.exact_norms;
    return end(work, STAGE_NORM, start, status);
}

static bool evict_whole(struct work *work)
{
    const struct layer *layer = work->layer;
    double start = begin(work, STAGE_EVICT);
    ckv_status status = ckv_evict(work->chosen.plan, &layer->query, &layer->key, &layer->value, work->projection,
                                  &work->chosen.selection, &work->run);

    work->report->exact_norms = work->run.exact_norms;
    return end(work, STAGE_EVICT, start, status);
}

static bool select_entries(struct work *work)
{
    double start = begin(work, STAGE_SELECT);
    ckv_status status =
        ckv_select(work->chosen.plan, &work->attention_view, &work->norm_view, &work->chosen.selection, &work->run);

    return end(work, STAGE_SELECT, start, status);
}

static bool compact_rows(struct work *work, const char *suffix, const ckv_tensor *from)
{
    const struct layer *layer = work->layer;
    int64_t budget = work->chosen.info.budget, width = from->shape[2];
    size_t size = (size_t)work->chosen.info.positions * row_bytes(from);
    void *rows = command_memory(&work->job->options, layer, size, 1);
    ckv_tensor to;
    ckv_status status;
    double start;
    bool good;

    if (rows == NULL)
        return false;
    ckv_tensor_init_3d(&to, from->dtype, rows, layer->kv_heads, budget, width);
    start = begin(work, STAGE_COMPACT);
    status = ckv_compact(work->chosen.plan, from, &work->chosen.selection, &to, &work->run);
    good = end(work, STAGE_COMPACT, start, status) && output_write(&work->job->output, layer->number, suffix, rows);
    free(rows);
    return good;
}

/* The same attention and budget, all of it in stage 1. */
static bool measure_against_attention_only(struct work *work)
{
    struct job *job = work->job;
    ckv_policy policy = job->options.policy;
    struct selecting other;
    bool good;

    policy.alpha = (ckv_ratio){1, 1};
    good = command_plan(job->context, &job->options, work->layer, &policy, &other) &&
           command_allocate(&job->options, work->layer, &other);
    if (good && ckv_select(other.plan, &work->attention_view, &work->norm_view, &other.selection, &work->run) != CKV_OK)
        good = command_library_error(&job->options, work->layer);
    if (good &&
        !perturbation_measure(work->layer, &work->chosen.selection, &other.selection, &work->report->perturbation)) {
        message_error("%s: layers.%d: out of memory for the output perturbation", job->options.input,
                      (int)work->layer->number);
        good = false;
    }
    command_destroy(&other);
    return good;
}

static bool measure(struct work *work)
{
    const struct spread none = {0, 0, 0}, all = {1, 1, 1};
    double start;

    if (work->chosen.info.budget < work->layer->tokens && is_whole(&work->job->options) &&
        work->chosen.info.budget > 0 && !score(work, STAGE_PERTURBATION))
        return false; /* ckv_evict kept the attention to itself */
    start = begin(work, STAGE_PERTURBATION);
    if (work->chosen.info.budget == work->layer->tokens)
        work->report->perturbation = (struct perturbation){all, none, none}; /* nothing is evicted */
    else if (!measure_against_attention_only(work))
        return false;
    work->report->measured = true;
    return end(work, STAGE_PERTURBATION, start, CKV_OK);
}

/* ------------------------------------------------------------------ a layer */

static bool allocate(struct work *work)
{
    const struct options *options = &work->job->options;
    const struct layer *layer = work->layer;
    size_t entries = (size_t)layer->kv_heads * (size_t)layer->tokens;

    if (!command_plan(work->job->context, options, layer, &options->policy, &work->chosen) ||
        !command_allocate(options, layer, &work->chosen))
        return false;
    work->attention = command_memory(options, layer, entries, sizeof *work->attention);
    work->norm = work->attention == NULL ? NULL : command_memory(options, layer, entries, sizeof *work->norm);
    work->workspace = work->norm == NULL ? NULL : command_memory(options, layer, work->chosen.info.workspace, 1);
    if (work->workspace == NULL)
        return false;
    ckv_tensor_init_2d(&work->attention_view, CKV_F32, work->attention, layer->kv_heads, layer->tokens);
    ckv_tensor_init_2d(&work->norm_view, CKV_F32, work->norm, layer->kv_heads, layer->tokens);
    ckv_run_init(&work->run, work->workspace, work->chosen.info.workspace);
    return true;
}

static bool write_layer(struct work *work)
{
    struct output *output = &work->job->output;
    int32_t number = work->layer->number;

    return output_write(output, number, "kept", work->chosen.selection.positions) &&
           output_write(output, number, "kept_offsets", work->chosen.selection.offsets) &&
           (!work->job->options.dump || (output_write(output, number, "attention", work->attention) &&
                                         output_write(output, number, "norm", work->norm)));
}

static bool run_layer(struct work *work)
{
    const struct options *options = &work->job->options;
    int64_t budget = work->chosen.info.budget;
    /* With nothing to rank, attention and norm are worked out only to be shown. */
    bool ranks = budget > 0 && budget < work->layer->tokens;

    if ((ranks || options->dump) && !project(work))
        return false;
    if (ranks && is_whole(options)) {
        if (!evict_whole(work))
            return false;
    } else {
        if ((ranks || options->dump) && (!score(work, STAGE_SCORE) || !norm(work)))
            return false;
        if (!select_entries(work))
            return false;
    }
    if (!write_layer(work))
        return false;
    if (options->compact && budget > 0 &&
        (!compact_rows(work, "key", &work->layer->key) || !compact_rows(work, "value", &work->layer->value)))
        return false;
    return options->no_perturbation || measure(work);
}

static void each_tensor(const struct layer *layer, void (*hint)(const void *, size_t))
{
    const ckv_tensor *const tensors[] = {&layer->query, &layer->key, &layer->value, &layer->weight};

    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        hint(tensors[i]->data, layers_bytes(tensors[i]));
}

static bool evict_layer(struct job *job, size_t index)
{
    struct work work = {
        .job = job, .index = index, .layer = &job->layers.layers[index], .report = &job->report.layers[index]};
    bool good;

    each_tensor(work.layer, mapping_will_need);
    good = allocate(&work) && run_layer(&work);
    each_tensor(work.layer, mapping_done_with);
    ckv_projection_destroy(work.projection);
    command_destroy(&work.chosen);
    free(work.attention);
    free(work.norm);
    free(work.workspace);
    return good;
}

/* ------------------------------------------------------------------ the command */

static double all_work(const struct job *job)
{
    double sum = 0;

    for (size_t i = 0; i < job->layers.count; i++) {
        for (int stage = 0; stage < STAGES; stage++) {
            bool in_parts = stage == STAGE_SCORE || stage == STAGE_NORM || stage == STAGE_SELECT;

            if ((stage != STAGE_COMPACT || job->options.compact) &&
                (stage != STAGE_PERTURBATION || !job->options.no_perturbation) &&
                (is_whole(&job->options) ? !in_parts : stage != STAGE_EVICT))
                sum += stage_work(&job->layers.layers[i], job->options.policy.window, (enum stage)stage) *
                       (stage == STAGE_COMPACT ? 2 : 1);
        }
    }
    return sum;
}

static bool run(struct job *job)
{
    struct options *options = &job->options;
    const struct layer_choice choice = {options->layers, options->layer_count};
    bool good = true;

    job->context = command_context(options);
    if (job->context == NULL || !st_open(&job->input, options->input))
        return false;
    if (options->model != NULL && !checkpoint_open(&job->model, options->model))
        return false;
    if (!layers_find(&job->input, options->model == NULL ? NULL : &job->model, &choice, &job->layers) || !prepare(job))
        return false;
    progress_begin(all_work(job), job->layers.count);
    for (size_t i = 0; good && i < job->layers.count; i++)
        good = evict_layer(job, i);
    progress_end();
    return good && output_commit(&job->output) && report_print(&job->report);
}

int command_evict(int argc, char **argv)
{
    struct job job;
    bool good;

    memset(&job, 0, sizeof job);
    if (!options_parse_evict(argc, argv, &job.options)) {
        options_free(&job.options);
        return EXIT_USAGE;
    }
    good = run(&job);
    output_close(&job.output);
    report_free(&job.report);
    layers_free(&job.layers);
    checkpoint_close(&job.model);
    st_close(&job.input);
    ckv_context_destroy(job.context);
    options_free(&job.options);
    return good ? EXIT_DONE : EXIT_INPUT;
}
