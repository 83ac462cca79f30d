/* SPDX-License-Identifier: Apache-2.0 */
/* What ckv verify runs problems on; see verify_target.h. */
#include "verify_target.h"

#include "command.h"
#include "message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names that a variant can have on some machine; which of them this one has, a context says. */
static const struct {
    const char *variable;
    const char *backends; /* that read it */
    const char *names[9];
} variants[] = {
    {"CKV_CPU_ISA",
     "cpu",
     {"portable", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "neon_dotprod", "neon_i8mm", NULL}},
    {"CKV_GPU_NORM", "cuda hip opencl", {"int", "dot4", "mma", "mfma", "wmma", NULL}},
};

static const int32_t thread_counts[VERIFY_CONTEXTS] = {1, 2, 3, 7};

/* ------------------------------------------------------------------ contexts */

static ckv_status create(const struct verify_target *target, int32_t threads, ckv_context **context)
{
    const char *before = target->variable == NULL ? NULL : getenv(target->variable);
    char *saved = before == NULL ? NULL : strdup(before);
    ckv_context_options options;
    ckv_status status;

    ckv_context_options_init(&options);
    options.backend = target->backend;
    options.device = target->device[0] == '\0' ? NULL : target->device;
    options.threads = threads;
    if (target->variable != NULL)
        setenv(target->variable, target->variant, 1);
    status = ckv_context_create(&options, context);
    if (saved != NULL)
        setenv(target->variable, saved, 1);
    else if (target->variable != NULL)
        unsetenv(target->variable);
    free(saved);
    return status;
}

const ckv_context *verify_target_context(struct verify_target *target, int32_t threads)
{
    int at = 0;
    char text[VERIFY_NAME];

    while (at < VERIFY_CONTEXTS - 1 && thread_counts[at] < threads)
        at++;
    if (target->contexts[at] != NULL)
        return target->contexts[at];
    if (create(target, thread_counts[at], &target->contexts[at]) == CKV_OK)
        return target->contexts[at];
    verify_target_text(target, text, sizeof text);
    message_error("%s: %s", text, ckv_error_detail());
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
    snprintf(skip->reason, sizeof skip->reason, "%s", reason);
    return true;
}

/* The variants of a device that can be used; itself where it has none. */
static bool add_variants(struct verify_targets *all, struct verify_target *target)
{
    size_t before = all->count;

    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        if (strstr(variants[v].backends, target->backend) == NULL)
            continue;
        for (int i = 0; variants[v].names[i] != NULL; i++) {
            struct verify_target one = *target;
            bool good;

            one.variable = variants[v].variable;
            snprintf(one.variant, sizeof one.variant, "%s", variants[v].names[i]);
            /* The first of a device stays open, so that the device does. */
            good = create(&one, thread_counts[0], &one.contexts[0]) == CKV_OK;
            if (good && !add_target(all, &one)) {
                ckv_context_destroy(one.contexts[0]);
                return false;
            }
        }
    }
    return all->count > before || add_target(all, target);
}

/* ------------------------------------------------------------------ what is wanted */

/* As ckv_context_options.device is read. */
static bool names(const char *text, const ckv_device_info *info)
{
    const char *colon = strchr(text, ':');
    size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
    char *end;
    long number;

    if (strlen(info->backend) != length || strncmp(text, info->backend, length) != 0)
        return false;
    if (colon == NULL || info->device < 0)
        return true;
    number = strtol(colon + 1, &end, 10);
    if (isdigit((unsigned char)colon[1]) && *end == '\0')
        return number == info->device;
    return strstr(info->name, colon + 1) != NULL;
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
        if (info.available && create(&target, thread_counts[0], &target.contexts[0]) != CKV_OK) {
            if (!add_skip(all, &target, ckv_error_detail()))
                return EXIT_VERIFY_ERROR;
        } else if (info.available) {
            bool good = add_variants(all, &target);

            /* The device's own context is one of a target only where that has no variant. */
            if (!good || all->targets[all->count - 1].variable != NULL)
                ckv_context_destroy(target.contexts[0]);
            if (!good)
                return EXIT_VERIFY_ERROR;
        } else if (!add_skip(all, &target, info.reason)) {
            return EXIT_VERIFY_ERROR;
        }
    }
    return EXIT_DONE;
}

/* Each name must have given something to run on. */
static int check_names(const struct verify_targets *all, const struct verify_wanted *wanted)
{
    for (size_t w = 0; w < wanted->count; w++) {
        const char *text = wanted->texts[w], *colon = strchr(text, ':'), *reason = NULL;
        size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
        bool known = false, found = false;

        for (int32_t i = 0; i < ckv_device_count(all->reference); i++) {
            ckv_device_info info = {.struct_size = sizeof info};

            if (ckv_device_query(all->reference, i, &info) != CKV_OK)
                continue;
            known = known || (strlen(info.backend) == length && strncmp(info.backend, text, length) == 0);
            for (size_t t = 0; t < all->count; t++)
                found = found || (names(text, &info) && strcmp(all->targets[t].backend, info.backend) == 0 &&
                                  (info.device < 0 || atoi(all->targets[t].device) == info.device));
            for (size_t s = 0; s < all->skip_count; s++)
                if (names(text, &info) && strcmp(all->skips[s].backend, info.backend) == 0)
                    reason = all->skips[s].reason;
        }
        if (!known) {
            message_error("--backend: '%s': wanted ref, cpu, cuda, hip or opencl, or NAME:DEVICE", text);
            return EXIT_USAGE;
        }
        if (!found) {
            message_error("--backend: '%s': %s", text, reason != NULL ? reason : "no such device; see ckv info");
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
