/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef CKV_TOOLS_OPTIONS_H
#define CKV_TOOLS_OPTIONS_H

#include <ckv/ckv.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    const char *input;
    const char *output;
    const char *model; /* NULL: W_O is in the input */

    ckv_policy policy;
    bool keep_given, budget_given;

    int32_t *layers; /* ascending, each once; none: every layer */
    size_t layer_count;

    const char *backend_text; /* as given, NULL: auto */
    char *backend;
    const char *device; /* within `backend`, NULL: any */
    int32_t threads;    /* 0: no limit given */

    bool compact, dump, json, no_perturbation;
};

/* Each parses the words after `ckv`, argv[0] being the name to show.  False after
 * one error line: the usage is wrong.  Wrong options, --help and --version end
 * the process, as is argp's way. */
bool options_parse_evict(int argc, char **argv, struct options *options);
bool options_parse_select(int argc, char **argv, struct options *options);
bool options_parse_info(int argc, char **argv, struct options *options);

void options_free(struct options *options);

/* The policy in words and numbers, the same on every machine. */
struct policy_text {
    char keep[32], alpha[32];             /* decimal; keep is "" when a budget was given */
    char keep_ratio[48], alpha_ratio[48]; /* "2/5" */
    char budget[32], recent[16];          /* recent: "window" when it follows the window */
    char epsilon[32], pool[32];
};

void options_policy_text(const ckv_policy *policy, struct policy_text *text);

#endif
