/* SPDX-License-Identifier: Apache-2.0 */
/* What was found goes into the tuning file. */
#define _POSIX_C_SOURCE 200809L
#include "tools/message.h"
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "CKV_TUNE_CACHE"

void tune_hide_file(struct tune *tune)
{
    const char *given = getenv(VARIABLE);

    if (tune->file == NULL && given != NULL)
        tune->file = strdup(given);
    setenv(VARIABLE, "off", 1);
}

void tune_show_file(const struct tune *tune)
{
    if (tune->options.output != NULL)
        setenv(VARIABLE, tune->options.output, 1);
    else if (tune->file != NULL)
        setenv(VARIABLE, tune->file, 1);
    else
        unsetenv(VARIABLE);
}

bool tune_check_file(struct tune *tune)
{
    ckv_context_options options;
    ckv_context *context = NULL;
    bool good;

    ckv_context_options_init(&options);
    options.backend = tune->backend;
    options.device = tune->device;
    options.threads = tune->options.run.threads;
    tune_show_file(tune);
    good = ckv_context_create(&options, &context) == CKV_OK && ckv_tuning_check(context) == CKV_OK;
    tune_hide_file(tune);
    if (!good)
        message_error("%s", ckv_error_detail());
    ckv_context_destroy(context);
    return good;
}

/* A plan that has the values, in a context that has the file.  Times are those of the whole
 * layer, in proportion. */
static ckv_status save(struct tune *tune, const struct item *item, ckv_context **context, ckv_plan **plan)
{
    const struct shape *shape = &item->problem->shape;
    double share = (double)item->problem->tokens / (double)item->timed;
    char text[SPACE_TEXT];
    ckv_tuning_info info = {.struct_size = sizeof info};
    ckv_context_options options;
    ckv_shape sizes;
    ckv_status status;

    space_text(&item->problem->space, &item->found.chosen, text, sizeof text);
    ckv_context_options_init(&options);
    options.backend = tune->backend;
    options.device = tune->device;
    options.threads = tune->options.run.threads;
    options.parameters = text;
    ckv_shape_init(&sizes);
    sizes.query_heads = shape->query_heads;
    sizes.kv_heads = shape->kv_heads;
    sizes.tokens = item->problem->tokens;
    sizes.queries = item->problem->info.window;
    sizes.head_dim = shape->head_dim;
    sizes.value_dim = shape->value_dim;
    sizes.hidden = shape->hidden;
    status = ckv_context_create(&options, context);
    if (status == CKV_OK)
        status = ckv_tuning_status(*context, &info);
    if (status == CKV_OK)
        status = ckv_plan_create(*context, &sizes, NULL, plan);
    if (status == CKV_OK)
        status = ckv_tuning_save(*plan, item->group.stage, share * item->found.chosen_seconds,
                                 share * item->found.default_seconds);
    if (status == CKV_OK)
        snprintf(tune->path, sizeof tune->path, "%s", info.path);
    return status;
}

bool tune_save(struct tune *tune, struct item *item)
{
    ckv_context *context = NULL;
    ckv_plan *plan = NULL;

    tune_show_file(tune);
    item->saved = save(tune, item, &context, &plan) == CKV_OK;
    if (!item->saved)
        snprintf(item->unsaved, sizeof item->unsaved, "%s", ckv_error_detail());
    ckv_plan_destroy(plan);
    ckv_context_destroy(context);
    tune_hide_file(tune);
    return item->saved;
}
