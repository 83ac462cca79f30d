/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv tune. */
#include "options.h"

#include "bench/shapes.h"
#include "lib/sizes.h"
#include "tools/message.h"
#include "tools/values.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_TOKENS 64
#define MOST_BUDGET 86400.0
#define DEFAULT_BUDGET 60.0

enum key {
    KEY_BACKEND = 256, /* above every character: these have no short form */
    KEY_KERNELS,
    KEY_SHAPES,
    KEY_TOKENS,
    KEY_BUDGET,
    KEY_EXHAUSTIVE,
    KEY_DRY_RUN,
    KEY_JSON,
    KEY_THREADS
};

/* ------------------------------------------------------------------ values */

static error_t read_budget(const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}};
    char *end = NULL;
    double value = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : -1;

    for (size_t i = 0; end != NULL && end != text && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0 || !(value * units[i].seconds <= MOST_BUDGET))
            continue;
        *seconds = value * units[i].seconds;
        return 0;
    }
    return values_wrong("--budget", text, "a duration from 0 to a day, such as 60s, 200ms or 2m");
}

static error_t add_stage(void *of, const char *text)
{
    static const char *const known[] = {"score", "norm", "select", "compact", "evict", "all"};
    struct tune_options *options = of;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, known[i]) == 0) {
            options->stages[options->stage_count++] = known[i];
            return 0;
        }
    }
    return values_wrong("--kernels", text, "score, norm, select, compact, evict or all");
}

static error_t add_subject(void *of, const char *text)
{
    struct tune_options *options = of;
    const char *point = strrchr(text, '.');

    if (strcmp(text, "all") == 0) {
        for (size_t i = 0; shapes_shipped[i] != NULL && options->subject_count < TUNE_MOST; i++)
            options->subjects[options->subject_count++] = shapes_shipped[i];
        return 0;
    }
    if ((!shapes_is_shipped(text) && !shapes_is_path(text)) || (point != NULL && strcmp(point, ".safetensors") == 0))
        return values_wrong("--shapes", text,
                            "Llama-3.1-8B, Mistral-7B, Qwen2.5-32B, Llama-3.2-1B, SmolLM2-135M, all, or a .json file");
    options->subjects[options->subject_count++] = text;
    return 0;
}

static error_t add_tokens(void *of, const char *text)
{
    struct tune_options *options = of;

    return values_integer("--tokens", text, LEAST_TOKENS, CKV_LIMIT_TOKENS, true,
                          &options->tokens[options->token_count++]);
}

/* ------------------------------------------------------------------ the parser */

static const struct argp_option tune_table[] = {
    {0, 0, 0, 0, "What is tuned:", 1},
    {"backend", KEY_BACKEND, "NAME[:DEVICE]", 0, "The device; `ckv info' lists the choices (default auto)", 1},
    {"kernels", KEY_KERNELS, "LIST", 0,
     "Of score, norm, select, compact, evict and all, which is what concerns every stage (default: whatever the backend "
     "has)",
     1},
    {"shapes", KEY_SHAPES, "LIST", 0,
     "Layers: Llama-3.1-8B, Mistral-7B, Qwen2.5-32B, Llama-3.2-1B, SmolLM2-135M, all, or shapes' .json files (default "
     "Llama-3.2-1B,Llama-3.1-8B,Qwen2.5-32B)",
     1},
    {"tokens", KEY_TOKENS, "LIST", 0, "Tokens of the cache, K standing for 1024 (default 4K,16K)", 1},
    {"threads", KEY_THREADS, "N", 0, "At most N threads (default: CKV_NUM_THREADS, else what OpenMP takes)", 1},
    {0, 0, 0, 0, "How:", 2},
    {"budget", KEY_BUDGET, "TIME", 0, "At most so long, such as 60s, 200ms or 2m; 0 runs nothing (default 60s)", 2},
    {"exhaustive", KEY_EXHAUSTIVE, 0, 0, "Time every candidate, and show the search's choice beside the best of all",
     2},
    {"dry-run", KEY_DRY_RUN, 0, 0, "Show what there is to tune and how the model ranks it; run and write nothing", 2},
    {"output", 'o', "FILE", 0, "The tuning file (default: CKV_TUNE_CACHE, else tuning.json in the folder of caches)",
     2},
    {"json", KEY_JSON, 0, 0, "One JSON document on standard output, in place of the table", 2},
    {0}};

static error_t settle(struct tune_options *options)
{
    static const char *const shapes[] = {"Llama-3.2-1B", "Llama-3.1-8B", "Qwen2.5-32B"};
    static const int64_t tokens[] = {4096, 16384};

    if (options->exhaustive && options->budget == 0) {
        message_error("--exhaustive: with --budget 0, wanted time to run the candidates");
        return EINVAL;
    }
    if (options->subject_count == 0)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            options->subjects[options->subject_count++] = shapes[i];
    if (options->token_count == 0)
        for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
            options->tokens[options->token_count++] = tokens[i];
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct tune_options *options = state->input;
    int64_t value = 0;
    error_t status;

    switch (key) {
    case KEY_BACKEND:
        return values_backend(text, &options->run);
    case KEY_KERNELS:
        return values_list("--kernels", text, &options->stage_count, SPACE_STAGES, add_stage, options);
    case KEY_SHAPES:
        return values_list("--shapes", text, &options->subject_count, TUNE_MOST, add_subject, options);
    case KEY_TOKENS:
        return values_list("--tokens", text, &options->token_count, TUNE_MOST, add_tokens, options);
    case KEY_BUDGET:
        return read_budget(text, &options->budget);
    case KEY_EXHAUSTIVE:
        options->exhaustive = true;
        return 0;
    case KEY_DRY_RUN:
        options->dry_run = true;
        return 0;
    case 'o':
        if (text[0] == '\0' || strcmp(text, "off") == 0)
            return values_wrong("--output", text, "the path of a file");
        options->output = text;
        return 0;
    case KEY_JSON:
        options->run.json = true;
        return 0;
    case KEY_THREADS:
        status = values_integer("--threads", text, 1, CKV_LIMIT_THREADS, false, &value);
        options->run.threads = (int32_t)value;
        return status;
    case ARGP_KEY_ARG:
        message_error("'%s': an argument, wanted options alone after ckv tune", text);
        return EINVAL;
    case ARGP_KEY_END:
        return settle(options);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp tune_argp = {
    tune_table,
    parse,
    "",
    "Find out which block sizes and routes are fastest on this device, and write them into the tuning file, which every "
    "program with the library reads from then on."
    "\v"
    "Results never depend on it: a candidate whose bits are not the reference's is rejected.  Candidates run in a "
    "process of their own.  See ckv(1).",
    0,
    0,
    0};

bool tune_options_parse(int argc, char **argv, struct tune_options *options)
{
    memset(options, 0, sizeof *options);
    ckv_policy_init(&options->run.policy);
    options->run.input = "ckv tune";
    options->budget = DEFAULT_BUDGET;
    return values_parse(&tune_argp, argc, argv, options);
}

void tune_options_free(struct tune_options *options)
{
    options_free(&options->run);
}
