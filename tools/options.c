/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one argp parser per command over two shared ones. */
#include "options.h"

#include "lib/sizes.h"
#include "message.h"
#include "values.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum key {
    KEY_KEEP = 256, /* above every character: these have no short form */
    KEY_BUDGET,
    KEY_ALPHA,
    KEY_EPSILON,
    KEY_WINDOW,
    KEY_RECENT,
    KEY_SINKS,
    KEY_POOL,
    KEY_BUDGETS,
    KEY_NORM,
    KEY_MODEL,
    KEY_LAYER,
    KEY_COMPACT,
    KEY_DUMP,
    KEY_JSON,
    KEY_NO_PERTURBATION,
    KEY_NO_SKIP,
    KEY_BACKEND,
    KEY_THREADS
};

/* ------------------------------------------------------------------ values */

static error_t read_int32(const char *option, const char *text, int32_t least, int32_t most, int32_t *value)
{
    int64_t wide = 0;
    error_t status = values_integer(option, text, least, most, false, &wide);

    if (status == 0)
        *value = (int32_t)wide;
    return status;
}

/* Exactly, as a fraction: what 0.4 of the tokens is does not depend on rounding. */
static error_t read_ratio(const char *option, const char *text, ckv_ratio *ratio)
{
    ckv_ratio read;

    if (ckv_ratio_parse(text, &read) != CKV_OK || read.numerator > read.denominator)
        return values_wrong(option, text, "a decimal number from 0 to 1, with at most 12 digits after the point");
    *ratio = read;
    return 0;
}

/* strtof in the C locale, which this program never leaves, rounds to nearest. */
static error_t read_epsilon(const char *option, const char *text, float *epsilon)
{
    bool starts_well = isdigit((unsigned char)text[0]) || text[0] == '.';
    char *end = NULL;
    float value = starts_well ? strtof(text, &end) : 0.0f;

    if (!starts_well || end == text || *end != '\0' || !(value >= 0x1p-24f && value <= 1.0f))
        return values_wrong(option, text, "a number from 2^-24 (5.9604645e-8) to 1");
    *epsilon = value;
    return 0;
}

static error_t read_pool(const char *option, const char *text, ckv_policy *policy)
{
    static const char wanted[] = "max:WIDTH, avg:WIDTH or none, with a WIDTH of at least 1";
    const char *colon = strchr(text, ':');
    size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
    int64_t width;
    char *end;

    if (strcmp(text, "none") == 0) {
        policy->pool = CKV_POOL_NONE;
        policy->pool_width = 1;
        return 0;
    }
    if (length != 3 || (strncmp(text, "max", 3) != 0 && strncmp(text, "avg", 3) != 0))
        return values_wrong(option, text, wanted);
    width = text[0] == 'm' ? 7 : 5;
    if (colon != NULL) {
        errno = 0;
        width = isdigit((unsigned char)colon[1]) ? strtoll(colon + 1, &end, 10) : 0;
        if (width < 1 || width > INT32_MAX || errno != 0 || *end != '\0')
            return values_wrong(option, text, wanted);
    }
    policy->pool = text[0] == 'm' ? CKV_POOL_MAX : CKV_POOL_AVERAGE;
    policy->pool_width = (int32_t)width;
    return 0;
}

static error_t read_budgets(const char *option, const char *text)
{
    char wanted[120];
    size_t counts = 1;

    if (strcmp(text, "uniform") == 0)
        return 0;
    for (const char *at = text; *at != '\0'; at++)
        counts += *at == ',';
    if (!isdigit((unsigned char)*text))
        return values_wrong(option, text, "uniform");
    snprintf(wanted, sizeof wanted, "uniform: a list of counts per KV head, of length %zu here, is not offered",
             counts);
    return values_wrong(option, text, wanted);
}

static error_t add_layer(const char *option, const char *text, struct options *options)
{
    int32_t layer = 0;
    error_t status = read_int32(option, text, 0, INT32_MAX, &layer);
    int32_t *grown;
    size_t at = 0;

    if (status != 0)
        return status;
    while (at < options->layer_count && options->layers[at] < layer)
        at++;
    if (at < options->layer_count && options->layers[at] == layer)
        return 0;
    grown = realloc(options->layers, (options->layer_count + 1) * sizeof *grown);
    if (grown == NULL) {
        message_error("%s: '%s': out of memory", option, text);
        return EINVAL;
    }
    memmove(grown + at + 1, grown + at, (options->layer_count - at) * sizeof *grown);
    grown[at] = layer;
    options->layers = grown;
    options->layer_count++;
    return 0;
}

/* ------------------------------------------------------------------ the policy */

static const struct argp_option policy_options[] = {
    {0, 0, 0, 0, "Policy:", 1},
    {"keep", KEY_KEEP, "R", 0, "Share of the tokens that each KV head keeps, from 0 to 1 (default 0.4)", 1},
    {"budget", KEY_BUDGET, "N", 0, "Entries that each KV head keeps, in place of --keep", 1},
    {"alpha", KEY_ALPHA, "R", 0, "Share of the budget that stage 1 fills by attention alone, from 0 to 1 (default 0.5)",
     1},
    {"epsilon", KEY_EPSILON, "X", 0, "Added to attention in stage 2, from 2^-24 to 1 (default 1e-4)", 1},
    {"window", KEY_WINDOW, "N", 0, "The last N queries score the others (default 32)", 1},
    {"recent", KEY_RECENT, "N", 0, "The last N tokens are kept in any case (default: as many as the window)", 1},
    {"sinks", KEY_SINKS, "N", 0, "The first N tokens are kept in any case (default 0)", 1},
    {"pool", KEY_POOL, "KIND", 0, "Pooling of attention along positions: max:WIDTH, avg:WIDTH or none (default max:7)",
     1},
    {"budgets", KEY_BUDGETS, "KIND", 0, "Budgets over KV heads: uniform (default uniform)", 1},
    {"norm", KEY_NORM, "KIND", 0, "Norm of the projected values: l1 (default l1)", 1},
    {0}};

static error_t parse_policy(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    ckv_policy *policy = &options->policy;

    switch (key) {
    case KEY_KEEP:
        options->keep_given = true;
        return read_ratio("--keep", text, &policy->keep);
    case KEY_BUDGET:
        options->budget_given = true;
        return values_integer("--budget", text, 0, INT64_MAX, false, &policy->budget);
    case KEY_ALPHA:
        return read_ratio("--alpha", text, &policy->alpha);
    case KEY_EPSILON:
        return read_epsilon("--epsilon", text, &policy->epsilon);
    case KEY_WINDOW:
        return read_int32("--window", text, 0, INT32_MAX, &policy->window);
    case KEY_RECENT:
        return read_int32("--recent", text, 0, INT32_MAX, &policy->recent);
    case KEY_SINKS:
        return read_int32("--sinks", text, 0, INT32_MAX, &policy->sinks);
    case KEY_POOL:
        return read_pool("--pool", text, policy);
    case KEY_BUDGETS:
        return read_budgets("--budgets", text);
    case KEY_NORM:
        return strcmp(text, "l1") == 0 ? 0 : values_wrong("--norm", text, "l1");
    case ARGP_KEY_END:
        if (options->keep_given && options->budget_given) {
            message_error("--keep and --budget: both given, wanted one of them");
            return EINVAL;
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp policy_argp = {policy_options, parse_policy, 0, 0, 0, 0, 0};

/* ------------------------------------------------------------------ what evict and select share */

static const struct argp_option run_options[] = {
    {0, 0, 0, 0, "Running:", 2},
    {"output", 'o', "FILE", 0, "Where the result goes; wanted", 2},
    {"layer", KEY_LAYER, "N", 0, "Only this layer; may be repeated (default: every layer of the file)", 2},
    {"json", KEY_JSON, 0, 0, "Report as JSON on standard output, in place of the table", 2},
    {"backend", KEY_BACKEND, "NAME[:DEVICE]", 0,
     "What computes; `ckv info' lists the choices (default: CKV_BACKEND, else auto)", 2},
    {"threads", KEY_THREADS, "N", 0, "At most N threads (default: CKV_NUM_THREADS, else what OpenMP takes)", 2},
    {0}};

static error_t parse_run(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'o':
        options->output = text;
        return 0;
    case KEY_LAYER:
        return add_layer("--layer", text, options);
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_BACKEND:
        return values_backend(text, options);
    case KEY_THREADS:
        return read_int32("--threads", text, 1, CKV_LIMIT_THREADS, &options->threads);
    case ARGP_KEY_END:
        if (options->output == NULL) {
            message_error("--output: missing, wanted -o OUT.safetensors");
            return EINVAL;
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp run_argp = {run_options, parse_run, 0, 0, 0, 0, 0};

static const struct argp_child shared[] = {{&policy_argp, 0, 0, 0}, {&run_argp, 0, 0, 0}, {0}};

/* The one input file; checked before the options that are missing. */
static error_t parse_input(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options;
        state->child_inputs[1] = options;
        return 0;
    case ARGP_KEY_ARG:
        if (options->input != NULL) {
            message_error("'%s': a second file, wanted one input file", text);
            return EINVAL;
        }
        options->input = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        message_error("no input file, wanted %s IN.safetensors -o OUT.safetensors", state->name);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ the commands */

static const struct argp_option evict_options[] = {
    {"model", KEY_MODEL, "FILE", 0,
     "Take W_O from this Hugging Face checkpoint: a .safetensors file, or the .safetensors.index.json of a sharded one",
     2},
    {"compact", KEY_COMPACT, 0, 0, "Also write the kept rows of keys and values", 2},
    {"dump", KEY_DUMP, 0, 0, "Also write attention and norm", 2},
    {"no-perturbation", KEY_NO_PERTURBATION, 0, 0, "Leave out attention mass and output perturbation", 2},
    {"no-skip", KEY_NO_SKIP, 0, 0, "Compute every norm, also where it cannot change what is kept", 2},
    {0}};

static error_t parse_evict(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_MODEL:
        options->model = text;
        return 0;
    case KEY_COMPACT:
        options->compact = true;
        return 0;
    case KEY_DUMP:
        options->dump = true;
        return 0;
    case KEY_NO_PERTURBATION:
        options->no_perturbation = true;
        return 0;
    case KEY_NO_SKIP:
        options->policy.skip = 0;
        return 0;
    case ARGP_KEY_END:
        if (options->policy.window == 0)
            return values_wrong("--window", "0", "at least 1: the window's queries are what scores");
        return 0;
    default:
        return parse_input(key, text, state);
    }
}

static const struct argp evict_argp = {
    evict_options,
    parse_evict,
    "IN.safetensors -o OUT.safetensors",
    "Choose the KV-cache entries worth keeping, by attention and by output perturbation (CriticalKV), and show what "
    "that costs."
    "\v"
    "Per layer N, IN holds layers.N.query [Hq,w,d], layers.N.key [Hkv,n,d], layers.N.value [Hkv,n,dv] and, without "
    "--model, layers.N.o_proj.weight [D,Hq*dv], each F32, F16 or BF16.  OUT gets layers.N.kept and "
    "layers.N.kept_offsets, I32.  See ckv(1).",
    shared,
    0,
    0};

static const struct argp select_argp = {
    0,
    parse_input,
    "IN.safetensors -o OUT.safetensors",
    "Choose the KV-cache entries worth keeping from attention and norm that are given."
    "\v"
    "Per layer N, IN holds layers.N.attention and layers.N.norm [Hkv,n], F32.  OUT gets layers.N.kept and "
    "layers.N.kept_offsets, I32.  See ckv(1).",
    shared,
    0,
    0};

static const struct argp_option info_options[] = {
    {"json", KEY_JSON, 0, 0, "As JSON", 0},
    {"backend", KEY_BACKEND, "NAME[:DEVICE]", 0, "Show what this would choose (default: CKV_BACKEND, else auto)", 0},
    {0}};

static error_t parse_info(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_BACKEND:
        return values_backend(text, options);
    case ARGP_KEY_ARG:
        message_error("'%s': an argument, wanted none after ckv info", text);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp info_argp = {
    info_options,
    parse_info,
    "",
    "Show the version, how it was built, and the backends and devices: which is chosen, which else can be used, and why "
    "others cannot.",
    0,
    0,
    0};

static bool parse(const struct argp *argp, int argc, char **argv, struct options *options)
{
    memset(options, 0, sizeof *options);
    ckv_policy_init(&options->policy);
    return values_parse(argp, argc, argv, options);
}

bool options_parse_evict(int argc, char **argv, struct options *options)
{
    return parse(&evict_argp, argc, argv, options);
}

bool options_parse_select(int argc, char **argv, struct options *options)
{
    return parse(&select_argp, argc, argv, options);
}

bool options_parse_info(int argc, char **argv, struct options *options)
{
    return parse(&info_argp, argc, argv, options);
}

void options_free(struct options *options)
{
    free(options->layers);
    free(options->backend);
    memset(options, 0, sizeof *options);
}

/* ------------------------------------------------------------------ in words */

/* Decimals only ever come from decimal text, so that long division ends. */
static void decimal(const ckv_ratio *ratio, char *text, size_t size)
{
    int64_t rest = ratio->numerator % ratio->denominator;
    size_t used = (size_t)snprintf(text, size, "%" PRId64, ratio->numerator / ratio->denominator);

    for (int digit = 0; digit < 12 && rest != 0 && used + 3 < size; digit++) {
        rest *= 10;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%d", digit == 0 ? "." : "", (int)(rest / ratio->denominator));
        rest %= ratio->denominator;
    }
}

void options_policy_text(const ckv_policy *policy, struct policy_text *text)
{
    memset(text, 0, sizeof *text);
    if (policy->budget >= 0) {
        snprintf(text->budget, sizeof text->budget, "%" PRId64, policy->budget);
    } else {
        decimal(&policy->keep, text->keep, sizeof text->keep);
        snprintf(text->keep_ratio, sizeof text->keep_ratio, "%" PRId64 "/%" PRId64, policy->keep.numerator,
                 policy->keep.denominator);
    }
    decimal(&policy->alpha, text->alpha, sizeof text->alpha);
    snprintf(text->alpha_ratio, sizeof text->alpha_ratio, "%" PRId64 "/%" PRId64, policy->alpha.numerator,
             policy->alpha.denominator);
    if (policy->recent < 0)
        snprintf(text->recent, sizeof text->recent, "window");
    else
        snprintf(text->recent, sizeof text->recent, "%" PRId32, policy->recent);
    /* The shortest digits that read back as the same float. */
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text->epsilon, sizeof text->epsilon, "%.*g", digits, (double)policy->epsilon);
        if (strtof(text->epsilon, NULL) == policy->epsilon)
            break;
    }
    if (policy->pool == CKV_POOL_NONE)
        snprintf(text->pool, sizeof text->pool, "none");
    else
        snprintf(text->pool, sizeof text->pool, "%s:%" PRId32, policy->pool == CKV_POOL_MAX ? "max" : "avg",
                 policy->pool_width);
}
