/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module that computes as the reference does, and fails as it is told to:
 *   FAKE_NAME     of module and backend, "fake" if not set
 *   FAKE_MODULE   what is wrong with it: one of the words below
 *   FAKE_RANKS    one digit a device, its CKV_RANK_*; "-" is never, "x" one that cannot be
 *                 opened; "0" if not set
 *   FAKE_LOG      a file that gets this module's path whenever it is loaded
 * All are read when it is loaded.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/module/entry.h"
#include "lib/status.h"

static ckv_backend table;
static char name[32] = "fake", ranks[16] = "0", wrong[32];

static int32_t device_count(void)
{
    return (int32_t)strlen(ranks);
}

static const char *device_name(int32_t device)
{
    static const char *const names[16] = {"Fake Zero", "Fake One", "Fake Two", "Fake Three"};
    return names[device];
}

static const char *context_device_name(const ckv_context *context)
{
    return device_name(context->device);
}

static const char *context_variant(const ckv_context *context)
{
    (void)context;
    return "pretended";
}

static const char *absence(void)
{
    return "the fake has none";
}

static const char *device_reason(int32_t device)
{
    (void)device;
    return "";
}

static int device_rank(int32_t device)
{
    return ranks[device] == '-' ? CKV_RANK_NEVER : ranks[device] == 'x' ? 0 : ranks[device] - '0';
}

static ckv_status open_device(ckv_context *context)
{
    if (ranks[context->device] == 'x')
        return ckv_fail(CKV_ERROR_UNAVAILABLE, "fake device %d does not open", (int)context->device);
    context->backend_state = ckv_context_allocate(context, 100, "context");
    return context->backend_state == NULL ? CKV_ERROR_NO_MEMORY : CKV_OK;
}

static void close_device(ckv_context *context)
{
    ckv_context_release(context, (void *)(uintptr_t)context->backend_state);
}

static const ckv_backend *start_fake(const ckv_core *core, char *reason, size_t size)
{
    if (strcmp(wrong, "refuses") == 0)
        snprintf(reason, size, "the fake will not start");
    if (strncmp(wrong, "refuses", 7) == 0)
        return NULL;
    if (!ckv_forward_to(core)) {
        snprintf(reason, size, "another core");
        return NULL;
    }
    return &table;
}

CKV_API extern ckv_module ckv_module_entry;
ckv_module ckv_module_entry = {
    .abi = CKV_MODULE_ABI, .version = CKV_VERSION_TEXT, .sizes = CKV_MODULE_SIZES, .name = name, .start = start_fake};

static void copy(char *to, size_t size, const char *variable)
{
    if (getenv(variable) != NULL)
        snprintf(to, size, "%s", getenv(variable));
}

static void note(void)
{
    const char *path = getenv("FAKE_LOG");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    Dl_info here;
    if (file == NULL)
        return;
    if (dladdr(&table, &here) != 0)
        fprintf(file, "%s\n", here.dli_fname);
    fclose(file);
}

__attribute__((constructor)) static void loaded(void)
{
    note();
    copy(name, sizeof name, "FAKE_NAME");
    copy(ranks, sizeof ranks, "FAKE_RANKS");
    copy(wrong, sizeof wrong, "FAKE_MODULE");
    table = ckv_backend_ref;
    table.name = name;
    table.device_count = device_count;
    table.absence = absence;
    table.device_name = device_name;
    table.context_device_name = context_device_name;
    table.context_variant = context_variant;
    table.device_reason = device_reason;
    table.device_rank = device_rank;
    table.open_device = open_device;
    table.close_device = close_device;
    if (strcmp(wrong, "abi") == 0) {
        ckv_module_entry.abi += 1;
        ckv_module_entry.version = "9.8.7";
        ckv_module_entry.start = NULL; /* what follows the first two fields means nothing then */
        ckv_module_entry.name = (const char *)1;
    }
    if (strcmp(wrong, "sizes") == 0)
        ckv_module_entry.sizes.plan += 8;
    if (strcmp(wrong, "unnamed") == 0)
        ckv_module_entry.name = NULL;
    if (strcmp(wrong, "misnamed") == 0)
        ckv_module_entry.name = "other";
    if (strcmp(wrong, "no start") == 0)
        ckv_module_entry.start = NULL;
    if (strcmp(wrong, "table unnamed") == 0)
        table.name = NULL;
    if (strcmp(wrong, "table misnamed") == 0)
        table.name = "cpu";
    if (strcmp(wrong, "no device_count") == 0)
        table.device_count = NULL;
    if (strcmp(wrong, "no workspace_size") == 0)
        table.workspace_size = NULL;
    if (strcmp(wrong, "no evict") == 0)
        table.evict = NULL;
    if (strcmp(wrong, "no tunables") == 0)
        table.tunable_count = 1;
    if (strcmp(wrong, "too many tunables") == 0)
        table.tunable_count = CKV_TUNABLES_MAX + 1;
    if (strcmp(wrong, "no stage of a device") == 0) {
        static ckv_device_stages stages;
        table.device = &stages;
    }
}
