/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters that change the speed of a result and never a bit of it.
 *
 * A backend declares its tunables as data, in its table.  Their values are settled once:
 * those of a context when it is created, those of a projection and of a plan likewise,
 * each by the first of these that knows one: the caller's override, the environment, tuning
 * files (tuning_store.h), the backend's own model of the device.  Run calls only read them.
 */
#ifndef CKV_LIB_TUNING_H
#define CKV_LIB_TUNING_H

#include <ckv/ckv.h>

struct ckv_backend;

#define CKV_TUNABLES_MAX 16

/* What a best value can depend on, beside the device; what is not known yet is 0. */
typedef struct ckv_problem {
    int64_t tokens, window, budget;
    int32_t query_heads, kv_heads, head_dim, value_dim, hidden;
} ckv_problem;

/* What a value is settled with, and holds for. */
typedef enum ckv_tuning_scope {
    CKV_TUNE_CONTEXT = CKV_SCOPE_CONTEXT,
    CKV_TUNE_PROJECTION = CKV_SCOPE_PROJECTION,
    CKV_TUNE_PLAN = CKV_SCOPE_PLAN
} ckv_tuning_scope;

typedef struct ckv_tunable {
    const char *stage;   /* whose time it changes: "score", "norm", "select", "compact", "evict", "all" */
    const char *name;    /* unique within the backend: [a-z0-9_]+ */
    const char *meaning; /* one line, with its unit */
    ckv_tuning_scope scope;
    const int32_t *values;     /* all there are, ascending */
    const char *const *labels; /* their names, or NULL where numbers say it all */
    int32_t count;
} ckv_tunable;

/* One value for each tunable of the backend, and who said so (CKV_SOURCE_*). */
typedef struct ckv_parameters {
    int32_t value[CKV_TUNABLES_MAX];
    uint8_t source[CKV_TUNABLES_MAX];
} ckv_parameters;

/* Reads `overrides` ("name=value,name=label", or NULL) and the environment's
 * CKV_PARAMETERS ("name=value" or "backend.name=value") into context->given, after the
 * backend was chosen: a name or a value that the backend has not is an error. */
ckv_status ckv_tuning_read(ckv_context *context, const char *overrides);

/* Settles the tunables of one scope; those of others are left alone. */
void ckv_tuning_settle(const ckv_context *context, ckv_tuning_scope scope, const ckv_problem *problem,
                       ckv_parameters *parameters);

/* 1: `value` is one of the tunable's, and the context's device can run it. */
int ckv_tuning_allows(const ckv_context *context, int32_t index, int32_t value);

#endif
