/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows, as JSON: the table's content unrounded, and what scripts need besides. */
#include "report.h"

#include "message.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Out of memory, jansson hands out NULL, which no object or array takes: it is
 * enough to look for that where values are put in. */
static bool complete;

static void put(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, value) != 0)
        complete = false;
}

static json_t *integer_or_null(bool is_there, int64_t value)
{
    return is_there ? json_integer(value) : json_null();
}

/* JSON is UTF-8, paths are any bytes: where they differ, '?' stands for them. */
static json_t *string_or_null(const char *text)
{
    json_t *result;
    char *copy;

    if (text == NULL || text[0] == '\0')
        return json_null();
    result = json_string(text);
    copy = result == NULL ? strdup(text) : NULL;
    if (copy != NULL) {
        for (char *at = copy; *at != '\0'; at++)
            *at = (unsigned char)*at < 0x80 ? *at : '?';
        result = json_string(copy);
        free(copy);
    }
    return result;
}

static json_t *share(int64_t part, int64_t whole)
{
    return json_real(whole == 0 ? 0 : (double)part / (double)whole);
}

static json_t *policy_object(const ckv_policy *policy)
{
    json_t *object = json_object();
    struct policy_text words;

    options_policy_text(policy, &words);
    put(object, "keep", string_or_null(words.keep_ratio));
    put(object, "budget", integer_or_null(policy->budget >= 0, policy->budget));
    put(object, "alpha", json_string(words.alpha_ratio));
    put(object, "epsilon", json_string(words.epsilon));
    put(object, "window", json_integer(policy->window));
    put(object, "recent", policy->recent < 0 ? json_string(words.recent) : json_integer(policy->recent));
    put(object, "sinks", json_integer(policy->sinks));
    put(object, "pool", json_string(words.pool));
    put(object, "budgets", json_string("uniform"));
    put(object, "norm", json_string("l1"));
    put(object, "skip", json_boolean(policy->skip != 0));
    return object;
}

static json_t *nonfinite_array(const struct layer_report *layer)
{
    json_t *array = json_array();

    for (uint32_t flag = 1; flag != 0; flag <<= 1) {
        const char *tensor = (layer->nonfinite & flag) == 0 ? NULL : report_tensor(flag);

        if (tensor != NULL &&
            json_array_append_new(array, json_sprintf("layers.%" PRId32 ".%s", layer->number, tensor)) != 0)
            complete = false;
    }
    return array;
}

static json_t *seconds_object(const double *seconds)
{
    json_t *object = json_object();

    for (int stage = 0; stage < STAGES; stage++)
        put(object, report_stages[stage], seconds[stage] < 0 ? json_null() : json_real(seconds[stage]));
    return object;
}

static json_t *spread_object(const struct spread *spread)
{
    json_t *object = json_object();

    put(object, "mean", json_real(spread->mean));
    put(object, "min", json_real(spread->least));
    put(object, "max", json_real(spread->most));
    return object;
}

static json_t *perturbation_object(const struct perturbation *perturbation)
{
    json_t *object = json_object();

    put(object, "criticalkv", spread_object(&perturbation->criticalkv));
    put(object, "attention_only", spread_object(&perturbation->attention_only));
    put(object, "change", json_real(report_change(perturbation->criticalkv.mean, perturbation->attention_only.mean)));
    return object;
}

/* Of `ranked` rows; null where that is none. */
static void put_exact_norms(json_t *object, int64_t count, int64_t ranked)
{
    put(object, "exact_norms", integer_or_null(ranked > 0, count));
    put(object, "exact_norms_share", ranked > 0 ? share(count, ranked) : json_null());
}

static json_t *layer_object(const struct layer_report *layer, bool is_evict)
{
    json_t *object = json_object();

    put(object, "layer", json_integer(layer->number));
    if (is_evict)
        put(object, "query_heads", json_integer(layer->query_heads));
    put(object, "kv_heads", json_integer(layer->kv_heads));
    put(object, "tokens", json_integer(layer->tokens));
    if (is_evict) {
        put(object, "head_dim", json_integer(layer->head_dim));
        put(object, "value_dim", json_integer(layer->value_dim));
        put(object, "hidden", json_integer(layer->hidden));
        put(object, "scale", layer->scale == 0.0f ? json_null() : json_real((double)layer->scale));
    }
    put(object, "window", json_integer(layer->window));
    put(object, "budget", json_integer(layer->budget));
    put(object, "stage1", json_integer(layer->stage1));
    put(object, "kept", json_integer(layer->kept));
    put(object, "kept_share", share(layer->kept, layer->kv_heads * layer->tokens));
    put(object, "next_position", json_integer(layer->next_position));
    if (is_evict) {
        const struct perturbation *measured = layer->measured ? &layer->perturbation : NULL;

        put(object, "bytes_before", json_integer((json_int_t)layer->bytes_before));
        put(object, "bytes_after", json_integer((json_int_t)layer->bytes_after));
        put_exact_norms(object, layer->exact_norms, layer->exact_norms < 0 ? 0 : layer->kv_heads * layer->tokens);
        put(object, "stage1_mass", measured == NULL ? json_null() : spread_object(&measured->stage1_mass));
        put(object, "perturbation", measured == NULL ? json_null() : perturbation_object(measured));
    }
    put(object, "nonfinite", nonfinite_array(layer));
    put(object, "seconds", seconds_object(layer->seconds));
    return object;
}

static json_t *total_perturbation(const struct totals *totals)
{
    json_t *object;

    if (totals->measured == 0)
        return json_null();
    object = json_object();
    put(object, "criticalkv", json_real(totals->criticalkv));
    put(object, "attention_only", json_real(totals->attention_only));
    put(object, "change", json_real(report_change(totals->criticalkv, totals->attention_only)));
    put(object, "layers_lower", json_integer((json_int_t)totals->lower));
    put(object, "layers_equal", json_integer((json_int_t)totals->equal));
    return object;
}

static json_t *total_object(const struct report *report)
{
    json_t *object = json_object();
    struct totals totals;

    report_totals(report, &totals);
    put(object, "layers", json_integer((json_int_t)report->count));
    put(object, "kept", json_integer(totals.kept));
    put(object, "kept_share", share(totals.kept, totals.entries));
    if (report->is_evict) {
        put(object, "bytes_before", json_integer((json_int_t)totals.bytes_before));
        put(object, "bytes_after", json_integer((json_int_t)totals.bytes_after));
        put_exact_norms(object, totals.exact_norms, totals.ranked);
        put(object, "stage1_mass", totals.measured == 0 ? json_null() : json_real(totals.stage1_mass));
        put(object, "perturbation", total_perturbation(&totals));
    }
    put(object, "seconds", seconds_object(totals.seconds));
    return object;
}

bool report_json(const struct report *report, FILE *stream)
{
    const struct options *options = report->options;
    json_t *object = json_object(), *layers = json_array();
    bool finite = true, good;

    complete = true;
    for (size_t i = 0; i < report->count; i++) {
        finite = finite && report->layers[i].nonfinite == 0;
        if (json_array_append_new(layers, layer_object(&report->layers[i], report->is_evict)) != 0)
            complete = false;
    }
    put(object, "command", json_string(report->is_evict ? "evict" : "select"));
    put(object, "version", json_string(ckv_version()));
    put(object, "status", json_string(finite ? "ok" : "nonfinite"));
    put(object, "backend", json_string(report->backend));
    put(object, "device", json_string(report->device));
    put(object, "variant", json_string(report->variant));
    put(object, "input", string_or_null(options->input));
    put(object, "model", string_or_null(options->model));
    put(object, "output", string_or_null(options->output));
    put(object, "policy", policy_object(&options->policy));
    put(object, "layers", layers);
    put(object, "total", total_object(report));
    good = complete && json_dumpf(object, stream, JSON_INDENT(2)) == 0 && fputc('\n', stream) != EOF;
    if (!good)
        message_error("JSON report: %s", complete ? "cannot be written" : "out of memory");
    json_decref(object);
    return good;
}
