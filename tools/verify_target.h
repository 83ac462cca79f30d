/* SPDX-License-Identifier: Apache-2.0 */
/* What ckv verify runs problems on: every device, in every variant that it has. */
#ifndef CKV_TOOLS_VERIFY_TARGET_H
#define CKV_TOOLS_VERIFY_TARGET_H

#include "verify.h"

#define VERIFY_CONTEXTS 4 /* of a target: numbers of threads, each with other values of what may be tuned */
#define VERIFY_NAME 160
#define VERIFY_VARIANT 64
#define VERIFY_PARAMETERS 512

struct verify_count {
    uint64_t problems, bits, differences, errors;
};

struct verify_target {
    char backend[16], device[16]; /* the device's number, "" where the backend has none */
    char name[VERIFY_NAME];       /* of the device */
    /* A tunable's value that all contexts have, "isa=avx2"; "": the device as it comes. */
    char variant[VERIFY_VARIANT];
    unsigned stages;                                     /* that the variant can make a difference to */
    char parameters[VERIFY_CONTEXTS][VERIFY_PARAMETERS]; /* ckv_context_options.parameters */
    ckv_context *contexts[VERIFY_CONTEXTS];              /* made when they are needed */

    struct verify_count count[VERIFY_STAGES];
    uint64_t left_out;  /* problems that would have taken too long */
    double seconds;     /* of those that ran, and of making contexts */
    double least;       /* seconds of the shortest problem: what each takes beside its work */
    double widest;      /* multiply-adds of the greatest problem so far */
    double widest_took; /* its seconds */
};

/* A row of ckv info, or a value of a tunable, that nothing runs on. */
struct verify_skip {
    char backend[16], device[16], variant[VERIFY_VARIANT];
    char reason[256];
};

struct verify_targets {
    ckv_context *reference;
    struct verify_target *targets;
    size_t count;
    struct verify_skip *skips;
    size_t skip_count;
};

/* What --backend says, or a file: NAME or NAME:DEVICE, or all of that when count is 0. */
struct verify_wanted {
    const char *const *texts;
    size_t count;
    const char *file; /* whose metadata say it; NULL: --backend does */
};

/* The exit status, EXIT_DONE when there is something to run on, else after one error line: a
 * backend that nobody knows is wrong usage, one named that cannot be used, or in a file, an error.
 * Free in any case. */
int verify_targets_find(struct verify_targets *all, const struct verify_wanted *wanted);
void verify_targets_free(struct verify_targets *all);

/* Which of its contexts has so many threads. */
int verify_target_index(int32_t threads);

/* NULL after one error line. */
const ckv_context *verify_target_context(struct verify_target *target, int32_t threads);

/* "cpu:0 isa=avx2" */
void verify_target_text(const struct verify_target *target, char *text, size_t size);

#endif
