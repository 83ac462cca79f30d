/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that the library is tuned for, on one layer's shape. */
#include "bench.h"

#include "threads.h"
#include "tools/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of the layers that are measured; a sixteenth of that with --quick. */
#define NORM_TOKENS 16384
#define LAYER_TOKENS 32768
#define SELECT_TOKENS 131072

struct label {
    char text[160];
};

static struct label label_of(const char *what, int64_t tokens, const char *rest)
{
    struct label label;

    snprintf(label.text, sizeof label.text, "%s, %" PRId64 "K tokens%s", what, tokens / 1024, rest);
    return label;
}

static void against(struct prepared *prepared, const struct stages *stages, const char *what, const struct times *times,
                    const char *other, double seconds, bool is_share)
{
    const struct bench_case about = {&prepared->subject, stages->policy.keep, &stages->chosen.info};
    const struct target target = {what, *times, other, seconds, is_share};

    show_target(&prepared->bench->report, &about, &target);
}

/* A stage's row as targets: against its limit, and against its peer. */
static void against_both(struct prepared *prepared, const struct stages *stages, const char *what,
                         const struct row *row)
{
    struct label peak;

    snprintf(peak.text, sizeof peak.text, "%s, measured limit", limits_name(&prepared->bench->limits, row->work.bound));
    against(prepared, stages, what, &row->times, peak.text, row->floor, true);
    if (row->peer != NULL)
        against(prepared, stages, what, &row->times, row->peer, row->peer_times.median, false);
}

/* ------------------------------------------------------------------ norm, and norm with selection */

/* The whole layer may leave out norms that cannot matter, as ckv_norm may not: its time less
 * that of the score, which it does in full. */
static bool norm_and_selection(struct prepared *prepared, struct stages *stages, struct times *times)
{
    struct timed items[2] = {{.run = stages_run[BENCH_SCORE], .argument = stages},
                             {.run = stages_run[BENCH_LAYER], .argument = stages}};
    const struct times *score = &items[0].times, *layer = &items[1].times;

    bench_note(prepared, "norm and selection");
    if (!timing_measure(items, 2, &prepared->bench->options.effort))
        return false;
    prepared->scores.has_attention = true;
    *times = *layer;
    times->least -= score->median;
    times->lower -= score->median;
    times->median -= score->median;
    times->upper -= score->median;
    times->most -= score->median;
    return true;
}

static bool kept_target(struct prepared *prepared, const ckv_ratio *keep, const struct row *norm)
{
    int64_t tokens = prepared->subject.layer.tokens;
    struct stages stages;
    struct times times;
    struct row selection;
    struct label what;
    char rest[48], text[32], floor_of[64];
    bool good = prepare_stages(prepared, keep, &stages) && norm_and_selection(prepared, &stages, &times) &&
                stages_run[BENCH_LAYER](&stages); /* the last call counts the norms */
    double share = (double)stages.run.exact_norms / ((double)prepared->subject.layer.kv_heads * (double)tokens);

    good = good && bench_row(prepared, &stages, BENCH_SELECT, &selection);
    bench_keep_text(keep, text, sizeof text);
    snprintf(rest, sizeof rest, ", keep %s", text);
    snprintf(floor_of, sizeof floor_of, "every norm at the measured limit; %.0f%% computed", 100.0 * share);
    what = label_of("norm + selection", tokens, rest);
    if (good && norm->peer != NULL && selection.peer != NULL)
        against(prepared, &stages, what.text, &times, "OpenBLAS sgemm, abs-sum; std::nth_element",
                norm->peer_times.median + selection.peer_times.median, false);
    if (good)
        against(prepared, &stages, what.text, &times, floor_of, norm->floor, true);
    stages_close(&stages);
    return good;
}

/* ------------------------------------------------------------------ threads */

static bool thread_target(struct prepared *prepared, struct stages *stages)
{
    struct bench *bench = prepared->bench;
    struct options single = bench->options.run;
    struct stages alone;
    struct timed items[2] = {{.run = stages_run[BENCH_LAYER], .argument = stages},
                             {.run = stages_run[BENCH_LAYER], .argument = &alone}};
    struct label what, other;
    ckv_context *context;
    ckv_projection *projection = NULL;
    bool good;

    if (bench->threads == 1)
        return true;
    memset(&alone, 0, sizeof alone);
    single.threads = 1;
    context = command_context(&single);
    if (context != NULL)
        projection = stages_projection(context, &single, &prepared->subject);
    bench_note(prepared, "one thread and all");
    good = projection != NULL &&
           stages_open(&alone, context, &single, &prepared->subject, projection, &prepared->scores, &stages->policy) &&
           timing_measure(items, 2, &bench->options.effort);
    what = label_of("whole layer", prepared->subject.layer.tokens, ", keep 0.4");
    snprintf(other.text, sizeof other.text, "1 thread, beside %" PRId32, bench->threads);
    if (good)
        against(prepared, stages, what.text, &items[0].times, other.text, items[1].times.median, false);
    stages_close(&alone);
    ckv_projection_destroy(projection);
    ckv_context_destroy(context);
    return good;
}

/* ------------------------------------------------------------------ selection of many */

/* Attention and norm repeated, each time a little greater so that no two are equal. */
static void repeat(const float *from, int64_t heads, int64_t n, int64_t times, float *to)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < times; t++)
            for (int64_t i = 0; i < n; i++)
                *to++ = from[h * n + i] * (1.0f + 1e-3f * (float)t);
}

/* ckv_select and its peer read nothing else, so no tensors are made for that many tokens. */
static bool select_target(const struct prepared *source, int64_t tokens, const ckv_ratio *keep)
{
    struct bench *bench = source->bench;
    const struct layer *layer = &source->subject.layer;
    struct prepared many;
    struct stages stages;
    struct row row;
    bool good;

    memset(&many, 0, sizeof many);
    memset(&stages, 0, sizeof stages);
    many.bench = bench;
    many.subject = source->subject;
    memset(many.subject.memory, 0, sizeof many.subject.memory);
    many.subject.query = many.subject.key = many.subject.value = many.subject.weight = NULL;
    many.subject.layer.tokens = tokens;
    good = stages_scores(&many.scores, &many.subject);
    if (good) {
        repeat(source->scores.attention, layer->kv_heads, layer->tokens, tokens / layer->tokens, many.scores.attention);
        repeat(source->scores.norm, layer->kv_heads, layer->tokens, tokens / layer->tokens, many.scores.norm);
        good = !bench->options.peers || peers_open(&many.peers, &many.subject, &bench->blas, bench->threads,
                                                   &bench->options.run.policy, layer->queries);
        many.peers.attention_in = many.scores.attention;
        many.peers.norm_in = many.scores.norm;
    }
    if (good && prepare_stages(&many, keep, &stages) && bench_row(&many, &stages, BENCH_SELECT, &row)) {
        char what[80];

        snprintf(what, sizeof what, "select, %" PRId32 " x %" PRId64 "K", layer->kv_heads, tokens / 1024);
        against_both(&many, &stages, what, &row);
    } else {
        good = false;
    }
    stages_close(&stages);
    peers_close(&many.peers);
    stages_scores_free(&many.scores);
    return good;
}

/* ------------------------------------------------------------------ the two layers */

static bool norm_layer(struct bench *bench, const struct shape *shape, int64_t scale)
{
    static const ckv_ratio keeps[] = {{2, 5}, {1, 5}};
    struct prepared prepared;
    struct stages stages;
    struct bench_case about = {&prepared.subject, keeps[0], &stages.chosen.info};
    struct row norm;
    struct label what = label_of("dense norm", NORM_TOKENS / scale, "");
    bool good;

    memset(&stages, 0, sizeof stages);
    good = prepare_shape(&prepared, bench, shape, NORM_TOKENS / scale) && prepare_stages(&prepared, &keeps[0], &stages);
    prepared.peers.attention_in = prepared.scores.attention;
    prepared.peers.norm_in = prepared.scores.norm;
    if (good)
        show_targets(&bench->report, &about);
    good = good && bench_row(&prepared, &stages, BENCH_NORM, &norm);
    if (good)
        against_both(&prepared, &stages, what.text, &norm);
    for (size_t i = 0; good && i < sizeof keeps / sizeof keeps[0]; i++)
        good = kept_target(&prepared, &keeps[i], &norm);
    good = good && thread_target(&prepared, &stages) && select_target(&prepared, SELECT_TOKENS / scale, &keeps[0]);
    stages_close(&stages);
    prepared_close(&prepared);
    return good;
}

/* ------------------------------------------------------------------ rows read alone */

#define AHEAD 12 /* rows asked for before they are read, as compaction does */

static volatile uint64_t sink;

static uint64_t read_row(const struct bench *bench, const ckv_tensor *tensor, int64_t head, int64_t row)
{
    const char *at = (const char *)tensor->data + head * tensor->stride[0] + row * tensor->stride[1];

    return bench->limits.isa->read((const uint64_t *)(const void *)at,
                                   (size_t)(tensor->shape[2] * tensor->stride[2]) / sizeof(uint64_t));
}

static void ask_for_row(const ckv_tensor *tensor, int64_t head, int64_t row)
{
#ifdef __GNUC__
    const char *at = (const char *)tensor->data + head * tensor->stride[0] + row * tensor->stride[1];

    for (int64_t byte = 0; byte < tensor->shape[2] * tensor->stride[2]; byte += 64)
        __builtin_prefetch(at + byte);
#else
    (void)tensor;
    (void)head;
    (void)row;
#endif
}

/* What reads the kept rows of one tensor, of some heads. */
struct reading {
    const struct prepared *prepared;
    const struct stages *stages;
    const ckv_tensor *tensor;
};

static void read_head(void *argument, int64_t head, int32_t worker)
{
    const struct reading *reading = argument;
    int64_t budget = reading->stages->chosen.info.budget;
    const int32_t *rows = reading->stages->chosen.selection.positions + head * budget;
    uint64_t total = 0;

    (void)worker;
    for (int64_t i = 0; i < budget; i++) {
        if (i + AHEAD < budget)
            ask_for_row(reading->tensor, head, rows[i + AHEAD]);
        total ^= read_row(reading->prepared->bench, reading->tensor, head, rows[i]);
    }
    sink = total;
}

/* The part of compaction that nothing spares: the kept rows are read, and no more. */
static bool read_kept(void *argument)
{
    struct reading *reading = argument;
    const struct layer *layer = &reading->prepared->subject.layer;

    reading->tensor = &layer->key;
    threads_run(reading->prepared->bench->threads, layer->kv_heads, read_head, reading);
    reading->tensor = &layer->value;
    threads_run(reading->prepared->bench->threads, layer->kv_heads, read_head, reading);
    return true;
}

static bool read_target(struct prepared *prepared, struct stages *stages, const char *what)
{
    struct bench *bench = prepared->bench;
    struct reading reading = {prepared, stages, NULL};
    struct timed items[2] = {{.run = stages_run[BENCH_COMPACT], .argument = stages},
                             {.run = read_kept, .argument = &reading}};

    for (int i = 0; i < 2; i++) {
        items[i].before = limits_clear_caches;
        items[i].before_argument = &bench->limits;
    }
    bench_note(prepared, "kept rows read alone");
    if (!timing_measure(items, 2, &bench->options.effort))
        return false;
    against(prepared, stages, what, &items[0].times, "kept rows read, not written", items[1].times.median, true);
    return true;
}

/* ------------------------------------------------------------------ the long layer */

/* The layer's floor with every norm and with those that were computed, and what it is made of. */
static void layer_target(struct prepared *prepared, struct stages *stages, const struct row *row)
{
    const struct layer *layer = &prepared->subject.layer;
    struct label what = label_of("whole layer", layer->tokens, ", keep 0.4");
    double floors[3];
    double share = (double)stages->run.exact_norms / ((double)layer->kv_heads * (double)layer->tokens);
    char text[160];

    for (int stage = BENCH_SCORE; stage <= BENCH_SELECT; stage++) {
        struct work work = work_of((enum bench_stage)stage, &prepared->subject.layer, stages->chosen.info.window,
                                   stages->chosen.info.budget);

        floors[stage] = 1e3 * show_floor(row->rates, &work);
    }
    snprintf(text, sizeof text, "floors, ms: score %.1f, every norm %.0f, select %.2f", floors[0], floors[1],
             floors[2]);
    against(prepared, stages, what.text, &row->times, text, row->floor, true);
    snprintf(text, sizeof text, "floors, ms: score %.1f, %.0f%% of the norms %.0f, select %.2f", floors[0], 100 * share,
             share * floors[1], floors[2]);
    against(prepared, stages, what.text, &row->times, text, 1e-3 * (floors[0] + share * floors[1] + floors[2]), true);
}

static bool long_layer(struct bench *bench, const struct shape *shape, int64_t scale)
{
    static const ckv_ratio keep = {2, 5};
    int64_t tokens = LAYER_TOKENS / scale;
    struct prepared prepared;
    struct stages stages;
    struct row score, layer, compaction;
    struct label what = label_of("score + pool", tokens, ""), moved = label_of("compact", tokens, ", keep 0.4");
    bool good;

    memset(&stages, 0, sizeof stages);
    good = prepare_shape(&prepared, bench, shape, tokens) && prepare_stages(&prepared, &keep, &stages) &&
           bench_row(&prepared, &stages, BENCH_SCORE, &score);
    if (good)
        against_both(&prepared, &stages, what.text, &score);
    good = good && bench_row(&prepared, &stages, BENCH_LAYER, &layer);
    if (good)
        layer_target(&prepared, &stages, &layer);
    good = good && bench_row(&prepared, &stages, BENCH_COMPACT, &compaction);
    if (good)
        against_both(&prepared, &stages, moved.text, &compaction);
    good = good && read_target(&prepared, &stages, moved.text);
    stages_close(&stages);
    prepared_close(&prepared);
    return good;
}

bool run_targets(struct bench *bench)
{
    int64_t scale = bench->options.quick ? 16 : 1;
    struct shape shape;

    if (!bench->has_limits) {
        message_error("--targets: backend %s, wanted cpu or ref: no limits are known for others",
                      bench->report.backend);
        return false;
    }
    return shapes_read("--shapes", bench->options.subjects[0], &shape) && norm_layer(bench, &shape, scale) &&
           long_layer(bench, &shape, scale);
}
