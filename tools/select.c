/* SPDX-License-Identifier: Apache-2.0 */
/* ckv select: kept entries from attention and norm that are given. */
#include "command.h"

#include "output.h"
#include "report.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

struct job {
    struct options options;
    struct st_file input;
    struct layer_list layers;
    ckv_context *context;
    struct output output;
    struct report report;
};

static bool prepare(struct job *job)
{
    const struct options *options = &job->options;
    bool good = true;

    if (!report_begin(&job->report, options, false, job->layers.count))
        return false;
    for (size_t i = 0; good && i < job->layers.count; i++) {
        const struct layer *layer = &job->layers.layers[i];
        struct layer_report *report = &job->report.layers[i];
        struct selecting plan;

        good = command_plan(job->context, options, layer, &options->policy, &plan);
        if (good) {
            const int64_t kept = plan.info.positions, offsets = layer->kv_heads + 1;

            report->number = layer->number;
            report->kv_heads = layer->kv_heads;
            report->tokens = layer->tokens;
            report->window = plan.info.window;
            report->next_position = plan.info.next_position;
            report->budget = plan.info.budget;
            report->stage1 = plan.info.stage1;
            report->kept = kept;
            job->report.backend = plan.info.backend;
            job->report.device = plan.info.device;
            job->report.variant = plan.info.variant;
            good = output_add(&job->output, layer->number, "kept", ST_I32, 1, &kept) &&
                   output_add(&job->output, layer->number, "kept_offsets", ST_I32, 1, &offsets);
        }
        command_destroy(&plan);
    }
    return good && output_open(&job->output, options->output);
}

static bool select_entries(struct job *job, size_t index, struct selecting *chosen, void *workspace)
{
    const struct layer *layer = &job->layers.layers[index];
    ckv_run run;
    double start = command_clock();

    ckv_run_init(&run, workspace, chosen->info.workspace);
    if (ckv_select(chosen->plan, &layer->attention, &layer->norm, &chosen->selection, &run) != CKV_OK)
        return command_library_error(&job->options, layer);
    job->report.layers[index].seconds[STAGE_SELECT] = command_clock() - start;
    report_nonfinite(&job->report, index, run.flags, job->options.input);
    return output_write(&job->output, layer->number, "kept", chosen->selection.positions) &&
           output_write(&job->output, layer->number, "kept_offsets", chosen->selection.offsets);
}

static bool select_layer(struct job *job, size_t index)
{
    const struct layer *layer = &job->layers.layers[index];
    struct selecting chosen;
    void *workspace = NULL;
    bool good = command_plan(job->context, &job->options, layer, &job->options.policy, &chosen) &&
                command_allocate(&job->options, layer, &chosen);

    if (good) {
        workspace = command_memory(&job->options, layer, chosen.info.workspace, 1);
        good = workspace != NULL && select_entries(job, index, &chosen, workspace);
    }
    free(workspace);
    command_destroy(&chosen);
    return good;
}

static bool run(struct job *job)
{
    struct options *options = &job->options;
    const struct layer_choice choice = {options->layers, options->layer_count};
    bool good = true;

    job->context = command_context(options);
    if (job->context == NULL || !st_open(&job->input, options->input) ||
        !layers_find_scores(&job->input, &choice, &job->layers) || !prepare(job))
        return false;
    for (size_t i = 0; good && i < job->layers.count; i++)
        good = select_layer(job, i);
    return good && output_commit(&job->output) && report_print(&job->report);
}

int command_select(int argc, char **argv)
{
    struct job job;
    bool good;

    memset(&job, 0, sizeof job);
    if (!options_parse_select(argc, argv, &job.options)) {
        options_free(&job.options);
        return EXIT_USAGE;
    }
    good = run(&job);
    output_close(&job.output);
    report_free(&job.report);
    layers_free(&job.layers);
    st_close(&job.input);
    ckv_context_destroy(job.context);
    options_free(&job.options);
    return good ? EXIT_DONE : EXIT_INPUT;
}
