/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv-device-bench. */
#define _GNU_SOURCE
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

const char *const stage_names[STAGES] = {"score", "norm", "select", "compact", "evict", "replay", "compact-in-place"};

static const char usage[] =
    "Usage: ckv-device-bench [OPTION...]\n"
    "Checks a layer in a GPU's memory against the host's bytes, then times each stage.\n"
    "Exit status: 0; 1 a difference or a failure; 2 a bad option; 77 no such device.\n"
    "\n"
    "  --backend NAME       cuda, hip or opencl (default: the first that has a device)\n"
    "  --device TEXT        index, or part of a device's name\n"
    "  --tokens N[,N...]    tokens of each case (default 4096,32768,131072)\n"
    "  --shape NAME         what the sizes are called (default Llama-3.1-8B)\n"
    "  --query-heads N (32)  --kv-heads N (8)  --head-dim N (128)  --value-dim N (128)  --hidden N (4096)\n"
    "  --dtype bf16|f16     of all tensors (default bf16)\n"
    "  --keep R             share kept (default 0.4)\n"
    "  --window N           queries that score (default 32)\n"
    "  --repeats N          timed runs of a stage (default 20)\n"
    "  --warm-up N          runs before them (default 3)\n"
    "  --most SECONDS       fewer runs where they would take longer, at least 3 (default 4)\n"
    "  --copy-mib N         size of the copy that bandwidth is measured with (default 1024)\n"
    "  --reference NAME     backend of the host to compare with: cpu (default) or ref\n"
    "  --no-check           compare nothing\n"
    "  --spoil STAGE        a control: change a bit of that stage's result before it is compared\n"
    "  --json FILE          add a line of JSON for each result\n"
    "  --dump FOLDER        values, weights and norms of one case as raw files\n"
    "  --dump-tokens N      which (default: the first of --tokens)\n";

enum { QUERY_HEADS = 256, KV_HEADS, HEAD_DIM, VALUE_DIM, HIDDEN, WINDOW, REPEATS, WARM_UP, COPY_MIB, DUMP_TOKENS };
enum { BACKEND = 300, DEVICE, TOKENS, SHAPE, DTYPE, KEEP, MOST, REFERENCE, NO_CHECK, SPOIL, JSON, DUMP, HELP };

static const struct option names[] = {{"backend", required_argument, NULL, BACKEND},
                                      {"device", required_argument, NULL, DEVICE},
                                      {"tokens", required_argument, NULL, TOKENS},
                                      {"shape", required_argument, NULL, SHAPE},
                                      {"query-heads", required_argument, NULL, QUERY_HEADS},
                                      {"kv-heads", required_argument, NULL, KV_HEADS},
                                      {"head-dim", required_argument, NULL, HEAD_DIM},
                                      {"value-dim", required_argument, NULL, VALUE_DIM},
                                      {"hidden", required_argument, NULL, HIDDEN},
                                      {"dtype", required_argument, NULL, DTYPE},
                                      {"keep", required_argument, NULL, KEEP},
                                      {"window", required_argument, NULL, WINDOW},
                                      {"repeats", required_argument, NULL, REPEATS},
                                      {"warm-up", required_argument, NULL, WARM_UP},
                                      {"most", required_argument, NULL, MOST},
                                      {"copy-mib", required_argument, NULL, COPY_MIB},
                                      {"reference", required_argument, NULL, REFERENCE},
                                      {"no-check", no_argument, NULL, NO_CHECK},
                                      {"spoil", required_argument, NULL, SPOIL},
                                      {"json", required_argument, NULL, JSON},
                                      {"dump", required_argument, NULL, DUMP},
                                      {"dump-tokens", required_argument, NULL, DUMP_TOKENS},
                                      {"help", no_argument, NULL, HELP},
                                      {NULL, 0, NULL, 0}};

static int bad(const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "ckv-device-bench: --%s: '%s', wanted %s\n", name, value, wanted);
    return 2;
}

/* An integer in [1, most] (window and warm-up: from 0). */
static int number(const char *name, const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end, wanted[64];
    long long got = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || got < least || got > most) {
        snprintf(wanted, sizeof wanted, "an integer in [%lld, %lld]", (long long)least, (long long)most);
        return bad(name, text, wanted);
    }
    *value = got;
    return -1;
}

static int tokens(struct options *options, const char *text)
{
    char part[32];
    options->cases = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        int status;
        if (options->cases == CASES_MAX || length >= sizeof part)
            return bad("tokens", text, "at most 16 numbers");
        memcpy(part, text, length);
        part[length] = '\0';
        status = number("tokens", part, 1, (int64_t)1 << 22, &options->tokens[options->cases]);
        if (status >= 0)
            return status;
        options->cases++;
        text += length + (text[length] == ',');
    }
    return options->cases > 0 ? -1 : bad("tokens", "", "a number");
}

static int word(struct options *options, int key, const char *name, const char *text)
{
    switch (key) {
    case DTYPE:
        options->dtype = strcmp(text, "f16") == 0 ? CKV_F16 : CKV_BF16;
        return strcmp(text, "f16") == 0 || strcmp(text, "bf16") == 0 ? -1 : bad(name, text, "bf16 or f16");
    case KEEP:
        options->keep_text = text;
        return ckv_ratio_parse(text, &options->keep) == CKV_OK && options->keep.numerator <= options->keep.denominator
                   ? -1
                   : bad(name, text, "a number in [0, 1]");
    case MOST: {
        char *end;
        options->most = strtod(text, &end);
        return end != text && *end == '\0' && options->most >= 0 && options->most <= 3600
                   ? -1
                   : bad(name, text, "seconds in [0, 3600]");
    }
    case REFERENCE:
        options->reference = text;
        return strcmp(text, "cpu") == 0 || strcmp(text, "ref") == 0 ? -1 : bad(name, text, "cpu or ref");
    case BACKEND:
        options->backend = text;
        return strcmp(text, "cuda") == 0 || strcmp(text, "hip") == 0 || strcmp(text, "opencl") == 0
                   ? -1
                   : bad(name, text, "cuda, hip or opencl");
    default: /* SPOIL */
        for (options->spoil = 0; options->spoil < STAGES; options->spoil++)
            if (strcmp(text, stage_names[options->spoil]) == 0)
                return -1;
        return bad(name, text, "a stage: score, norm, select, compact, evict, replay or compact-in-place");
    }
}

static int count(struct options *options, int key, const char *name, const char *text)
{
    static const int64_t most[] = {1 << 16, 1 << 16, 1 << 15, 512, 1 << 15, 1 << 20, 10000, 1000, 1 << 20, 1 << 22};
    int64_t value = 0;
    int status = number(name, text, key == WARM_UP ? 0 : 1, most[key - QUERY_HEADS], &value);
    int32_t *const places[] = {&options->query_heads, &options->kv_heads, &options->head_dim, &options->value_dim,
                               &options->hidden,      &options->window,   &options->repeats,  &options->warm_up};
    if (status >= 0)
        return status;
    if (key == COPY_MIB)
        options->copy = value << 20;
    else if (key == DUMP_TOKENS)
        options->dump_tokens = value;
    else
        *places[key - QUERY_HEADS] = (int32_t)value;
    return -1;
}

static int take(struct options *options, int key, const char *name, const char *text)
{
    switch (key) {
    case DEVICE:
        options->device = text;
        return -1;
    case SHAPE:
        options->shape = text;
        return -1;
    case TOKENS:
        return tokens(options, text);
    case NO_CHECK:
        options->check = 0;
        return -1;
    case JSON:
        options->json = text;
        return -1;
    case DUMP:
        options->dump = text;
        return -1;
    case HELP:
        fputs(usage, stdout);
        return 0;
    default:
        return key >= BACKEND ? word(options, key, name, text) : count(options, key, name, text);
    }
}

int options_read(struct options *options, int argc, char **argv)
{
    int key, index = 0;
    *options = (struct options){.reference = "cpu",
                                .shape = "Llama-3.1-8B",
                                .query_heads = 32,
                                .kv_heads = 8,
                                .head_dim = 128,
                                .value_dim = 128,
                                .hidden = 4096,
                                .window = 32,
                                .tokens = {4096, 32768, 131072},
                                .cases = 3,
                                .dtype = CKV_BF16,
                                .keep_text = "0.4",
                                .keep = {2, 5},
                                .repeats = 20,
                                .warm_up = 3,
                                .most = 4,
                                .check = 1,
                                .spoil = -1};
    while ((key = getopt_long(argc, argv, "", names, &index)) != -1) {
        int status = key == '?' ? 2 : take(options, key, names[index].name, optarg);
        if (status >= 0)
            return status;
    }
    if (optind < argc) {
        fprintf(stderr, "ckv-device-bench: '%s', wanted options alone\n", argv[optind]);
        return 2;
    }
    if (options->query_heads % options->kv_heads != 0) {
        fprintf(stderr, "ckv-device-bench: --query-heads: %d, wanted a multiple of --kv-heads %d\n",
                (int)options->query_heads, (int)options->kv_heads);
        return 2;
    }
    if (options->dump_tokens == 0)
        options->dump_tokens = options->tokens[0];
    return -1;
}
