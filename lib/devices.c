/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backends and their devices, and the calls that show it. */
#include "devices.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

int32_t ckv_devices_rows(const ckv_backend *backend)
{
    int32_t count = backend == NULL ? 0 : backend->device_count();
    return count > 0 ? count : 1;
}

static const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}

static const char *failure_of(const ckv_context *context, const char *backend, int32_t device)
{
    for (int i = 0; i < context->failures; i++)
        if (strcmp(context->failed[i].backend, backend) == 0 && context->failed[i].device == device)
            return context->failed[i].reason;
    return "";
}

void ckv_devices_row(const ckv_context *context, ckv_registry_entry *entry, int32_t device, ckv_device_info *info)
{
    const char *reason;
    const ckv_backend *backend = ckv_registry_backend(context->registry, entry, &reason);
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    info->backend = ckv_registry_name(entry);
    info->device = -1;
    info->name = "";
    info->variant = "";
    info->reason = reason;
    if (backend == NULL)
        return;
    if (backend->device_count() <= 0) {
        info->reason = backend->absence == NULL ? "no device" : backend->absence();
        return;
    }
    info->device = device;
    info->name = text_of(backend->device_name(device));
    info->reason = text_of(backend->device_reason(device));
    if (info->reason[0] == '\0')
        info->reason = failure_of(context, info->backend, device);
    info->available = info->reason[0] == '\0';
    info->selected = backend == context->backend && device == context->device;
    if (info->selected) { /* as it was chosen, whatever the environment says now */
        info->name = text_of(backend->context_device_name(context));
        info->variant = ckv_backend_variant(context);
        info->available = 1;
        info->reason = "";
    }
}

void ckv_devices_each(const ckv_context *context, int (*visit)(void *argument, const ckv_device_info *info),
                      void *argument)
{
    ckv_registry_entry *entry = ckv_registry_first(context->registry);
    for (; entry != NULL; entry = ckv_registry_next(entry)) {
        const char *reason;
        const int32_t rows = ckv_devices_rows(ckv_registry_backend(context->registry, entry, &reason));
        for (int32_t i = 0; i < rows; i++) {
            ckv_device_info info;
            ckv_devices_row(context, entry, i, &info);
            if (!visit(argument, &info))
                return;
        }
    }
}

/* ------------------------------------------------------------------ the calls */

typedef struct search {
    int32_t wanted, seen;
    ckv_device_info info;
} search;

static int count_row(void *argument, const ckv_device_info *info)
{
    search *s = argument;
    if (s->seen++ != s->wanted)
        return 1;
    s->info = *info;
    return 0;
}

/* 1 if there is a row of that index. */
static int find(const ckv_context *context, int32_t wanted, search *s)
{
    *s = (search){.wanted = wanted};
    ckv_devices_each(context, count_row, s);
    return wanted >= 0 && s->seen > wanted;
}

/* This thread's texts of a row that is no context's, whose own go with the list. */
static void keep_texts(ckv_device_info *info)
{
    static _Thread_local struct {
        char backend[64], name[128], reason[512];
    } kept;
    snprintf(kept.backend, sizeof kept.backend, "%s", info->backend);
    snprintf(kept.name, sizeof kept.name, "%s", info->name);
    snprintf(kept.reason, sizeof kept.reason, "%s", info->reason);
    info->backend = kept.backend;
    info->name = kept.name;
    info->reason = kept.reason;
}

int32_t ckv_device_count(const ckv_context *context)
{
    ckv_context anybody;
    search s;
    if (context != NULL) {
        find(context, -1, &s);
        return s.seen;
    }
    if (ckv_context_draft(&anybody, NULL) != CKV_OK)
        return 0;
    find(&anybody, -1, &s);
    ckv_registry_destroy(anybody.registry);
    return s.seen;
}

ckv_status ckv_device_query(const ckv_context *context, int32_t index, ckv_device_info *info)
{
    ckv_context anybody;
    search s;
    int found;
    if (context != NULL) {
        found = find(context, index, &s);
    } else {
        ckv_status status = ckv_context_draft(&anybody, NULL);
        if (status != CKV_OK)
            return status;
        found = find(&anybody, index, &s);
        if (found)
            keep_texts(&s.info);
        ckv_registry_destroy(anybody.registry);
    }
    if (!found)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "index: %d, wanted 0 to %d", (int)index, (int)s.seen - 1);
    return ckv_struct_write(info, &s.info, sizeof s.info, offsetof(ckv_device_info, reason) + sizeof s.info.reason,
                            "info");
}
