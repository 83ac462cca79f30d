/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of ckv tune. */
#ifndef CKV_AUTOTUNE_OPTIONS_H
#define CKV_AUTOTUNE_OPTIONS_H

#include "space.h"
#include "tools/options.h"

#define TUNE_MOST 16 /* entries of a list */

struct tune_options {
    struct options run; /* backend, device, threads, json; input is the name in error lines */

    const char *stages[SPACE_STAGES]; /* none: all that have tunables */
    size_t stage_count;
    const char *subjects[TUNE_MOST]; /* shapes' names and files */
    size_t subject_count;
    int64_t tokens[TUNE_MOST];
    size_t token_count;
    double budget; /* seconds; 0: the model alone */
    const char *output;
    bool exhaustive, dry_run;
};

/* False after one error line: the usage is wrong.  Free in any case. */
bool tune_options_parse(int argc, char **argv, struct tune_options *options);
void tune_options_free(struct tune_options *options);

#endif
