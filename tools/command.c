/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that run the library share. */
#include "command.h"

#include "message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A tuning file that cannot be used whole changes no result: said once. */
static void warn_of_tuning(const ckv_context *context)
{
    static bool warned;
    ckv_tuning_info info = {.struct_size = sizeof info};

    if (!warned && ckv_tuning_status(context, &info) == CKV_OK && info.trouble) {
        message_warning("tuning file %s", info.reason);
        warned = true;
    }
}

ckv_status command_open(const struct options *options, ckv_context **context)
{
    ckv_context_options wanted;
    ckv_status status;

    ckv_context_options_init(&wanted);
    wanted.backend = options->backend;
    wanted.device = options->device;
    wanted.threads = options->threads;
    status = ckv_context_create(&wanted, context);
    if (status == CKV_OK)
        warn_of_tuning(*context);
    return status;
}

ckv_context *command_context(const struct options *options)
{
    ckv_context *context = NULL;

    if (command_open(options, &context) == CKV_OK)
        return context;
    if (options->backend_text == NULL)
        message_error("%s", ckv_error_detail());
    else
        message_error("--backend: '%s': %s", options->backend_text, ckv_error_detail());
    return NULL;
}

bool command_library_error(const struct options *options, const struct layer *layer)
{
    message_error("%s: layers.%" PRId32 ": %s", options->input, layer->number, ckv_error_detail());
    return false;
}

void *command_memory(const struct options *options, const struct layer *layer, size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);

    if (memory == NULL)
        message_error("%s: layers.%" PRId32 ": out of memory for %zu times %zu bytes", options->input, layer->number,
                      count, size);
    return memory;
}

bool command_plan(const ckv_context *context, const struct options *options, const struct layer *layer,
                  const ckv_policy *policy, struct selecting *selecting)
{
    ckv_policy scaled = *policy;
    ckv_shape shape;

    memset(selecting, 0, sizeof *selecting);
    ckv_shape_init(&shape);
    shape.query_heads = layer->query_heads;
    shape.kv_heads = layer->kv_heads;
    shape.tokens = layer->tokens;
    shape.queries = layer->queries;
    shape.head_dim = layer->head_dim;
    shape.value_dim = layer->value_dim;
    shape.hidden = layer->hidden;
    scaled.scale = layer->scale;
    selecting->info.struct_size = sizeof selecting->info;
    if (ckv_plan_create(context, &shape, &scaled, &selecting->plan) == CKV_OK &&
        ckv_plan_query(selecting->plan, &selecting->info) == CKV_OK)
        return true;
    return command_library_error(options, layer);
}

bool command_allocate(const struct options *options, const struct layer *layer, struct selecting *selecting)
{
    size_t count = (size_t)selecting->info.positions;
    int32_t *positions = command_memory(options, layer, count, sizeof *positions);
    int32_t *offsets =
        positions == NULL ? NULL : command_memory(options, layer, (size_t)layer->kv_heads + 1, sizeof *offsets);
    uint8_t *stages = offsets == NULL ? NULL : command_memory(options, layer, count, sizeof *stages);

    ckv_selection_init(&selecting->selection, positions, (int64_t)count, offsets);
    selecting->selection.stages = stages;
    return stages != NULL;
}

void command_destroy(struct selecting *selecting)
{
    free(selecting->selection.positions);
    free(selecting->selection.offsets);
    free(selecting->selection.stages);
    ckv_plan_destroy(selecting->plan);
    memset(selecting, 0, sizeof *selecting);
}

double command_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
