/* SPDX-License-Identifier: Apache-2.0 */
/* ckv info: tunables, their values, tuning files. */
#include "info_tuning.h"

#include "message.h"

#include <stdio.h>
#include <string.h>

/* Values depend on a layer's sizes; those of an 8B model's after a long prompt. */
#define QUERY_HEADS 32
#define KV_HEADS 8
#define TOKENS 8192
#define WINDOW 32
#define HEAD_DIM 128
#define HIDDEN 4096

#define LAYER "32 query heads, 8 KV heads, 8192 tokens, head_dim 128, hidden 4096"

/* One tunable of a plan. */
struct row {
    ckv_tunable_info tunable;
    ckv_parameter parameter;
    char value[32];
};

static ckv_plan *usual_plan(const ckv_context *context)
{
    ckv_shape shape;
    ckv_plan *plan = NULL;

    ckv_shape_init(&shape);
    shape.query_heads = QUERY_HEADS;
    shape.kv_heads = KV_HEADS;
    shape.tokens = TOKENS;
    shape.queries = WINDOW;
    shape.head_dim = HEAD_DIM;
    shape.value_dim = HEAD_DIM;
    shape.hidden = HIDDEN;
    if (ckv_plan_create(context, &shape, NULL, &plan) != CKV_OK)
        message_error("%s", ckv_error_detail());
    return plan;
}

static bool read_row(const ckv_context *context, const ckv_plan *plan, int32_t index, struct row *row)
{
    memset(row, 0, sizeof *row);
    row->tunable.struct_size = sizeof row->tunable;
    row->parameter.struct_size = sizeof row->parameter;
    if (ckv_tunable_query(context, index, &row->tunable) != CKV_OK ||
        ckv_plan_parameter(plan, index, &row->parameter) != CKV_OK) {
        message_error("%s", ckv_error_detail());
        return false;
    }
    snprintf(row->value, sizeof row->value, "%d", (int)row->parameter.value);
    for (int32_t i = 0; row->tunable.labels != NULL && i < row->tunable.count; i++)
        if (row->tunable.values[i] == row->parameter.value)
            snprintf(row->value, sizeof row->value, "%s", row->tunable.labels[i]);
    return true;
}

static bool read_status(const ckv_context *context, ckv_tuning_info *info)
{
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    if (ckv_tuning_status(context, info) == CKV_OK)
        return true;
    message_error("%s", ckv_error_detail());
    return false;
}

static void print_files(const ckv_tuning_info *info)
{
    printf("\ntuning file  %s\n", info->path[0] != '\0' ? info->path : "none");
    printf("shipped      %s\n", info->shipped[0] != '\0' ? info->shipped : "none");
    if (info->device[0] != '\0')
        printf("entries for  %s\n", info->device);
    printf("entries      %d accepted, %d of other devices or versions, %d skipped\n", (int)info->accepted,
           (int)info->foreign, (int)info->skipped);
    if (info->reason[0] != '\0')
        printf("             %s\n", info->reason);
}

bool info_print_tuning(const ckv_context *context)
{
    ckv_tuning_info info;
    ckv_plan *plan;
    bool good = read_status(context, &info);

    if (good)
        print_files(&info);
    if (!good || ckv_tunable_count(context) == 0)
        return good;
    plan = usual_plan(context);
    if (plan == NULL)
        return false;
    printf("\nfor " LAYER ":\n%-8s %-16s %-12s %-13s %s\n", "stage", "parameter", "value", "from", "what");
    for (int32_t i = 0; good && i < ckv_tunable_count(context); i++) {
        struct row row;

        good = read_row(context, plan, i, &row);
        if (good)
            printf("%-8s %-16s %-12s %-13s %s\n", row.tunable.stage, row.tunable.name, row.value,
                   ckv_source_string(row.parameter.source), row.tunable.meaning);
    }
    ckv_plan_destroy(plan);
    return good;
}

/* A path need not be UTF-8, which JSON is: then its other bytes are '?'. */
static json_t *text(const char *from)
{
    json_t *string = json_string(from);
    char plain[8192];
    size_t length = strlen(from);

    if (string != NULL || length >= sizeof plain)
        return string;
    for (size_t i = 0; i <= length; i++)
        plain[i] = (unsigned char)from[i] < 0x80 ? from[i] : '?';
    return json_string(plain);
}

static json_t *row_object(const struct row *row)
{
    json_t *object = json_object();
    bool labelled = row->tunable.labels != NULL;

    json_object_set_new(object, "stage", json_string(row->tunable.stage));
    json_object_set_new(object, "name", json_string(row->tunable.name));
    json_object_set_new(object, "meaning", json_string(row->tunable.meaning));
    json_object_set_new(object, "value", labelled ? json_string(row->value) : json_integer(row->parameter.value));
    json_object_set_new(object, "source", json_string(ckv_source_string(row->parameter.source)));
    return object;
}

json_t *info_tuning_object(const ckv_context *context)
{
    json_t *object, *rows;
    ckv_tuning_info info;
    ckv_plan *plan;
    bool good = true;

    if (!read_status(context, &info))
        return NULL;
    plan = usual_plan(context);
    if (plan == NULL)
        return NULL;
    object = json_object();
    rows = json_array();
    json_object_set_new(object, "path", text(info.path));
    json_object_set_new(object, "shipped", text(info.shipped));
    json_object_set_new(object, "device", text(info.device));
    json_object_set_new(object, "accepted", json_integer(info.accepted));
    json_object_set_new(object, "foreign", json_integer(info.foreign));
    json_object_set_new(object, "skipped", json_integer(info.skipped));
    json_object_set_new(object, "trouble", json_boolean(info.trouble));
    json_object_set_new(object, "reason", text(info.reason));
    json_object_set_new(object, "layer", json_string(LAYER));
    json_object_set_new(object, "parameters", rows);
    for (int32_t i = 0; good && i < ckv_tunable_count(context); i++) {
        struct row row;

        good = read_row(context, plan, i, &row);
        if (good)
            json_array_append_new(rows, row_object(&row));
    }
    ckv_plan_destroy(plan);
    if (good)
        return object;
    json_decref(object);
    return NULL;
}
