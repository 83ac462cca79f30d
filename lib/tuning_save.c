/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of tuning files, and entries made of plans. */
#define _POSIX_C_SOURCE 200809L
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "status.h"
#include "tuning_store.h"

ckv_status ckv_tuning_status(const ckv_context *context, ckv_tuning_info *info)
{
    ckv_tuning_info known = {.struct_size = sizeof known};
    const ckv_tuning_store *s;
    if (context == NULL)
        return ckv_fail_null("context");
    s = context->tuning;
    known.device = s->device;
    known.path = s->path;
    known.shipped = s->shipped;
    known.accepted = s->count;
    known.foreign = s->foreign;
    known.skipped = s->skipped;
    known.trouble = s->trouble;
    known.reason = s->reason;
    return ckv_struct_write(info, &known, sizeof known, offsetof(ckv_tuning_info, reason) + sizeof known.reason,
                            "info");
}

static void set_date(ckv_tuning_entry *entry)
{
    struct tm parts;
    time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL || strftime(entry->date, sizeof entry->date, "%Y-%m-%d", &parts) == 0)
        entry->date[0] = '\0';
}

static void add_value(const ckv_plan *plan, int32_t index, ckv_tuning_entry *entry)
{
    const ckv_tunable *tunable = &plan->backend->tunables[index];
    ckv_tuning_value *value = &entry->values[entry->count++];
    snprintf(value->name, sizeof value->name, "%s", tunable->name);
    value->number = plan->parameters.value[index];
    for (int32_t i = 0; tunable->labels != NULL && i < tunable->count; i++)
        if (tunable->values[i] == value->number)
            snprintf(value->label, sizeof value->label, "%s", tunable->labels[i]);
}

/* 0: the backend has no such tunable. */
static int make_entry(const ckv_plan *plan, const char *stage, ckv_tuning_scope scope, ckv_tuning_entry *entry)
{
    const ckv_problem problem = {plan->tokens,   plan->window,   plan->budget,    plan->query_heads,
                                 plan->kv_heads, plan->head_dim, plan->value_dim, plan->hidden};
    *entry = plan->context->tuning->self;
    entry->scope = scope;
    snprintf(entry->stage, sizeof entry->stage, "%s", stage);
    ckv_bucket_of(&problem, stage, scope, &entry->bucket);
    set_date(entry);
    for (int32_t i = 0; i < plan->backend->tunable_count; i++)
        if (plan->backend->tunables[i].scope == scope && strcmp(plan->backend->tunables[i].stage, stage) == 0)
            add_value(plan, i, entry);
    return entry->count > 0;
}

static ckv_status check_seconds(const char *name, double seconds)
{
    if (seconds >= 0 && seconds <= 1e6) /* nor NaN */
        return CKV_OK;
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: %g, wanted 0 to 10^6", name, seconds);
}

static ckv_status no_file(const ckv_context *context, const char *reason)
{
    if (context->tuning->path[0] == '\0')
        return ckv_fail(CKV_ERROR_UNAVAILABLE, "tuning file: %s", context->tuning->reason);
    return ckv_fail(CKV_ERROR_UNAVAILABLE, "tuning file %.300s: %s", context->tuning->path, reason);
}

ckv_status ckv_tuning_check(const ckv_context *context)
{
    ckv_tuning_report report = {0};
    if (context == NULL)
        return ckv_fail_null("context");
    if (context->tuning->path[0] == '\0' || !ckv_tuning_file_check(context->tuning->path, &report))
        return no_file(context, report.reason);
    return CKV_OK;
}

ckv_status ckv_tuning_save(const ckv_plan *plan, const char *stage, double seconds, double model_seconds)
{
    ckv_tuning_entry entries[3];
    ckv_tuning_report report = {0};
    int32_t count = 0;
    ckv_status status;
    if (plan == NULL)
        return ckv_fail_null("plan");
    if (stage == NULL)
        return ckv_fail_null("stage");
    status = check_seconds("seconds", seconds);
    if (status == CKV_OK)
        status = check_seconds("model_seconds", model_seconds);
    if (status != CKV_OK)
        return status;
    for (ckv_tuning_scope scope = CKV_TUNE_CONTEXT; scope <= CKV_TUNE_PLAN; scope++) {
        if (!make_entry(plan, stage, scope, &entries[count]))
            continue;
        entries[count].time_ns = (int64_t)(seconds * 1e9 + 0.5);
        entries[count].default_ns = (int64_t)(model_seconds * 1e9 + 0.5);
        count++;
    }
    if (count == 0)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "stage: '%.40s': backend '%s' has nothing to tune there", stage,
                        plan->backend->name);
    if (plan->context->tuning->path[0] == '\0' ||
        !ckv_tuning_file_write(plan->context->tuning->path, entries, count, NULL, &report))
        return no_file(plan->context, report.reason);
    return CKV_OK;
}
