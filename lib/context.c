/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the allocator, the table of backends and devices, and the choice of one. */
#define _POSIX_C_SOURCE 200809L
#include "context.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"
#include "sizes.h"
#include "status.h"

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)

const char *ckv_version(void)
{
    return STRINGIFY(CKV_VERSION_MAJOR) "." STRINGIFY(CKV_VERSION_MINOR) "." STRINGIFY(CKV_VERSION_PATCH);
}

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    void *memory = NULL;
    (void)user;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void default_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

void *ckv_context_allocate(const ckv_context *context, size_t bytes, const char *what)
{
    void *memory = context->allocate(context->user, bytes, 64);
    if (memory == NULL)
        ckv_fail(CKV_ERROR_NO_MEMORY, "%s: could not allocate %zu bytes", what, bytes);
    else
        memset(memory, 0, bytes);
    return memory;
}

void ckv_context_release(const ckv_context *context, void *memory)
{
    context->release(context->user, memory);
}

void ckv_context_options_init(ckv_context_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

/* A backend that cannot be used has one row, as has one without devices. */
static int32_t rows_of(const ckv_registry_entry *entry)
{
    int32_t count = entry->backend == NULL ? 0 : entry->backend->device_count();
    return count > 0 ? count : 1;
}

static void describe(int32_t index, ckv_device_info *info)
{
    const ckv_registry_entry *entry = ckv_registry;
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    while (index >= rows_of(entry)) {
        index -= rows_of(entry);
        entry++;
    }
    info->backend = entry->name;
    info->device = -1;
    info->name = "";
    info->reason = entry->reason;
    if (entry->backend == NULL)
        return;
    if (entry->backend->device_count() == 0) {
        info->reason = entry->backend->absence == NULL ? "no device" : entry->backend->absence();
        return;
    }
    info->device = index;
    info->name = entry->backend->device_name(index);
    info->reason = entry->backend->device_reason(index);
    info->available = info->reason[0] == '\0';
}

static int matches(const ckv_device_info *info, const char *backend, const char *device)
{
    char *end;
    long index;
    if (backend != NULL && strcmp(backend, "auto") != 0 && strcmp(backend, info->backend) != 0)
        return 0;
    if (device == NULL || device[0] == '\0')
        return 1;
    index = strtol(device, &end, 10);
    if (*end == '\0')
        return index == info->device;
    return strstr(info->name, device) != NULL;
}

/* "backend 'cuda': ...; there is: ref:0 (name), cuda (why not), ..." */
static ckv_status unavailable(const ckv_context_options *options, int32_t rows)
{
    char list[400] = "";
    size_t used = 0;
    ckv_device_info info;
    for (int32_t i = 0; i < rows && used < sizeof list; i++) {
        describe(i, &info);
        if (info.device >= 0)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s:%d (%s)", i == 0 ? "" : ", ", info.backend,
                                     (int)info.device, info.available ? info.name : info.reason);
        else
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s)", i == 0 ? "" : ", ", info.backend,
                                     info.reason);
    }
    return ckv_fail(CKV_ERROR_UNAVAILABLE, "backend '%.40s'%s%.40s%s: not available; there is: %s",
                    options->backend == NULL ? "auto" : options->backend, options->device == NULL ? "" : " device '",
                    options->device == NULL ? "" : options->device, options->device == NULL ? "" : "'", list);
}

static ckv_status choose(ckv_context *context, const ckv_context_options *options)
{
    ckv_device_info info;
    for (int32_t i = 0; i < context->rows; i++) {
        describe(i, &info);
        if (!info.available || !matches(&info, options->backend, options->device))
            continue;
        for (int j = 0; j < ckv_registry_count; j++)
            if (strcmp(ckv_registry[j].name, info.backend) == 0)
                context->backend = ckv_registry[j].backend;
        context->device = info.device;
        return CKV_OK;
    }
    return unavailable(options, context->rows);
}

ckv_status ckv_context_create(const ckv_context_options *given, ckv_context **out)
{
    ckv_context_options options;
    ckv_context draft = {0};
    ckv_status status;
    if (out == NULL)
        return ckv_fail_null("context");
    *out = NULL;
    ckv_context_options_init(&options);
    if (given != NULL) {
        status = ckv_struct_read(&options, sizeof options, offsetof(ckv_context_options, pool) + sizeof options.pool,
                                 given, "options");
        if (status != CKV_OK)
            return status;
    }
    if ((options.allocate == NULL) != (options.release == NULL))
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT,
                        "options: only one of allocate and release is set, wanted both or none");
    draft.allocate = options.allocate == NULL ? default_allocate : options.allocate;
    draft.release = options.release == NULL ? default_release : options.release;
    draft.user = options.user;
    if (options.threads < 0 || options.threads > CKV_LIMIT_THREADS)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "options: threads %d, wanted 0 to %d", (int)options.threads,
                        CKV_LIMIT_THREADS);
    if (options.parallel_for != NULL && options.threads == 0)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "options: threads 0, wanted the width of parallel_for");
    draft.threads = options.threads;
    draft.parallel_for = options.parallel_for;
    draft.pool = options.pool;
    draft.native_context = options.native_context;
    for (int i = 0; i < ckv_registry_count; i++)
        draft.rows += rows_of(&ckv_registry[i]);
    status = choose(&draft, &options);
    if (status != CKV_OK)
        return status;
    if (draft.backend->open_device != NULL) {
        status = draft.backend->open_device(&draft);
        if (status != CKV_OK)
            return status;
    }
    *out = ckv_context_allocate(&draft, sizeof draft, "context");
    if (*out == NULL) {
        if (draft.backend->close_device != NULL)
            draft.backend->close_device(&draft);
        return CKV_ERROR_NO_MEMORY;
    }
    **out = draft;
    return CKV_OK;
}

void ckv_context_destroy(ckv_context *context)
{
    if (context == NULL)
        return;
    if (context->backend->close_device != NULL)
        context->backend->close_device(context);
    ckv_context_release(context, context);
}

int32_t ckv_device_count(const ckv_context *context)
{
    return context == NULL ? 0 : context->rows;
}

ckv_status ckv_device_query(const ckv_context *context, int32_t index, ckv_device_info *info)
{
    ckv_device_info known;
    if (context == NULL)
        return ckv_fail_null("context");
    if (index < 0 || index >= context->rows)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "index: %d, wanted 0 to %d", (int)index, (int)context->rows - 1);
    describe(index, &known);
    known.selected = strcmp(known.backend, context->backend->name) == 0 && known.device == context->device;
    if (known.selected) { /* as it was chosen, whatever the environment says now */
        known.name = context->backend->context_device_name(context);
        known.available = 1;
        known.reason = "";
    }
    return ckv_struct_write(info, &known, sizeof known, offsetof(ckv_device_info, reason) + sizeof known.reason,
                            "info");
}
