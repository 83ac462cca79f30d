/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv bench. */
#include "options.h"

#include "lib/sizes.h"
#include "shapes.h"
#include "tools/message.h"
#include "tools/values.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_TOKENS 64

enum key {
    KEY_SHAPES = 256, /* above every character: these have no short form */
    KEY_TOKENS,
    KEY_KEEP,
    KEY_STAGES,
    KEY_DTYPE,
    KEY_BACKEND,
    KEY_THREADS,
    KEY_REPEATS,
    KEY_MIN_TIME,
    KEY_QUICK,
    KEY_ALL,
    KEY_TARGETS,
    KEY_NO_PEERS,
    KEY_JSON
};

/* ------------------------------------------------------------------ values */

static error_t read_seconds(const char *option, const char *text, double *seconds)
{
    char *end = NULL;
    double value = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : -1;

    if (end == NULL || end == text || *end != '\0' || !(value >= 0 && value <= 3600))
        return values_wrong(option, text, "seconds from 0 to 3600");
    *seconds = value;
    return 0;
}

static error_t add_tokens(void *of, const char *text)
{
    struct bench_options *options = of;

    return values_integer("--tokens", text, LEAST_TOKENS, CKV_LIMIT_TOKENS, true,
                          &options->tokens[options->token_count++]);
}

static error_t add_keep(void *of, const char *text)
{
    struct bench_options *options = of;
    ckv_ratio *keep = &options->keeps[options->keep_count++];

    if (ckv_ratio_parse(text, keep) == CKV_OK && keep->numerator > 0 && keep->numerator < keep->denominator)
        return 0;
    return values_wrong("--keep", text, "a decimal number between 0 and 1, at most 12 digits after the point");
}

static error_t add_stage(void *of, const char *text)
{
    struct bench_options *options = of;

    for (int stage = 0; stage < BENCH_STAGES; stage++) {
        if (strcmp(text, bench_stages[stage]) == 0) {
            options->stages[stage] = true;
            return 0;
        }
    }
    return values_wrong("--stages", text, "score, norm, select, compact or layer");
}

static error_t add_subject(void *of, const char *text)
{
    struct bench_options *options = of;

    if (strcmp(text, "all") != 0) {
        if (!shapes_is_shipped(text) && !shapes_is_path(text))
            return values_wrong("--shapes", text,
                                "Llama-3.1-8B, Mistral-7B, Qwen2.5-32B, Llama-3.2-1B, SmolLM2-135M, all, or a file");
        options->subjects[options->subject_count++] = text;
        return 0;
    }
    for (size_t i = 0; shapes_shipped[i] != NULL && options->subject_count < BENCH_MOST; i++)
        options->subjects[options->subject_count++] = shapes_shipped[i];
    return 0;
}

static error_t read_dtype(const char *text, ckv_dtype *dtype)
{
    static const struct {
        const char *name;
        ckv_dtype dtype;
    } known[] = {{"f32", CKV_F32}, {"f16", CKV_F16}, {"bf16", CKV_BF16}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, known[i].name) == 0) {
            *dtype = known[i].dtype;
            return 0;
        }
    }
    return values_wrong("--dtype", text, "f32, f16 or bf16");
}

/* ------------------------------------------------------------------ the parser */

static const struct argp_option bench_table[] = {
    {0, 0, 0, 0, "What is timed:", 1},
    {"shapes", KEY_SHAPES, "LIST", 0,
     "Layers: Llama-3.1-8B, Mistral-7B, Qwen2.5-32B, Llama-3.2-1B, SmolLM2-135M, all, shapes' .json files, captures' "
     ".safetensors files (default Llama-3.1-8B)",
     1},
    {"tokens", KEY_TOKENS, "LIST", 0,
     "Tokens of the cache, K standing for 1024; captures have their own (default 4K,16K)", 1},
    {"keep", KEY_KEEP, "LIST", 0, "Shares kept (default 0.4)", 1},
    {"stages", KEY_STAGES, "LIST", 0, "Of score, norm, select, compact, layer (default all five)", 1},
    {"dtype", KEY_DTYPE, "NAME", 0, "Type of the made-up tensors: f32, f16 or bf16 (default bf16)", 1},
    {"all", KEY_ALL, 0, 0,
     "Every shape with 4K, 32K and 128K tokens and keep 0.1, 0.2, 0.4 and 0.5, where not said otherwise: many minutes",
     1},
    {"targets", KEY_TARGETS, 0, 0, "In place of the stages: the figures that the library is tuned for, on one layer",
     1},
    {0, 0, 0, 0, "How:", 2},
    {"backend", KEY_BACKEND, "NAME[:DEVICE]", 0, "What computes; `ckv info' lists the choices (default auto)", 2},
    {"threads", KEY_THREADS, "N", 0, "At most N threads (default: CKV_NUM_THREADS, else what OpenMP takes)", 2},
    {"repeats", KEY_REPEATS, "N", 0,
     "At least N runs each (default 5), unless they take longer than 4 seconds, or 16 with --targets", 2},
    {"min-time", KEY_MIN_TIME, "SECONDS", 0, "At least so long each (default 0.3)", 2},
    {"quick", KEY_QUICK, 0, 0, "Fewer runs and less memory; 4K tokens where --tokens does not say otherwise", 2},
    {"no-peers", KEY_NO_PEERS, 0, 0, "Leave out what others offer for the same", 2},
    {"json", KEY_JSON, 0, 0, "One line of JSON for each result, in place of tables", 2},
    {0}};

static error_t set_all(struct bench_options *options)
{
    static const int64_t tokens[] = {4096, 32768, 131072};
    static const ckv_ratio keeps[] = {{1, 10}, {1, 5}, {2, 5}, {1, 2}};

    if (options->subject_count == 0)
        add_subject(options, "all");
    for (size_t i = 0; options->token_count < i + 1 && i < sizeof tokens / sizeof tokens[0]; i++)
        options->tokens[options->token_count++] = tokens[i];
    for (size_t i = 0; options->keep_count < i + 1 && i < sizeof keeps / sizeof keeps[0]; i++)
        options->keeps[options->keep_count++] = keeps[i];
    return 0;
}

/* What --all, --quick and the defaults leave to each other. */
struct given {
    struct bench_options *options;
    bool all, stages, repeats, min_time;
};

static error_t settle(struct given *given)
{
    struct bench_options *options = given->options;

    if (given->all && options->targets) {
        message_error("--all and --targets: both given, wanted one of them");
        return EINVAL;
    }
    if (options->targets && (options->token_count > 0 || options->keep_count > 0 || given->stages)) {
        message_error("--targets: given with --tokens, --keep or --stages, wanted without: it has its own");
        return EINVAL;
    }
    if (options->targets && options->subject_count > 1) {
        message_error("--targets: given with %zu shapes, wanted at most one", options->subject_count);
        return EINVAL;
    }
    if (given->all)
        set_all(options);
    if (options->subject_count == 0)
        options->subjects[options->subject_count++] = shapes_shipped[0];
    if (options->token_count == 0) {
        options->tokens[options->token_count++] = 4096;
        if (!options->quick)
            options->tokens[options->token_count++] = 16384;
    }
    if (options->keep_count == 0)
        options->keeps[options->keep_count++] = (ckv_ratio){2, 5};
    for (int stage = 0; stage < BENCH_STAGES && !given->stages; stage++)
        options->stages[stage] = true;
    if (!given->repeats)
        options->effort.repeats = options->quick ? 3 : 5;
    if (!given->min_time)
        options->effort.least = options->quick ? 0.02 : 0.3;
    options->effort.most = options->quick ? 0.5 : options->targets ? 16 : 4;
    if (options->effort.most < options->effort.least)
        options->effort.most = options->effort.least;
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct given *given = state->input;
    struct bench_options *options = given->options;
    int64_t value = 0;
    error_t status;

    switch (key) {
    case KEY_SHAPES:
        return values_list("--shapes", text, &options->subject_count, BENCH_MOST, add_subject, options);
    case KEY_TOKENS:
        return values_list("--tokens", text, &options->token_count, BENCH_MOST, add_tokens, options);
    case KEY_KEEP:
        return values_list("--keep", text, &options->keep_count, BENCH_MOST, add_keep, options);
    case KEY_STAGES:
        given->stages = true;
        return values_list("--stages", text, NULL, BENCH_MOST, add_stage, options);
    case KEY_DTYPE:
        return read_dtype(text, &options->dtype);
    case KEY_BACKEND:
        return values_backend(text, &options->run);
    case KEY_THREADS:
        status = values_integer("--threads", text, 1, CKV_LIMIT_THREADS, false, &value);
        options->run.threads = (int32_t)value;
        return status;
    case KEY_REPEATS:
        given->repeats = true;
        status = values_integer("--repeats", text, 1, 1000, false, &value);
        options->effort.repeats = (size_t)value;
        return status;
    case KEY_MIN_TIME:
        given->min_time = true;
        return read_seconds("--min-time", text, &options->effort.least);
    case KEY_QUICK:
        options->quick = true;
        return 0;
    case KEY_ALL:
        given->all = true;
        return 0;
    case KEY_TARGETS:
        options->targets = true;
        return 0;
    case KEY_NO_PEERS:
        options->peers = false;
        return 0;
    case KEY_JSON:
        options->run.json = true;
        return 0;
    case ARGP_KEY_ARG:
        message_error("'%s': an argument, wanted options alone after ckv bench; a file goes to --shapes", text);
        return EINVAL;
    case ARGP_KEY_END:
        return settle(given);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp bench_argp = {
    bench_table,
    parse,
    "",
    "Time each stage and the whole layer, beside what this machine can do at most and what others take for the same."
    "\v"
    "Medians of several runs after one that is not counted.  A limit is measured in the same run; a share is what the "
    "limit's time is of the stage's.  The peers are OpenBLAS (found at run time), std::nth_element and memcpy.  See "
    "ckv(1).",
    0,
    0,
    0};

bool bench_options_parse(int argc, char **argv, struct bench_options *options)
{
    struct given given = {.options = options};

    memset(options, 0, sizeof *options);
    ckv_policy_init(&options->run.policy);
    options->dtype = CKV_BF16;
    options->peers = true;
    return values_parse(&bench_argp, argc, argv, &given);
}

void bench_options_free(struct bench_options *options)
{
    options_free(&options->run);
}

void bench_keep_text(const ckv_ratio *keep, char *text, size_t size)
{
    snprintf(text, size, "%.12g", (double)keep->numerator / (double)keep->denominator);
}
