/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv bench. */
#ifndef CKV_BENCH_OPTIONS_H
#define CKV_BENCH_OPTIONS_H

#include "timing.h"
#include "tools/options.h"
#include "work.h"

#define BENCH_MOST 16 /* entries of a list */

struct bench_options {
    struct options run; /* backend, device, threads, json; input is the name in error lines */

    const char *subjects[BENCH_MOST]; /* shapes' names, shape files and captures */
    size_t subject_count;
    int64_t tokens[BENCH_MOST];
    size_t token_count;
    ckv_ratio keeps[BENCH_MOST];
    size_t keep_count;
    bool stages[BENCH_STAGES];
    ckv_dtype dtype;
    struct effort effort;
    bool quick, targets, peers;
};

/* False after one error line: the usage is wrong.  Free in any case. */
bool bench_options_parse(int argc, char **argv, struct bench_options *options);
void bench_options_free(struct bench_options *options);

/* "0.4" */
void bench_keep_text(const ckv_ratio *keep, char *text, size_t size);

#endif
