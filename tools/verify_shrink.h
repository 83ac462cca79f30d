/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a problem that shows a difference as small as it goes. */
#ifndef CKV_TOOLS_VERIFY_SHRINK_H
#define CKV_TOOLS_VERIFY_SHRINK_H

#include "verify.h"

struct verify_shrink {
    /* Whether a problem still shows it. */
    bool (*differs)(void *context, const struct verify_problem *p);
    void *context;
    int64_t most_tries; /* what ends it wherever it runs */
    double most_seconds;
    int64_t tries;        /* out */
    int (*stopped)(void); /* not 0: what is found is small enough; may be NULL */
};

/*
 * Greedy: axes are cut by halves and by ones, from either end; options, layouts, dtypes and
 * numbers become plain ones, one after another, for as long as anything helps.  The same
 * steps for the same answers, unless the time is over first.  False when out of memory;
 * *p is a problem that differs all the same.
 */
bool verify_shrink(struct verify_shrink *shrink, enum verify_stage stage, struct verify_problem *p);

/* Part of a problem: `length` of an axis, from `first` on; 0 drops what has the axis. */
bool verify_cut(struct verify_problem *to, const struct verify_problem *from, enum verify_axis axis, int64_t first,
                int64_t length);

#endif
