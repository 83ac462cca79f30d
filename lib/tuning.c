/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides read, parameters settled, and their queries. */
#include "tuning.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "context.h"
#include "status.h"
#include "tuning_store.h"

static int value_index(const ckv_tunable *tunable, int32_t value)
{
    for (int32_t i = 0; i < tunable->count; i++)
        if (tunable->values[i] == value)
            return i;
    return -1;
}

int ckv_tuning_allows(const ckv_context *context, int32_t index, int32_t value)
{
    const ckv_backend *backend = context->backend;
    return value_index(&backend->tunables[index], value) >= 0 &&
           (backend->tunable_allowed == NULL || backend->tunable_allowed(context, index, value));
}

void ckv_tuning_settle(const ckv_context *context, ckv_tuning_scope scope, const ckv_problem *problem,
                       ckv_parameters *parameters)
{
    const ckv_backend *backend = context->backend;
    const ckv_tuned *found[CKV_TUNABLES_MAX] = {NULL};
    uint8_t sources[CKV_TUNABLES_MAX] = {0};
    for (int32_t i = 0; i < backend->tunable_count; i++) {
        int32_t first = 0;
        if (backend->tunables[i].scope != scope)
            continue;
        while (backend->tunables[first].scope != scope ||
               strcmp(backend->tunables[first].stage, backend->tunables[i].stage) != 0)
            first++;
        if (first == i) /* one entry for all of a stage */
            found[i] = ckv_tuning_find(context->tuning, backend->tunables[i].stage, scope, problem, &sources[i]);
        parameters->value[i] = context->given.value[i];
        parameters->source[i] = context->given.source[i];
        if (parameters->source[i] != 0)
            continue;
        if (found[first] != NULL) {
            parameters->value[i] = found[first]->value[i];
            parameters->source[i] = sources[first];
        } else {
            parameters->value[i] = backend->tunable_model(context, problem, i);
            parameters->source[i] = CKV_SOURCE_MODEL;
        }
    }
}

/* ------------------------------------------------------------------ overrides */

/* One "name=value", `length` bytes, not terminated. */
typedef struct setting {
    const char *text, *name, *value;
    size_t length, name_length, value_length;
} setting;

static int equals(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static ckv_status split(const char *text, size_t length, const char *from, setting *s)
{
    const char *equal = memchr(text, '=', length);
    if (equal == NULL || equal == text || equal + 1 == text + length)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: '%.*s', wanted NAME=VALUE", from, (int)length, text);
    *s = (setting){text, text, equal + 1, length, (size_t)(equal - text), length - (size_t)(equal + 1 - text)};
    return CKV_OK;
}

/* "backend.name": 0 if it is of another backend, else the prefix is taken off. */
static int is_of(const ckv_backend *backend, setting *s)
{
    const char *dot = memchr(s->name, '.', s->name_length);
    int own;
    if (dot == NULL)
        return 1;
    own = equals(s->name, (size_t)(dot - s->name), backend->name);
    s->name_length -= (size_t)(dot + 1 - s->name);
    s->name = dot + 1;
    return own;
}

/* The environment speaks to every context of the process: what is not of this backend may be
 * of another, and where this one has nothing to tune, it surely is. */
static int may_be_of_another(const ckv_backend *backend, uint8_t source)
{
    return source == CKV_SOURCE_ENVIRONMENT && backend->tunable_count == 0;
}

static ckv_status unknown_name(const ckv_backend *backend, const setting *s, const char *from)
{
    char list[300] = "";
    size_t used = 0;
    for (int32_t i = 0; i < backend->tunable_count && used < sizeof list; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ", backend->tunables[i].name);
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: '%.*s': backend '%s' has no such parameter, wanted one of: %s",
                    from, (int)s->length, s->text, backend->name, backend->tunable_count == 0 ? "(it has none)" : list);
}

static ckv_status unknown_value(const ckv_context *context, int32_t index, const setting *s, const char *from)
{
    const ckv_tunable *tunable = &context->backend->tunables[index];
    char list[300] = "";
    size_t used = 0;
    for (int32_t i = 0; i < tunable->count && used < sizeof list; i++) {
        const char *comma = used == 0 ? "" : ", ";
        if (!ckv_tuning_allows(context, index, tunable->values[i]))
            continue;
        if (tunable->labels != NULL)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", comma, tunable->labels[i]);
        else
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", comma, (int)tunable->values[i]);
    }
    return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "%s: '%.*s': this device takes no such value, wanted one of: %s", from,
                    (int)s->length, s->text, list);
}

static int parse_value(const ckv_tunable *tunable, const setting *s, int32_t *value)
{
    char text[16], *end;
    long number;
    for (int32_t i = 0; tunable->labels != NULL && i < tunable->count; i++)
        if (equals(s->value, s->value_length, tunable->labels[i])) {
            *value = tunable->values[i];
            return 1;
        }
    if (tunable->labels != NULL || s->value_length >= sizeof text || s->value[0] < '0' || s->value[0] > '9')
        return 0;
    memcpy(text, s->value, s->value_length);
    text[s->value_length] = '\0';
    number = strtol(text, &end, 10);
    *value = (int32_t)number;
    return *end == '\0' && number <= INT32_MAX;
}

static ckv_status take(ckv_context *context, setting *s, const char *from, uint8_t source)
{
    const ckv_backend *backend = context->backend;
    int32_t value = 0;
    if (!is_of(backend, s))
        return CKV_OK;
    for (int32_t i = 0; i < backend->tunable_count; i++) {
        if (!equals(s->name, s->name_length, backend->tunables[i].name))
            continue;
        if (!parse_value(&backend->tunables[i], s, &value) || !ckv_tuning_allows(context, i, value))
            return unknown_value(context, i, s, from);
        if (context->given.source[i] == 0 || context->given.source[i] >= source) {
            context->given.value[i] = value;
            context->given.source[i] = source;
        }
        return CKV_OK;
    }
    return may_be_of_another(backend, source) ? CKV_OK : unknown_name(backend, s, from);
}

static ckv_status read_list(ckv_context *context, const char *list, const char *from, uint8_t source)
{
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");
        setting s = {0};
        ckv_status status = split(list, length, from, &s);
        if (status == CKV_OK)
            status = take(context, &s, from, source);
        if (status != CKV_OK)
            return status;
        list += length;
        list += *list == ',';
    }
    return CKV_OK;
}

ckv_status ckv_tuning_read(ckv_context *context, const char *overrides)
{
    ckv_status status = read_list(context, overrides, "options: parameters", CKV_SOURCE_OVERRIDE);
    if (status == CKV_OK)
        status = read_list(context, getenv("CKV_PARAMETERS"), "CKV_PARAMETERS", CKV_SOURCE_ENVIRONMENT);
    return status;
}

/* ------------------------------------------------------------------ queries */

int32_t ckv_tunable_count(const ckv_context *context)
{
    return context == NULL ? 0 : context->backend->tunable_count;
}

static ckv_status check_index(const ckv_context *context, int32_t index)
{
    if (index < 0 || index >= context->backend->tunable_count)
        return ckv_fail(CKV_ERROR_INVALID_ARGUMENT, "index: %d, wanted 0 to %d", (int)index,
                        (int)context->backend->tunable_count - 1);
    return CKV_OK;
}

ckv_status ckv_tunable_query(const ckv_context *context, int32_t index, ckv_tunable_info *info)
{
    ckv_tunable_info known = {.struct_size = sizeof known};
    const ckv_tunable *tunable;
    ckv_status status;
    if (context == NULL)
        return ckv_fail_null("context");
    status = check_index(context, index);
    if (status != CKV_OK)
        return status;
    tunable = &context->backend->tunables[index];
    known.stage = tunable->stage;
    known.name = tunable->name;
    known.meaning = tunable->meaning;
    known.count = tunable->count;
    known.values = tunable->values;
    known.labels = tunable->labels;
    known.scope = (int32_t)tunable->scope;
    return ckv_struct_write(info, &known, sizeof known, offsetof(ckv_tunable_info, labels) + sizeof known.labels,
                            "info");
}

int32_t ckv_tunable_allows(const ckv_context *context, int32_t index, int32_t value)
{
    return context != NULL && index >= 0 && index < context->backend->tunable_count &&
           ckv_tuning_allows(context, index, value);
}

ckv_status ckv_plan_parameter(const ckv_plan *plan, int32_t index, ckv_parameter *parameter)
{
    ckv_parameter known = {.struct_size = sizeof known};
    ckv_status status;
    if (plan == NULL)
        return ckv_fail_null("plan");
    status = check_index(plan->context, index);
    if (status != CKV_OK)
        return status;
    known.value = plan->parameters.value[index];
    known.source = plan->parameters.source[index];
    return ckv_struct_write(parameter, &known, sizeof known, offsetof(ckv_parameter, source) + sizeof known.source,
                            "parameter");
}

const char *ckv_source_string(int32_t source)
{
    static const char *const names[] = {"none",   "override",     "environment", "user file", "shipped file",
                                        "device", "architecture", "vendor",      "model"};
    return source >= 0 && source < (int32_t)(sizeof names / sizeof names[0]) ? names[source] : "unknown";
}
