/* SPDX-License-Identifier: Apache-2.0 */
/* The report of ckv verify as one JSON document. */
#include "message.h"
#include "signals.h"
#include "verify_report.h"

#include <jansson.h>

static json_t *whole(uint64_t number)
{
    return json_integer((json_int_t)number);
}

static json_t *device(const char *number)
{
    return number[0] == '\0' ? json_null() : json_string(number);
}

static json_t *target_object(const struct verify_target *target)
{
    json_t *object = json_object(), *stages = json_array();

    json_object_set_new(object, "backend", json_string(target->backend));
    json_object_set_new(object, "device", device(target->device));
    json_object_set_new(object, "name", json_string(target->name));
    json_object_set_new(object, "variant", target->variant[0] == '\0' ? json_null() : json_string(target->variant));
    json_object_set_new(object, "left_out", whole(target->left_out));
    json_object_set_new(object, "seconds", json_real(target->seconds));
    json_object_set_new(object, "stages", stages);
    for (int stage = 0; stage < VERIFY_STAGES; stage++) {
        const struct verify_count *count = &target->count[stage];
        json_t *row;

        if ((target->stages & 1u << stage) == 0)
            continue;
        row = json_object();
        json_object_set_new(row, "stage", json_string(verify_stages[stage]));
        json_object_set_new(row, "problems", whole(count->problems));
        json_object_set_new(row, "bits", whole(count->bits));
        json_object_set_new(row, "mismatches", whole(count->differences));
        json_object_set_new(row, "errors", whole(count->errors));
        json_array_append_new(stages, row);
    }
    return object;
}

static json_t *skip_object(const struct verify_skip *skip)
{
    json_t *object = json_object();

    json_object_set_new(object, "backend", json_string(skip->backend));
    json_object_set_new(object, "device", device(skip->device));
    json_object_set_new(object, "variant", skip->variant[0] == '\0' ? json_null() : json_string(skip->variant));
    json_object_set_new(object, "reason", json_string(skip->reason));
    return object;
}

static json_t *difference_object(const struct verify_gate *gate)
{
    static const char *const axes[VERIFY_AXES] = {"kv_heads", "group",     "tokens", "queries",
                                                  "head_dim", "value_dim", "hidden"};
    json_t *object, *problem;
    char command[VERIFY_COMMAND];

    if (gate->culprit == NULL)
        return json_null();
    verify_report_command(gate, command);
    object = json_object();
    problem = json_object();
    json_object_set_new(object, "backend", json_string(gate->culprit->backend));
    json_object_set_new(object, "device", device(gate->culprit->device));
    json_object_set_new(object, "variant", json_string(gate->culprit->variant));
    json_object_set_new(object, "stage", json_string(verify_stages[gate->found.stage]));
    json_object_set_new(object, "error", json_boolean(gate->failed));
    json_object_set_new(object, "what", json_string(gate->found.difference));
    json_object_set_new(object, "number", whole(gate->number));
    json_object_set_new(object, "tries", json_integer(gate->tries));
    json_object_set_new(object, "problem", problem);
    for (int axis = 0; axis < VERIFY_AXES; axis++)
        json_object_set_new(problem, axes[axis], json_integer(gate->problem.axis[axis]));
    json_object_set_new(object, "file", gate->path[0] == '\0' ? json_null() : json_string(gate->path));
    json_object_set_new(object, "replay", command[0] == '\0' ? json_null() : json_string(command));
    return object;
}

static json_t *digest_object(const struct verify_gate *gate)
{
    json_t *object;
    char text[VERIFY_DIGEST];

    if (gate->digest == NULL || gate->culprit != NULL || gate->broken)
        return json_null();
    verify_digest_text(gate->digest, text);
    object = json_object();
    json_object_set_new(object, "hash", json_string("xxh128"));
    json_object_set_new(object, "value", json_string(text));
    json_object_set_new(object, "recipe", json_integer(VERIFY_RECIPE));
    return object;
}

bool verify_report_json(const struct verify_gate *gate)
{
    json_t *object = json_object(), *targets = json_array(), *skipped = json_array();
    struct verify_total total = verify_report_total(gate);
    bool good;

    json_object_set_new(object, "version", json_string(ckv_version()));
    json_object_set_new(object, "seed", whole(gate->options.seed));
    json_object_set_new(object, "problems", whole(gate->problems));
    json_object_set_new(object, "seconds", json_real(gate->seconds));
    json_object_set_new(object, "interrupted",
                        gate->signal == 0 ? json_null() : json_string(signals_name(gate->signal)));
    json_object_set_new(object, "bits", whole(total.bits));
    json_object_set_new(object, "mismatches", whole(total.differences));
    json_object_set_new(object, "errors", whole(total.errors));
    json_object_set_new(object, "digest", digest_object(gate));
    json_object_set_new(object, "targets", targets);
    json_object_set_new(object, "skipped", skipped);
    json_object_set_new(object, "difference", difference_object(gate));
    for (size_t i = 0; i < gate->all.count; i++)
        json_array_append_new(targets, target_object(&gate->all.targets[i]));
    for (size_t i = 0; i < gate->all.skip_count; i++)
        json_array_append_new(skipped, skip_object(&gate->all.skips[i]));
    good = json_dumpf(object, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    if (!good)
        message_error("JSON report: cannot be written");
    json_decref(object);
    return good;
}
