/* SPDX-License-Identifier: Apache-2.0 */
/* A context's choice of backend and device. */
#include "dispatch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "devices.h"
#include "selector.h"
#include "status.h"

/* What became of the search, for the message. */
typedef struct search {
    ckv_selector wanted;
    int backends, devices; /* that were what is wanted */
    int last;              /* rank that is the last to be tried */
    char refused[400];     /* why a wish of the environment's cannot be had, "" */
} search;

/* A wish that some device of this rank cannot meet.  Another of its kind may, and where none does, one of
 * another kind is no answer to it. */
static void refuse(search *s, int rank, const char *reason)
{
    if (s->refused[0] != '\0')
        return;
    s->last = rank <= CKV_RANK_INTEGRATED ? CKV_RANK_INTEGRATED : rank; /* the GPUs are one kind */
    snprintf(s->refused, sizeof s->refused, "%s", reason);
}

/* Opens a device; what fails is noted, for the rows of ckv_device_query. */
static ckv_status open_row(ckv_context *context, const ckv_backend *backend, const ckv_device_info *info)
{
    ckv_status status = CKV_OK;
    context->backend = backend;
    context->device = info->device;
    if (backend->open_device != NULL)
        status = backend->open_device(context);
    if (status == CKV_OK)
        return CKV_OK;
    context->backend = NULL;
    context->backend_state = NULL;
    if (context->failures < CKV_CONTEXT_FAILURES) {
        ckv_device_failure *failed = &context->failed[context->failures++];
        failed->backend = info->backend;
        failed->device = info->device;
        snprintf(failed->reason, sizeof failed->reason, "%s", ckv_error_detail());
    }
    return status;
}

/* Devices of a backend that has none for now, by its own word. */
static void refuse_of(search *s, const ckv_backend *refused, int rank, const char *reason)
{
    const int32_t count = refused == NULL ? 0 : refused->device_count();
    for (int32_t i = 0; i < count; i++)
        if (refused->device_rank(i) == rank && ckv_selector_takes_device(&s->wanted, i, refused->device_name(i)))
            refuse(s, rank, reason);
}

/* The first of a backend's devices that is wanted, has this rank and can be opened.
 * CKV_ERROR_UNAVAILABLE when there is none.  Only memory of the caller's allocator that is
 * missing ends the search. */
static ckv_status choose_of(ckv_context *context, search *s, ckv_registry_entry *entry, int rank)
{
    const char *reason;
    const ckv_backend *backend = ckv_registry_backend(context->registry, entry, &reason);
    const int32_t rows = backend == NULL ? 0 : ckv_devices_rows(backend);
    if (backend == NULL)
        refuse_of(s, ckv_registry_refused(context->registry, entry), rank, reason);
    for (int32_t i = 0; i < rows; i++) {
        ckv_device_info info;
        ckv_status status;
        ckv_devices_row(context, entry, i, &info);
        if (info.device < 0 || !ckv_selector_takes_device(&s->wanted, i, info.name))
            continue;
        s->devices++;
        if (!info.available || backend->device_rank(i) != rank)
            continue;
        status = open_row(context, backend, &info);
        if (status == CKV_OK || status == CKV_ERROR_NO_MEMORY)
            return status;
        if (status == CKV_ERROR_INVALID_ARGUMENT) {
            char why[300];
            snprintf(why, sizeof why, "%s:%d: %.250s", info.backend, (int)info.device, ckv_error_detail());
            refuse(s, rank, why);
        }
    }
    return CKV_ERROR_UNAVAILABLE;
}

static ckv_status choose_rank(ckv_context *context, search *s, int rank)
{
    ckv_registry_entry *entry = ckv_registry_first(context->registry);
    ckv_status status = CKV_ERROR_UNAVAILABLE;
    for (; entry != NULL && status == CKV_ERROR_UNAVAILABLE; entry = ckv_registry_next(entry)) {
        if (!ckv_selector_takes_backend(&s->wanted, ckv_registry_name(entry)))
            continue;
        s->backends++;
        status = choose_of(context, s, entry, rank);
    }
    return status;
}

/* ------------------------------------------------------------------ the message */

typedef struct list {
    char text[700];
    size_t used;
    int available; /* those rows, or the others */
    int full, rows;
} list;

static int add_row(void *argument, const ckv_device_info *info)
{
    list *l = argument;
    char row[500];
    int length;
    if (info->available != l->available)
        return 1;
    if (info->device >= 0)
        length = snprintf(row, sizeof row, "%s%s:%d (%s)", l->rows == 0 ? "" : ", ", info->backend, (int)info->device,
                          info->available ? info->name : info->reason);
    else
        length = snprintf(row, sizeof row, "%s%s (%s)", l->rows == 0 ? "" : ", ", info->backend, info->reason);
    l->rows++;
    if (length < 0 || (size_t)length >= sizeof row || l->used + (size_t)length + sizeof ", ..." > sizeof l->text) {
        snprintf(l->text + l->used, sizeof l->text - l->used, "%s...", l->used == 0 ? "" : ", ");
        l->full = 1;
        return 0;
    }
    memcpy(l->text + l->used, row, (size_t)length + 1);
    l->used += (size_t)length;
    return 1;
}

/* Why what is wanted cannot be had, where that is one reason. */
static void find_reason(const ckv_context *context, const search *s, char *text, size_t size)
{
    ckv_registry_entry *entry = ckv_registry_first(context->registry);
    if (s->backends == 0) {
        snprintf(text, size, "no such backend");
        return;
    }
    if (s->refused[0] != '\0') {
        snprintf(text, size, "%s", s->refused);
        return;
    }
    if (context->failures > 0) {
        snprintf(text, size, "%s:%d: %s", context->failed[0].backend, (int)context->failed[0].device,
                 context->failed[0].reason);
        return;
    }
    snprintf(text, size, s->devices == 0 ? "no such device" : "not available");
    for (; s->wanted.backend_from != NULL && entry != NULL; entry = ckv_registry_next(entry)) {
        const char *reason;
        const int32_t rows = ckv_devices_rows(ckv_registry_backend(context->registry, entry, &reason));
        for (int32_t i = 0; i < rows && ckv_selector_takes_backend(&s->wanted, ckv_registry_name(entry)); i++) {
            ckv_device_info info;
            ckv_devices_row(context, entry, i, &info);
            if (info.available || (info.device >= 0 && !ckv_selector_takes_device(&s->wanted, i, info.name)))
                continue;
            snprintf(text, size, "%.350s", info.reason);
            return;
        }
    }
}

/* "options.backend 'cuda': why not; there is: cpu:0 (avx2), ..., not: hip (why not), ..." */
static ckv_status unavailable(const ckv_context *context, const search *s)
{
    char wanted[200], reason[400];
    list there = {.available = 1}, out = {.available = 0};
    ckv_selector_text(&s->wanted, wanted, sizeof wanted);
    find_reason(context, s, reason, sizeof reason);
    ckv_devices_each(context, add_row, &there);
    ckv_devices_each(context, add_row, &out);
    return ckv_fail(CKV_ERROR_UNAVAILABLE, "%s: %s; there is: %s; not: %s", wanted, reason,
                    there.rows == 0 ? "nothing" : there.text, out.rows == 0 ? "nothing" : out.text);
}

ckv_status ckv_dispatch(ckv_context *context, const ckv_context_options *options)
{
    search s = {.last = CKV_RANKS - 1};
    ckv_status status = CKV_ERROR_UNAVAILABLE;
    ckv_selector_read(&s.wanted, options);
    for (int rank = 0; rank <= s.last && status == CKV_ERROR_UNAVAILABLE; rank++)
        status = choose_rank(context, &s, rank);
    if (status == CKV_ERROR_UNAVAILABLE && s.wanted.backend_from != NULL)
        status = choose_rank(context, &s, CKV_RANK_NEVER);
    return status == CKV_ERROR_UNAVAILABLE ? unavailable(context, &s) : status;
}
