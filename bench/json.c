/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark shows, as lines of JSON: each says what it is about in full. */
#include "show.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Out of memory, jansson hands out NULL, which no object takes; a number that is not
 * finite, likewise, makes no JSON: null stands for it. */
static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

static json_t *number(double value)
{
    return value - value == 0 ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    json_t *string = text == NULL ? NULL : json_string(text);

    return string == NULL ? json_null() : string;
}

/* ------------------------------------------------------------------ parts of a line */

static bool put_context(json_t *line, const struct show *show, const char *kind)
{
    const struct machine *machine = &show->machine;

    return put(line, "kind", json_string(kind)) && put(line, "version", json_string(ckv_version())) &&
           put(line, "date", json_string(machine->date)) && put(line, "machine", text_or_null(machine->processor)) &&
           put(line, "processors", json_integer(machine->processors)) && put(line, "load", number(machine->load)) &&
           put(line, "system", text_or_null(machine->system)) &&
           put(line, "compiler", text_or_null(machine->compiler)) && put(line, "backend", json_string(show->backend)) &&
           put(line, "isa", json_string(show->device)) && put(line, "threads", json_integer(show->threads));
}

static bool put_case(json_t *line, const struct bench_case *about)
{
    const struct layer *layer = &about->subject->layer;

    return put(line, "shape", text_or_null(about->subject->name)) &&
           put(line, "query_heads", json_integer(layer->query_heads)) &&
           put(line, "kv_heads", json_integer(layer->kv_heads)) &&
           put(line, "head_dim", json_integer(layer->head_dim)) &&
           put(line, "value_dim", json_integer(layer->value_dim)) && put(line, "hidden", json_integer(layer->hidden)) &&
           put(line, "dtype", json_string(show_dtype(layer->key.dtype))) &&
           put(line, "tokens", json_integer(layer->tokens));
}

static bool put_policy(json_t *line, const struct bench_case *about)
{
    char keep[32];

    bench_keep_text(&about->keep, keep, sizeof keep);
    return put(line, "keep", json_string(keep)) && put(line, "budget", json_integer(about->info->budget)) &&
           put(line, "window", json_integer(about->info->window));
}

static bool put_times(json_t *line, const struct times *times)
{
    return put(line, "median", number(times->median)) && put(line, "min", number(times->least)) &&
           put(line, "max", number(times->most)) && put(line, "lower_quartile", number(times->lower)) &&
           put(line, "upper_quartile", number(times->upper)) &&
           put(line, "repeats", json_integer((json_int_t)times->repeats));
}

/* Written and freed; `good` is whether it is whole. */
static bool finish(json_t *line, bool good)
{
    good = good && json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', stdout) != EOF;
    json_decref(line);
    return good;
}

/* ------------------------------------------------------------------ lines */

static const char *const limit_names[BOUNDS] = {"fma", "integer", "read", "copy"};

static bool print_limit(const struct show *show, enum bound bound, int32_t threads, const struct limit *limit)
{
    bool counts_macs = bound == BOUND_FMA || bound == BOUND_INTEGER;
    json_t *line = json_object();

    return finish(line,
                  put_context(line, show, "limit") && put(line, "limit", json_string(limit_names[bound])) &&
                      put(line, "instruction", json_string(limits_method(show->limits, bound))) &&
                      put(line, "limit_threads", json_integer(threads)) && put(line, "rate", number(limit->rate)) &&
                      put(line, "unit", json_string(counts_macs ? "MAC/s" : "B/s")) && put_times(line, &limit->times));
}

bool json_begin(const struct show *show)
{
    const struct limits *limits = show->limits;
    bool good = true;

    for (int bound = 0; good && limits != NULL && bound < BOUNDS; bound++) {
        good = print_limit(show, (enum bound)bound, 1, &limits->one[bound]);
        if (good && limits->threads > 1)
            good = print_limit(show, (enum bound)bound, limits->threads, &limits->all[bound]);
    }
    return good;
}

/* Those that the layer's floor is made of. */
static json_t *layer_limits(const struct show *show, const struct row *row)
{
    json_t *rates = row->stage == BENCH_LAYER && show->limits != NULL ? json_object() : json_null();
    bool good = rates != NULL;

    for (int bound = 0; good && json_is_object(rates) && bound < BOUND_COPY; bound++)
        good = put(rates, limit_names[bound], number(row->rates[bound]));
    if (good)
        return rates;
    json_decref(rates);
    return NULL;
}

static bool put_work(json_t *line, const struct show *show, const struct row *row, enum bound bound, double floor,
                     const struct times *times)
{
    bool counts_macs = bound == BOUND_FMA || bound == BOUND_INTEGER, bounded = show->limits != NULL;
    double amount = counts_macs ? row->work.macs : row->work.bytes;
    const char *name = row->stage == BENCH_LAYER ? "sum of the stages'"
                       : bounded                 ? limits_name(show->limits, bound)
                                                 : NULL;

    return put(line, "macs", number(row->work.macs)) && put(line, "bytes", number(row->work.bytes)) &&
           put(line, "rate", row->stage == BENCH_LAYER ? json_null() : number(amount / times->median)) &&
           put(line, "unit", json_string(counts_macs ? "MAC/s" : "B/s")) &&
           put(line, "limit", text_or_null(bounded ? name : NULL)) &&
           put(line, "limit_rate", bounded && row->stage != BENCH_LAYER ? number(row->rates[bound]) : json_null()) &&
           put(line, "floor", bounded ? number(floor) : json_null()) &&
           put(line, "share", bounded ? number(floor / times->median) : json_null());
}

static bool print_peer(const struct show *show, const struct bench_case *about, const struct row *row)
{
    /* The projection is fp32 there. */
    enum bound bound = row->work.bound == BOUND_INTEGER ? BOUND_FMA : row->work.bound;
    struct work work = row->work;
    json_t *line = json_object();
    bool good;

    work.bound = bound;
    good = put_context(line, show, "peer") && put_case(line, about) && put_policy(line, about) &&
           put(line, "stage", json_string(bench_stages[row->stage])) &&
           put(line, "implementation", text_or_null(row->peer)) &&
           put(line, "library",
               row->stage == BENCH_SCORE || row->stage == BENCH_NORM ? text_or_null(show->blas->config) : json_null());
    if (row->peer == NULL)
        return finish(line, good && put(line, "missing", text_or_null(row->peer_reason)));
    return finish(line, good && put_times(line, &row->peer_times) &&
                            put_work(line, show, row, bound, show_floor(row->rates, &work), &row->peer_times));
}

bool json_row(const struct show *show, const struct bench_case *about, const struct row *row)
{
    json_t *line = json_object();
    bool good = put_context(line, show, "stage") && put_case(line, about) && put_policy(line, about) &&
                put(line, "stage", json_string(bench_stages[row->stage])) &&
                put(line, "implementation", json_string("ckv")) && put_times(line, &row->times) &&
                put_work(line, show, row, row->work.bound, row->floor, &row->times) &&
                put(line, "limit_rates", layer_limits(show, row));

    if (good && row->peer != NULL)
        good = put(line, "peer", json_string(row->peer)) && put(line, "peer_median", number(row->peer_times.median)) &&
               put(line, "times_faster", number(row->peer_times.median / row->times.median));
    if (!finish(line, good))
        return false;
    return row->stage == BENCH_LAYER || !show->peers || print_peer(show, about, row);
}

bool json_agreement(const struct show *show, const struct bench_case *about, const struct agreement *agreement)
{
    json_t *line = json_object();

    return finish(line, put_context(line, show, "agreement") && put_case(line, about) && put_policy(line, about) &&
                            put(line, "attention_error", number(agreement->attention_error)) &&
                            put(line, "norm_error", number(agreement->norm_error)) &&
                            put(line, "kept_overlap", number(agreement->overlap)) &&
                            put(line, "agrees", json_boolean(agreement->good)));
}

bool json_target(const struct show *show, const struct bench_case *about, const struct target *target)
{
    json_t *line = json_object();

    return finish(line, put_context(line, show, "target") && put_case(line, about) &&
                            put(line, "target", json_string(target->what)) && put_times(line, &target->times) &&
                            put(line, "against", json_string(target->against)) &&
                            put(line, "against_seconds", number(target->against_seconds)) &&
                            put(line, "is_share", json_boolean(target->is_share)) &&
                            put(line, "ratio", number(target->against_seconds / target->times.median)));
}
