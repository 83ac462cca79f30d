/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv verify. */
#include "verify_options.h"

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
    KEY_SEED = 256, /* above every character: these have no short form */
    KEY_PROBLEMS,
    KEY_MINUTES,
    KEY_BACKEND,
    KEY_JUNIT,
    KEY_JSON,
    KEY_REPLAY,
    KEY_PLANT
};

/* ------------------------------------------------------------------ values */

static error_t read_count(const char *option, const char *text, int64_t least, uint64_t *value)
{
    int64_t read = 0;
    error_t status = values_integer(option, text, least, INT64_MAX, false, &read);

    if (status == 0)
        *value = (uint64_t)read;
    return status;
}

static error_t read_minutes(const char *text, double *minutes)
{
    char *end = NULL;
    double value = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : 0;

    if (end == NULL || end == text || *end != '\0' || !(value > 0 && value <= 100000))
        return values_wrong("--minutes", text, "minutes above 0, at most 100000");
    *minutes = value;
    return 0;
}

static error_t read_backends(char *text, struct verify_options *options)
{
    for (char *at = text;;) {
        char *comma = strchr(at, ',');

        if (comma != NULL)
            *comma = '\0';
        if (at[0] == '\0' || at[0] == ':' || at[strlen(at) - 1] == ':')
            return values_wrong("--backend", at, "a list of NAME or NAME:DEVICE, such as cpu,opencl:0");
        if (options->backend_count == VERIFY_BACKENDS) {
            message_error("--backend: more than %d names, wanted at most as many", VERIFY_BACKENDS);
            return EINVAL;
        }
        options->backends[options->backend_count++] = at;
        if (comma == NULL)
            return 0;
        at = comma + 1;
    }
}

static error_t read_plant(char *text, struct verify_options *options)
{
    static const char *const known[] = {"ref", "cpu", "cuda", "hip", "opencl"};
    static const char wanted[] = "BACKEND:STAGE, of ref, cpu, cuda, hip and opencl, and of score, norm, select, "
                                 "compact and evict";
    const char *colon = strchr(text, ':');

    options->plant_text = text;
    for (size_t i = 0; colon != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == (size_t)(colon - text) && strncmp(text, known[i], strlen(known[i])) == 0)
            options->plant.backend = known[i];
    options->plant.stage = colon == NULL ? VERIFY_STAGES : verify_stage_named(colon + 1);
    if (options->plant.backend == NULL || options->plant.stage == VERIFY_STAGES)
        return values_wrong("--plant", text, wanted);
    return 0;
}

/* ------------------------------------------------------------------ the parser */

static const struct argp_option table[] = {
    {0, 0, 0, 0, "What is run:", 1},
    {"seed", KEY_SEED, "N", 0, "Which problems: the same N gives the same ones everywhere (default 1)", 1},
    {"problems", KEY_PROBLEMS, "N", 0, "So many of them", 1},
    {"minutes", KEY_MINUTES, "M", 0, "As many as M minutes allow (default 1, without --problems)", 1},
    {"backend", KEY_BACKEND, "LIST", 0, "On these alone: NAME or NAME:DEVICE, commas between (default: all usable)", 1},
    {"replay", KEY_REPLAY, "FILE", 0, "The problem of FILE, where it differed or on --backend, in place of random ones",
     1},
    {0, 0, 0, 0, "What comes out:", 2},
    {"output", 'o', "FILE", 0, "Where a problem that differs goes (default: a name in this folder)", 2},
    {"junit", KEY_JUNIT, "FILE", 0, "Also a report in JUnit's XML", 2},
    {"json", KEY_JSON, 0, 0, "Report as JSON on standard output, in place of the table", 2},
    {"plant", KEY_PLANT, "BACKEND:STAGE", 0,
     "Get a bit of that stage wrong on that backend, to see that it is found: the run must fail", 2},
    {0}};

static error_t settle(struct verify_options *options, bool seeded)
{
    if (options->junit != NULL && options->output != NULL && strcmp(options->junit, options->output) == 0) {
        message_error("--output: '%s': the file of --junit too, wanted another", options->output);
        return EINVAL;
    }
    if (options->replay != NULL && (seeded || options->problems > 0 || options->minutes > 0)) {
        message_error("--replay: given with --seed, --problems or --minutes, wanted without: the file has its problem");
        return EINVAL;
    }
    if (options->replay != NULL && (options->junit != NULL || options->json || options->output != NULL)) {
        message_error("--replay: given with --junit, --json or --output, wanted without");
        return EINVAL;
    }
    if (options->problems == 0 && options->minutes <= 0)
        options->minutes = 1;
    return 0;
}

/* What is parsed, and whether the seed was given. */
struct given {
    struct verify_options *options;
    bool seed;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct given *given = state->input;
    struct verify_options *options = given->options;

    switch (key) {
    case KEY_SEED:
        given->seed = true;
        return read_count("--seed", text, 0, &options->seed);
    case KEY_PROBLEMS:
        return read_count("--problems", text, 1, &options->problems);
    case KEY_MINUTES:
        return read_minutes(text, &options->minutes);
    case KEY_BACKEND:
        return read_backends(text, options);
    case KEY_REPLAY:
        options->replay = text;
        return 0;
    case 'o':
        options->output = text;
        return 0;
    case KEY_JUNIT:
        options->junit = text;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_PLANT:
        return read_plant(text, options);
    case ARGP_KEY_ARG:
        message_error("'%s': an argument, wanted options alone after ckv verify", text);
        return EINVAL;
    case ARGP_KEY_END:
        return settle(options, given->seed);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp verify_argp = {
    table,
    parse,
    "",
    "Run random problems on every backend, device and variant, and hold every bit against the reference."
    "\v"
    "Shapes, dtypes, strides, policies and numbers are as awkward as the interface allows.  The first difference ends "
    "the run: its problem is made as small as it goes and saved for --replay.  Exit status: 0 all equal, 1 a "
    "difference, 2 wrong usage, 3 an error, 130 or 143 interrupted.  See ckv(1).",
    0,
    0,
    0};

bool verify_options_parse(int argc, char **argv, struct verify_options *options)
{
    struct given given = {.options = options};

    memset(options, 0, sizeof *options);
    options->seed = 1;
    return values_parse(&verify_argp, argc, argv, &given);
}
