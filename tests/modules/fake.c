/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module that computes as the reference does, and fails as it is told to:
 *   FAKE_NAME     of module and backend, "fake" if not set
 *   FAKE_MODULE   what is wrong with it: one of the words below; "no MEMBER" of the table, "device" with
 *                 a table of stages for device memory, "device no MEMBER" of that
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

/* ---------------------------------------------------------------- tables with holes */

static void dummy(void)
{
}

static ckv_device_stages stages;

static const int32_t values[] = {1, 2};
static const char *labels[] = {"one", "two"};
static ckv_tunable tunable = {"norm", "speed", "nothing at all", CKV_TUNE_PLAN, values, labels, 2};

static int32_t tunable_model(const ckv_context *context, const ckv_problem *problem, int32_t index)
{
    (void)context;
    (void)problem;
    (void)index;
    return 1;
}

typedef struct member {
    const char *name;
    size_t offset;
} member;

#define OF(type, name)                                                                                                 \
    {                                                                                                                  \
#name, offsetof(type, name)                                                                                    \
    }
static const member backend_members[] = {
    OF(ckv_backend, name),
    OF(ckv_backend, device_count),
    OF(ckv_backend, absence),
    OF(ckv_backend, device_name),
    OF(ckv_backend, context_device_name),
    OF(ckv_backend, context_variant),
    OF(ckv_backend, device_reason),
    OF(ckv_backend, device_rank),
    OF(ckv_backend, refusal),
    OF(ckv_backend, open_device),
    OF(ckv_backend, close_device),
    OF(ckv_backend, identify),
    OF(ckv_backend, tunable_allowed),
    OF(ckv_backend, apply_parameters),
    OF(ckv_backend, estimate),
    OF(ckv_backend, workspace_size),
    OF(ckv_backend, score),
    OF(ckv_backend, norm),
    OF(ckv_backend, select),
    OF(ckv_backend, compact),
    OF(ckv_backend, evict),
};
static const member stage_members[] = {
    OF(ckv_device_stages, score),
    OF(ckv_device_stages, norm),
    OF(ckv_device_stages, select),
    OF(ckv_device_stages, compact),
    OF(ckv_device_stages, evict),
    OF(ckv_device_stages, open_projection),
    OF(ckv_device_stages, close_projection),
    OF(ckv_device_stages, measure),
};
static const member tunable_members[] = {
    OF(ckv_tunable, stage),  OF(ckv_tunable, name),   OF(ckv_tunable, meaning),
    OF(ckv_tunable, values), OF(ckv_tunable, labels),
};

/* Every function of the table is there, but for the one that is to be missing. */
static void fill_stages(void)
{
    void (*function)(void) = dummy;
    for (size_t i = 0; i < sizeof stage_members / sizeof stage_members[0]; i++)
        memcpy((char *)&stages + stage_members[i].offset, &function, sizeof function);
}

static void take_out(void *from, const member *members, size_t count, const char *prefix)
{
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < count; i++)
        if (strncmp(wrong, prefix, length) == 0 && strcmp(wrong + length, members[i].name) == 0)
            memset((char *)from + members[i].offset, 0, sizeof(void *));
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
    take_out(&table, backend_members, sizeof backend_members / sizeof backend_members[0], "no ");
    if (strncmp(wrong, "device", 6) == 0) {
        fill_stages();
        table.device = &stages;
        take_out(&stages, stage_members, sizeof stage_members / sizeof stage_members[0], "device no ");
    }
    if (strcmp(wrong, "no tunables") == 0)
        table.tunable_count = 1;
    if (strncmp(wrong, "tunable ", 8) == 0) {
        table.tunable_count = 1;
        table.tunables = &tunable;
        table.tunable_model = tunable_model;
        take_out(&tunable, tunable_members, sizeof tunable_members / sizeof tunable_members[0], "tunable no ");
        if (strcmp(wrong, "tunable no count") == 0)
            tunable.count = 0;
        if (strcmp(wrong, "tunable no label") == 0)
            labels[1] = NULL;
    }
    if (strcmp(wrong, "too many tunables") == 0)
        table.tunable_count = CKV_TUNABLES_MAX + 1;
}
