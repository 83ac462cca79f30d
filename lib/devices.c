/* SPDX-License-Identifier: Apache-2.0 */
/* The table of backends and devices, and the choice of one. */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"
#include "status.h"

/* A backend that cannot be used has one row, as has one without devices. */
static int32_t rows_of(const ckv_registry_entry *entry)
{
    int32_t count = entry->backend == NULL ? 0 : entry->backend->device_count();
    return count > 0 ? count : 1;
}

static const char *failure_of(const ckv_context *context, const char *backend, int32_t device)
{
    for (int i = 0; context != NULL && i < context->failures; i++)
        if (strcmp(context->failed[i].backend, backend) == 0 && context->failed[i].device == device)
            return context->failed[i].reason;
    return NULL;
}

/* Row `device` of a backend's own. */
static void describe(const ckv_context *context, const ckv_registry_entry *entry, int32_t device, ckv_device_info *info)
{
    const char *failure;
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
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
    info->device = device;
    info->name = entry->backend->device_name(device);
    info->reason = entry->backend->device_reason(device);
    failure = failure_of(context, entry->name, device);
    if (info->reason[0] == '\0' && failure != NULL)
        info->reason = failure;
    info->available = info->reason[0] == '\0';
}

int32_t ckv_devices_count(void)
{
    int32_t count = 0;
    for (int i = 0; i < ckv_registry_count; i++)
        count += rows_of(&ckv_registry[i]);
    return count;
}

void ckv_devices_describe(const ckv_context *context, int32_t index, ckv_device_info *info)
{
    const ckv_registry_entry *entry = ckv_registry;
    while (index >= rows_of(entry)) {
        index -= rows_of(entry);
        entry++;
    }
    describe(context, entry, index, info);
}

static int is_auto(const ckv_context_options *options)
{
    return options->backend == NULL || strcmp(options->backend, "auto") == 0;
}

static int matches(const ckv_device_info *info, const char *device)
{
    char *end;
    long index;
    if (device == NULL || device[0] == '\0')
        return 1;
    index = strtol(device, &end, 10);
    if (*end == '\0')
        return index == info->device;
    return strstr(info->name, device) != NULL;
}

/* "backend 'cuda': ...; there is: ref:0 (name), cuda (why not), ..." */
static ckv_status unavailable(const ckv_context *context, const ckv_context_options *options)
{
    char list[400] = "";
    size_t used = 0;
    const int32_t rows = ckv_devices_count();
    ckv_device_info info;
    for (int32_t i = 0; i < rows && used < sizeof list; i++) {
        ckv_devices_describe(context, i, &info);
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

/* Opens a device; what fails is noted, for the rows of ckv_device_query. */
static ckv_status open_row(ckv_context *context, const ckv_registry_entry *entry, int32_t device)
{
    ckv_status status = CKV_OK;
    context->backend = entry->backend;
    context->device = device;
    if (entry->backend->open_device != NULL)
        status = entry->backend->open_device(context);
    if (status != CKV_OK && context->failures < CKV_CONTEXT_FAILURES) {
        ckv_device_failure *failed = &context->failed[context->failures++];
        failed->backend = entry->name;
        failed->device = device;
        snprintf(failed->reason, sizeof failed->reason, "%s", ckv_error_detail());
    }
    return status;
}

/* The first of a backend's devices that is asked for, has this rank and can be opened.
 * CKV_ERROR_UNAVAILABLE when there is none; `tried` then says whether one was tried.
 * Only memory of the caller's allocator that is missing ends the search. */
static ckv_status choose_of(ckv_context *context, const ckv_registry_entry *entry, const char *device, int rank,
                            int any_rank, int *tried)
{
    ckv_device_info info;
    const int32_t rows = rows_of(entry);
    for (int32_t i = 0; i < rows; i++) {
        ckv_status status;
        describe(context, entry, i, &info);
        if (!info.available || !matches(&info, device))
            continue;
        if (!any_rank && entry->backend->device_rank(i) != rank)
            continue;
        *tried = 1;
        status = open_row(context, entry, i);
        if (status == CKV_OK || status == CKV_ERROR_NO_MEMORY)
            return status;
    }
    return CKV_ERROR_UNAVAILABLE;
}

/* "auto": the best rank that can be opened. */
static ckv_status choose_best(ckv_context *context, const ckv_context_options *options)
{
    int tried = 0;
    for (int rank = 0; rank < CKV_RANKS; rank++)
        for (int i = 0; i < ckv_registry_count; i++) {
            ckv_status status;
            if (ckv_registry[i].backend == NULL)
                continue;
            status = choose_of(context, &ckv_registry[i], options->device, rank, 0, &tried);
            if (status != CKV_ERROR_UNAVAILABLE)
                return status;
        }
    return unavailable(context, options);
}

ckv_status ckv_devices_choose(ckv_context *context, const ckv_context_options *options)
{
    int tried = 0;
    if (is_auto(options))
        return choose_best(context, options);
    for (int i = 0; i < ckv_registry_count; i++) {
        ckv_status status;
        if (ckv_registry[i].backend == NULL || strcmp(ckv_registry[i].name, options->backend) != 0)
            continue;
        status = choose_of(context, &ckv_registry[i], options->device, 0, 1, &tried);
        if (status != CKV_ERROR_UNAVAILABLE)
            return status;
        if (tried)
            return ckv_fail(status, "backend '%s' device %d: %s", context->failed[0].backend,
                            (int)context->failed[0].device, context->failed[0].reason);
    }
    return unavailable(context, options);
}
