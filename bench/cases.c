/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer, number of tokens and keep ratio that was asked for. */
#include "bench.h"

#include "lib/numeric.h"
#include "tools/message.h"
#include "tools/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ are the peers right? */

static bool is_finite(float x)
{
    return ckv_is_nonfinite_bits(ckv_bits(x)) == 0;
}

/* |a - b| at most, as a share of the greatest a. */
static double greatest_difference(const float *a, const float *b, size_t count)
{
    double greatest = 0, difference = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_finite(b[i]))
            return HUGE_VAL;
        greatest = fmax(greatest, fabs((double)a[i]));
        difference = fmax(difference, fabs((double)a[i] - (double)b[i]));
    }
    return greatest == 0 ? difference : difference / greatest;
}

/* |a - b| / a at most; where a is next to nothing beside the others, as a share of what is. */
static double relative_difference(const float *a, const float *b, size_t count)
{
    double greatest = 0, difference = 0;

    for (size_t i = 0; i < count; i++)
        greatest = fmax(greatest, fabs((double)a[i]));
    for (size_t i = 0; i < count && greatest > 0; i++) {
        if (!is_finite(b[i]))
            return HUGE_VAL;
        difference = fmax(difference, fabs((double)a[i] - (double)b[i]) / fmax(fabs((double)a[i]), 1e-6 * greatest));
    }
    return difference;
}

/* Of two ascending lists per head, the share that is in both. */
static double overlap(const int32_t *a, const int32_t *b, int64_t heads, int64_t budget)
{
    int64_t common = 0;

    for (int64_t h = 0; h < heads; h++, a += budget, b += budget) {
        for (int64_t i = 0, k = 0; i < budget && k < budget;) {
            common += a[i] == b[k];
            if (a[i] <= b[k])
                i++;
            else
                k++;
        }
    }
    return budget == 0 ? 1 : (double)common / (double)(heads * budget);
}

/* The peers' whole way, from their own attention and norm, beside ours. */
static bool compare(struct prepared *prepared, const struct stages *stages, const struct bench_case *about)
{
    const struct layer *layer = &prepared->subject.layer;
    struct peers *peers = &prepared->peers;
    size_t cells = (size_t)layer->kv_heads * (size_t)layer->tokens;
    int64_t kept = stages->chosen.info.positions;
    struct agreement agreement;
    double allowed; /* entries that differ: near ties, which may be all that a small budget has */

    peers->attention_in = peers->attention;
    peers->norm_in = peers->norm;
    if (!peers_select(peers))
        return false;
    agreement.attention_error = greatest_difference(prepared->scores.attention, peers->attention, cells);
    agreement.norm_error = relative_difference(prepared->scores.norm, peers->norm, cells);
    agreement.overlap =
        overlap(stages->chosen.selection.positions, peers->positions, layer->kv_heads, stages->chosen.info.budget);
    allowed = 0.02 * (double)kept + (double)layer->kv_heads;
    agreement.good = agreement.norm_error < 1e-2 && agreement.attention_error < 1e-2 &&
                     (1 - agreement.overlap) * (double)kept <= allowed;
    show_agreement(&prepared->bench->report, about, &agreement);
    if (!agreement.good)
        message_error("%s: the peers' results are not ours: their times cannot be compared", prepared->subject.name);
    prepared->bench->agrees = prepared->bench->agrees && agreement.good;
    return true;
}

/* ------------------------------------------------------------------ one case */

/* What a stage reads must be there, measured or not. */
static bool fill_inputs(struct prepared *prepared, struct stages *stages, enum bench_stage stage, bool *selected)
{
    struct scores *scores = &prepared->scores;

    if (stage != BENCH_SELECT && stage != BENCH_COMPACT)
        return true;
    if ((!scores->has_attention && !stages_run[BENCH_SCORE](stages)) ||
        (!scores->has_norm && !stages_run[BENCH_NORM](stages)))
        return false;
    scores->has_attention = scores->has_norm = true;
    if (stage == BENCH_COMPACT && !*selected && !stages_run[BENCH_SELECT](stages))
        return false;
    *selected = true;
    return true;
}

/* Of score and norm, which do not depend on what is kept, only the first time. */
static bool run_case(struct prepared *prepared, const ckv_ratio *keep, bool is_first)
{
    struct bench *bench = prepared->bench;
    struct stages stages;
    struct bench_case about = {&prepared->subject, *keep, &stages.chosen.info};
    bool good = prepare_stages(prepared, keep, &stages), selected = false;
    size_t compared = 0;

    prepared->peers.attention_in = prepared->scores.attention;
    prepared->peers.norm_in = prepared->scores.norm;
    if (good)
        show_case(&bench->report, &about);
    for (int i = 0; good && i < BENCH_STAGES; i++) {
        enum bench_stage stage = (enum bench_stage)i;
        struct row row;

        if (!bench->options.stages[stage])
            continue;
        if (!is_first && stage <= BENCH_NORM) {
            compared++;
            continue;
        }
        good = fill_inputs(prepared, &stages, stage, &selected) && bench_row(prepared, &stages, stage, &row);
        if (good)
            show_row(&bench->report, &about, &row);
        compared += good && stage <= BENCH_SELECT && row.peer != NULL;
    }
    if (good && compared == 3 && bench->blas.library != NULL)
        good = compare(prepared, &stages, &about);
    stages_close(&stages);
    return good;
}

static bool run_prepared(struct prepared *prepared, bool good)
{
    const struct bench_options *options = &prepared->bench->options;

    for (size_t i = 0; good && i < options->keep_count; i++)
        good = run_case(prepared, &options->keeps[i], i == 0);
    prepared_close(prepared);
    return good;
}

/* ------------------------------------------------------------------ all of them */

static bool is_capture(const char *text)
{
    static const char ending[] = ".safetensors";
    size_t length = strlen(text);

    return length >= sizeof ending && strcmp(text + length - (sizeof ending - 1), ending) == 0;
}

static bool run_capture(struct bench *bench, const char *path)
{
    const struct layer_choice every = {NULL, 0};
    const char *slash = strrchr(path, '/');
    struct st_file file;
    struct layer_list layers;
    bool good;

    memset(&file, 0, sizeof file);
    memset(&layers, 0, sizeof layers);
    good = st_open(&file, path) && layers_find(&file, NULL, &every, &layers);
    for (size_t i = 0; good && i < layers.count; i++) {
        struct prepared prepared;

        good = run_prepared(&prepared,
                            prepare_layer(&prepared, bench, slash == NULL ? path : slash + 1, &layers.layers[i]));
    }
    layers_free(&layers);
    st_close(&file);
    return good;
}

static bool run_shape(struct bench *bench, const char *text)
{
    struct shape shape;
    bool good = shapes_read("--shapes", text, &shape);

    for (size_t i = 0; good && i < bench->options.token_count; i++) {
        struct prepared prepared;

        good = run_prepared(&prepared, prepare_shape(&prepared, bench, &shape, bench->options.tokens[i]));
    }
    return good;
}

bool run_cases(struct bench *bench)
{
    bool good = true;

    for (size_t i = 0; good && i < bench->options.subject_count; i++) {
        const char *text = bench->options.subjects[i];

        good = is_capture(text) ? run_capture(bench, text) : run_shape(bench, text);
    }
    return good;
}
