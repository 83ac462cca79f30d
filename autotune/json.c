/* SPDX-License-Identifier: Apache-2.0 */
/* What ckv tune shows, as one document of JSON. */
#include "tools/message.h"
#include "tune.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define RANKS_MOST 64 /* of a dry run */

static json_t *text_or_null(const char *text)
{
    return text == NULL || text[0] == '\0' ? json_null() : json_string(text);
}

/* {"norm_block": 96, "isa": "avx2"} */
static json_t *values_of(const struct space *space, const struct group *group, const struct candidate *candidate)
{
    json_t *object = json_object();

    for (int32_t i = 0; i < group->count; i++) {
        const struct tunable *t = &space->tunables[group->members[i]];
        int32_t value = candidate->value[group->members[i]];

        for (int32_t k = 0; k < t->count; k++) {
            char number[SPACE_LABEL];

            if (t->values[k] != value)
                continue;
            snprintf(number, sizeof number, "%d", (int)value);
            json_object_set_new(object, t->name,
                                strcmp(number, t->labels[k]) == 0 ? json_integer(value) : json_string(t->labels[k]));
        }
    }
    return object;
}

static json_t *problem_of(const struct problem *p)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I}", "shape", p->shape.name, "query_heads",
                     (int)p->shape.query_heads, "kv_heads", (int)p->shape.kv_heads, "head_dim", (int)p->shape.head_dim,
                     "value_dim", (int)p->shape.value_dim, "hidden", (int)p->shape.hidden, "tokens",
                     (json_int_t)p->tokens, "window", (json_int_t)p->info.window, "budget", (json_int_t)p->info.budget);
}

static json_t *space_of(const struct space *space)
{
    json_t *list = json_array();

    for (int32_t i = 0; i < space->count; i++) {
        const struct tunable *t = &space->tunables[i];
        json_t *values = json_array();
        const char *fallback = "";

        for (int32_t k = 0; k < t->count; k++) {
            json_array_append_new(values, json_string(t->labels[k]));
            fallback = t->values[k] == space->fallback.value[i] ? t->labels[k] : fallback;
        }
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:b}", "name", t->name, "stage", t->stage,
                                              "scope", space_scope(t->scope), "meaning", t->meaning, "values", values,
                                              "default", fallback, "held", t->held ? 1 : 0));
    }
    return list;
}

static json_t *ranks_of(const struct item *item)
{
    struct candidate ranked[RANKS_MOST];
    struct remote remote = {.plan = item->problem->plan};
    struct trials trials = remote_trials(&remote);
    struct search search = {
        .space = &item->problem->space, .group = &item->group, .base = item->base, .trials = &trials};
    size_t count = search_rank(&search, ranked, RANKS_MOST);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        double seconds = trials.estimate(trials.self, &item->group, &ranked[i]);

        json_array_append_new(list, json_pack("{s:o, s:o}", "values", values_of(search.space, &item->group, &ranked[i]),
                                              "model_seconds", seconds > 0 ? json_real(seconds) : json_null()));
    }
    return list;
}

static json_t *rejected_of(const struct item *item)
{
    json_t *list = json_array();

    for (const struct rejected *r = item->found.rejected; r != NULL; r = r->next)
        json_array_append_new(list, json_pack("{s:o, s:s}", "values",
                                              values_of(&item->problem->space, &item->group, &r->candidate), "reason",
                                              r->reason));
    return list;
}

static json_t *exhaustive_of(const struct item *item)
{
    const struct found *f = &item->found;

    if (!f->exhaustive)
        return json_null();
    return json_pack("{s:o, s:f, s:o, s:f, s:f}", "searched",
                     values_of(&item->problem->space, &item->group, &f->searched), "searched_seconds",
                     f->searched_seconds, "best", values_of(&item->problem->space, &item->group, &f->best),
                     "best_seconds", f->best_seconds, "searched_to_best", f->best_ratio);
}

static json_t *result_of(const struct tune *tune, const struct item *item)
{
    static const char *const endings[] = {"done", "budget", "stopped", "model", "default failed"};
    const struct found *f = &item->found;
    const struct space *space = &item->problem->space;
    double floor = tune_floor(tune, item);
    json_t *object = json_object();

    json_object_set_new(object, "stage", json_string(item->group.stage));
    json_object_set_new(object, "scope", json_string(space_scope(item->group.scope)));
    json_object_set_new(object, "measured", json_string(item->group.measured));
    json_object_set_new(object, "problem", problem_of(item->problem));
    json_object_set_new(object, "candidates", json_real(item->group.size));
    if (!item->ran) {
        json_object_set_new(object, "ranking", ranks_of(item));
        return object;
    }
    json_object_set_new(object, "timed_tokens", json_integer(item->timed));
    json_object_set_new(object, "default", values_of(space, &item->group, &item->base));
    json_object_set_new(object, "values", values_of(space, &item->group, &f->chosen));
    json_object_set_new(object, "changed", json_boolean(f->changed));
    json_object_set_new(object, "default_seconds", f->measured ? json_real(f->default_seconds) : json_null());
    json_object_set_new(object, "seconds", f->measured ? json_real(f->chosen_seconds) : json_null());
    json_object_set_new(object, "ratio", f->measured ? json_real(f->ratio) : json_null());
    json_object_set_new(object, "limit_share",
                        f->measured && floor > 0 ? json_real(floor / f->chosen_seconds) : json_null());
    json_object_set_new(object, "tried", json_integer(f->timed));
    json_object_set_new(object, "ending", json_string(endings[f->ending]));
    json_object_set_new(object, "rejected", rejected_of(item));
    json_object_set_new(object, "exhaustive", exhaustive_of(item));
    json_object_set_new(object, "saved", json_boolean(item->saved));
    json_object_set_new(object, "unsaved", text_or_null(item->unsaved));
    return object;
}

bool tune_json(const struct tune *tune)
{
    json_t *object = json_object(), *results = json_array();
    bool good;

    json_object_set_new(object, "version", json_string(ckv_version()));
    json_object_set_new(object, "backend", json_string(tune->backend));
    json_object_set_new(object, "device", json_string(tune->device_name));
    json_object_set_new(object, "threads", json_integer(tune->options.run.threads));
    json_object_set_new(object, "budget", json_real(tune->options.budget));
    json_object_set_new(object, "seconds", json_real(tune->seconds));
    json_object_set_new(object, "dry_run", json_boolean(tune->options.dry_run));
    json_object_set_new(object, "stopped", json_boolean(tune->stopped));
    json_object_set_new(object, "file", text_or_null(tune->path));
    json_object_set_new(object, "space", space_of(&tune->problems[0].space));
    json_object_set_new(object, "results", results);
    for (size_t i = 0; i < tune->item_count; i++)
        if (tune->items[i].ran || tune->options.dry_run)
            json_array_append_new(results, result_of(tune, &tune->items[i]));
    good = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && putchar('\n') != EOF;
    json_decref(object);
    if (!good)
        message_error("JSON report: cannot be written");
    return good;
}
