/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module for tests of the tuner: it computes as the reference does, and has one tunable
 * whose values are a slow default, a faster one, and such as no tuner may choose.  With
 * PLANTED=all every value dies.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/module/entry.h"
#include "lib/status.h"

enum { SLOW, FASTER, WRONG, SPINS, DIES, FAILS, KINDS };

static const int32_t values[KINDS] = {SLOW, FASTER, WRONG, SPINS, DIES, FAILS};
static const char *const labels[KINDS] = {"slow", "faster", "wrong", "spins", "dies", "fails"};
static const ckv_tunable tunables[] = {{"norm", "kind", "what it does", CKV_TUNE_PLAN, values, labels, KINDS}};

static ckv_backend table;

static int32_t model(const ckv_context *context, const ckv_problem *problem, int32_t index)
{
    (void)context;
    (void)problem;
    (void)index;
    return SLOW;
}

static void wait_ms(long milliseconds)
{
    const struct timespec wait = {0, milliseconds * 1000000};
    nanosleep(&wait, NULL);
}

static size_t workspace_size(const ckv_plan *plan)
{
    return plan->parameters.value[0] == FAILS ? 0 : ckv_backend_ref.workspace_size(plan);
}

static uint32_t norm(const ckv_plan *plan, const ckv_tensor *value, const ckv_projection *projection,
                     const ckv_tensor *out, void *workspace)
{
    uint32_t flags = ckv_backend_ref.norm(plan, value, projection, out, workspace), bits;
    const char *planted = getenv("PLANTED");
    volatile int turning = 1;
    void *last = ckv_at(out, plan->kv_heads - 1, plan->tokens - 1, 0);
    if (planted != NULL && strcmp(planted, "all") == 0)
        raise(SIGILL);
    switch (plan->parameters.value[0]) {
    case SLOW:
        wait_ms(24);
        break;
    case FASTER:
        wait_ms(12);
        break;
    case WRONG: /* the last bit of the last element, as fast as can be */
        memcpy(&bits, last, sizeof bits);
        bits ^= 1u;
        memcpy(last, &bits, sizeof bits);
        break;
    case SPINS:
        while (turning)
            ;
        break;
    default:
        raise(SIGILL);
    }
    return flags;
}

static void identify(const ckv_context *context, ckv_device_identity *identity)
{
    (void)context;
    snprintf(identity->vendor, sizeof identity->vendor, "nobody");
    snprintf(identity->name, sizeof identity->name, "planted");
    snprintf(identity->arch, sizeof identity->arch, "none");
    identity->kernels = 1;
    identity->units = 1;
}

static const ckv_backend *start_planted(const ckv_core *core, char *reason, size_t size)
{
    if (!ckv_forward_to(core)) {
        snprintf(reason, size, "another core");
        return NULL;
    }
    table = ckv_backend_ref;
    table.name = "planted";
    table.tunables = tunables;
    table.tunable_count = 1;
    table.tunable_model = model;
    table.workspace_size = workspace_size;
    table.norm = norm;
    table.identify = identify;
    return &table;
}

CKV_API extern const ckv_module ckv_module_entry;
const ckv_module ckv_module_entry = {.abi = CKV_MODULE_ABI,
                                     .version = CKV_VERSION_TEXT,
                                     .sizes = CKV_MODULE_SIZES,
                                     .name = "planted",
                                     .start = start_planted};
