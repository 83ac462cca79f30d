/* SPDX-License-Identifier: Apache-2.0 */
/* What ckv verify runs problems on; see verify_target.h. */
#include "verify_target.h"

#include "command.h"
#include "lib/names.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t thread_counts[VERIFY_CONTEXTS] = {1, 2, 3, 7};

/* ------------------------------------------------------------------ contexts */

/* Context `at` of a target, not kept. */
static ckv_status create(const struct verify_target *target, int at, ckv_context **context)
{
    ckv_context_options options;

    ckv_context_options_init(&options);
    options.backend = target->backend;
    options.device = target->device[0] == '\0' ? NULL : target->device;
    options.threads = thread_counts[at];
    options.parameters = target->parameters[at][0] == '\0' ? NULL : target->parameters[at];
    return ckv_context_create(&options, context);
}

int verify_target_index(int32_t threads)
{
    int at = 0;

    while (at < VERIFY_CONTEXTS - 1 && thread_counts[at] < threads)
        at++;
    return at;
}

const ckv_context *verify_target_context(struct verify_target *target, int32_t threads)
{
    const int at = verify_target_index(threads);
    char text[VERIFY_NAME];

    if (target->contexts[at] != NULL || create(target, at, &target->contexts[at]) == CKV_OK)
        return target->contexts[at];
    verify_target_text(target, text, sizeof text);
    message_error("%s: parameters '%s': %s", text, target->parameters[at], ckv_error_detail());
    return NULL;
}

void verify_target_text(const struct verify_target *target, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s%s%s", target->backend, target->device[0] == '\0' ? "" : ":", target->device,
             target->variant[0] == '\0' ? "" : " ", target->variant);
}

/* ------------------------------------------------------------------ the list */

static bool out_of_memory(void)
{
    message_error("out of memory");
    return false;
}

static bool add_target(struct verify_targets *all, const struct verify_target *target)
{
    struct verify_target *grown = realloc(all->targets, (all->count + 1) * sizeof *grown);

    if (grown == NULL)
        return out_of_memory();
    all->targets = grown;
    all->targets[all->count++] = *target;
    return true;
}

static bool add_skip(struct verify_targets *all, const struct verify_target *target, const char *reason)
{
    struct verify_skip *grown = realloc(all->skips, (all->skip_count + 1) * sizeof *grown), *skip;

    if (grown == NULL)
        return out_of_memory();
    all->skips = grown;
    skip = &all->skips[all->skip_count++];
    snprintf(skip->backend, sizeof skip->backend, "%s", target->backend);
    snprintf(skip->device, sizeof skip->device, "%s", target->device);
    snprintf(skip->variant, sizeof skip->variant, "%s", target->variant);
    snprintf(skip->reason, sizeof skip->reason, "%s", reason);
    return true;
}

/* ------------------------------------------------------------------ what may be tuned */

static bool tunable(const ckv_context *context, int32_t index, ckv_tunable_info *info)
{
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    return index < ckv_tunable_count(context) && ckv_tunable_query(context, index, info) == CKV_OK;
}

static void value_text(const ckv_tunable_info *info, int32_t at, char *text, size_t size)
{
    if (info->labels != NULL)
        snprintf(text, size, "%s=%s", info->name, info->labels[at]);
    else
        snprintf(text, size, "%s=%d", info->name, (int)info->values[at]);
}

/* One tunable's values, or the environment's words for them, make targets; with `fixed` below 0, the
 * device as it comes.  The first context has that and nothing else; in the others every other
 * tunable takes one value after another, so that values meet. */
static void mix(struct verify_target *target, const ckv_context *device, int32_t fixed)
{
    ckv_tunable_info info;

    for (int at = 0; at < VERIFY_CONTEXTS; at++) {
        char *text = target->parameters[at];

        snprintf(text, VERIFY_PARAMETERS, "%s", fixed < 0 ? "" : target->variant);
        for (int32_t index = 0; at > 0 && tunable(device, index, &info); index++) {
            char one[VERIFY_VARIANT];
            int32_t value = (at - 1 + index) % info.count;
            size_t used = strlen(text);

            for (int32_t tries = 1; tries < info.count && !ckv_tunable_allows(device, index, info.values[value]);
                 tries++)
                value = (value + 1) % info.count;
            value_text(&info, value, one, sizeof one);
            if (index != fixed && ckv_tunable_allows(device, index, info.values[value]) &&
                used + strlen(one) + 2 < VERIFY_PARAMETERS)
                snprintf(text + used, VERIFY_PARAMETERS - used, "%s%s", used == 0 ? "" : ",", one);
        }
    }
}

/* What a tunable of a stage can make a difference to. */
static unsigned stages_of(const char *stage)
{
    const enum verify_stage one = verify_stage_named(stage);

    if (one == VERIFY_STAGES)
        return VERIFY_ALL;
    return 1u << one | (one == VERIFY_COMPACT ? 0u : 1u << VERIFY_EVICT);
}

static bool add_values(struct verify_targets *all, const struct verify_target *base, const ckv_context *device,
                       int32_t index, const ckv_tunable_info *info)
{
    bool good = true;

    for (int32_t at = 0; good && at < info->count; at++) {
        struct verify_target target = *base;

        target.stages = stages_of(info->stage);
        value_text(info, at, target.variant, sizeof target.variant);
        mix(&target, device, index);
        good = ckv_tunable_allows(device, index, info->values[at]) ? add_target(all, &target)
                                                                   : add_skip(all, &target, "not on this device");
    }
    return good;
}

/* The device as it comes, unless a tunable of everything stands for it (the instruction set),
 * and each value of each tunable. */
static bool add_variants(struct verify_targets *all, const struct verify_target *base, const ckv_context *device)
{
    ckv_tunable_info info;
    bool whole = false, good = true;

    for (int32_t index = 0; tunable(device, index, &info); index++)
        whole = whole || (info.labels != NULL && stages_of(info.stage) == VERIFY_ALL);
    if (!whole) {
        struct verify_target target = *base;

        mix(&target, device, -1);
        good = add_target(all, &target);
    }
    for (int32_t index = 0; good && tunable(device, index, &info); index++)
        good = add_values(all, base, device, index, &info);
    return good;
}

/* ------------------------------------------------------------------ what is wanted */

/* NAME of the text, in whichever case. */
static bool names_backend(const char *text, const char *backend)
{
    return strcspn(text, ":") == strlen(backend) && ckv_name_starts(text, backend);
}

/* As ckv_context_options.backend and .device are read. */
static bool names(const char *text, const ckv_device_info *info)
{
    const char *device = text + strcspn(text, ":");

    if (!names_backend(text, info->backend))
        return false;
    return *device == '\0' || info->device < 0 || ckv_name_is_device(device + 1, info->device, info->name) != 0;
}

/* Whether a row is asked for, and each of the texts that asks for it counted. */
static bool is_wanted(const struct verify_wanted *wanted, const ckv_device_info *info)
{
    bool found = wanted->count == 0;

    for (size_t i = 0; i < wanted->count; i++)
        found = found || names(wanted->texts[i], info);
    return found;
}

static int find_rows(struct verify_targets *all, const struct verify_wanted *wanted)
{
    for (int32_t i = 0; i < ckv_device_count(all->reference); i++) {
        ckv_device_info info = {.struct_size = sizeof info};
        struct verify_target target;
        ckv_context *device = NULL;

        memset(&target, 0, sizeof target);
        if (ckv_device_query(all->reference, i, &info) != CKV_OK) {
            message_error("%s", ckv_error_detail());
            return EXIT_VERIFY_ERROR;
        }
        if (!is_wanted(wanted, &info))
            continue;
        snprintf(target.backend, sizeof target.backend, "%s", info.backend);
        snprintf(target.name, sizeof target.name, "%s", info.name);
        if (info.device >= 0)
            snprintf(target.device, sizeof target.device, "%d", (int)info.device);
        target.stages = VERIFY_ALL;
        if (info.available && create(&target, 0, &device) != CKV_OK) {
            if (!add_skip(all, &target, ckv_error_detail()))
                return EXIT_VERIFY_ERROR;
        } else if (info.available) {
            bool good = add_variants(all, &target, device);

            ckv_context_destroy(device);
            if (!good)
                return EXIT_VERIFY_ERROR;
        } else if (!add_skip(all, &target, info.reason)) {
            return EXIT_VERIFY_ERROR;
        }
    }
    return EXIT_DONE;
}

/* One error line: who names what, and why it cannot be had. */
static void complain(const struct verify_wanted *wanted, const char *text, const char *reason)
{
    const char *device = text + strcspn(text, ":");

    if (wanted->file == NULL)
        message_error("--backend: '%s': %s", text, reason);
    else if (*device == '\0')
        message_error("%s: __metadata__: backend '%s': %s; --backend says where to run it instead", wanted->file, text,
                      reason);
    else
        message_error("%s: __metadata__: backend '%.*s', device '%s': %s; --backend says where to run it instead",
                      wanted->file, (int)(device - text), text, device + 1, reason);
}

/* Each name must have given something to run on. */
static int check_names(const struct verify_targets *all, const struct verify_wanted *wanted)
{
    for (size_t w = 0; w < wanted->count; w++) {
        const char *text = wanted->texts[w], *reason = NULL;
        bool known = false, found = false;

        for (int32_t i = 0; i < ckv_device_count(all->reference); i++) {
            ckv_device_info info = {.struct_size = sizeof info};

            if (ckv_device_query(all->reference, i, &info) != CKV_OK)
                continue;
            known = known || names_backend(text, info.backend);
            for (size_t t = 0; t < all->count; t++)
                found = found || (names(text, &info) && strcmp(all->targets[t].backend, info.backend) == 0 &&
                                  (info.device < 0 || atoi(all->targets[t].device) == info.device));
            for (size_t s = 0; s < all->skip_count; s++)
                if (names(text, &info) && strcmp(all->skips[s].backend, info.backend) == 0)
                    reason = all->skips[s].reason;
        }
        if (!known) {
            complain(wanted, text, "wanted ref, cpu, cuda, hip or opencl, or NAME:DEVICE");
            return wanted->file == NULL ? EXIT_USAGE : EXIT_VERIFY_ERROR;
        }
        if (!found) {
            complain(wanted, text, reason != NULL ? reason : "no such device; see ckv info");
            return EXIT_VERIFY_ERROR;
        }
    }
    return EXIT_DONE;
}

int verify_targets_find(struct verify_targets *all, const struct verify_wanted *wanted)
{
    ckv_context_options options;
    int status;

    memset(all, 0, sizeof *all);
    ckv_context_options_init(&options);
    options.backend = "ref";
    options.device = "0"; /* whatever CKV_DEVICE says */
    if (ckv_context_create(&options, &all->reference) != CKV_OK) {
        message_error("%s", ckv_error_detail());
        return EXIT_VERIFY_ERROR;
    }
    status = find_rows(all, wanted);
    return status != EXIT_DONE ? status : check_names(all, wanted);
}

void verify_targets_free(struct verify_targets *all)
{
    for (size_t t = 0; t < all->count; t++)
        for (int i = 0; i < VERIFY_CONTEXTS; i++)
            ckv_context_destroy(all->targets[t].contexts[i]);
    ckv_context_destroy(all->reference);
    free(all->targets);
    free(all->skips);
    memset(all, 0, sizeof *all);
}
