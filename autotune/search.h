/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for a group's best values on one problem.
 *
 * The model ranks the candidates; the best few race against the default in rounds, one
 * sample of each in turn, so that what disturbs the machine meets all.  Where there are more
 * than a few, one tunable after another is varied from the winner on.  A candidate
 * whose bits are not the reference's, that fails, dies or does not come back is rejected
 * and the search goes on.  The default yields only to one that is faster beyond chance
 * (race.h), in that race and in another one of the two alone.
 *
 * Nothing here runs a stage: that is the trials' part, so that tests can make up theirs.
 */
#ifndef CKV_AUTOTUNE_SEARCH_H
#define CKV_AUTOTUNE_SEARCH_H

#include "race.h"

#define SEARCH_FEW 8 /* candidates that race at once */
#define SEARCH_REASON 160

enum verdict {
    VERDICT_GOOD,
    VERDICT_REJECTED, /* the reason says why */
    VERDICT_LATE,     /* no answer within the limit */
    VERDICT_STOPPED   /* the user wants no more */
};

/* Who tries candidates. */
struct trials {
    void *self;
    double (*clock)(void *self); /* seconds */
    /* Seconds by the model, 0 where it has none. */
    double (*estimate)(void *self, const struct group *group, const struct candidate *candidate);
    /* Bits against the reference's, and against those of the candidate that was checked first. */
    enum verdict (*check)(void *self, const struct group *group, const struct candidate *candidate, double limit,
                          char *reason);
    /* Seconds of one run, `repeats` times. */
    enum verdict (*time)(void *self, const struct group *group, const struct candidate *candidate, int repeats,
                         double limit, double *seconds, char *reason);
    /* For a progress bar; may be NULL. */
    void (*note)(void *self, int done, int of);
};

struct rejected {
    struct candidate candidate;
    char reason[SEARCH_REASON];
    struct rejected *next;
};

enum ending {
    ENDING_DONE,
    ENDING_BUDGET, /* spent before all was tried */
    ENDING_STOPPED,
    ENDING_MODEL,  /* nothing was to be run */
    ENDING_DEFAULT /* the default itself could not be timed */
};

struct found {
    struct candidate chosen;
    bool measured; /* the default was timed: the times are there */
    bool changed;  /* chosen is not the default */
    double default_seconds, chosen_seconds;
    double ratio; /* chosen to default, median of the rounds' ratios; 1 where unchanged */
    int candidates, timed;
    enum ending ending;
    struct rejected *rejected; /* as they were met */

    /* Of an exhaustive search. */
    bool exhaustive;
    struct candidate best, searched;       /* of all; and what the search without it chose */
    double best_seconds, searched_seconds; /* medians of one race of both */
    double best_ratio;                     /* searched to best */
};

struct search {
    const struct space *space;
    const struct group *group;
    struct candidate base; /* the default, with what was chosen for other groups before */
    const struct trials *trials;
    double deadline; /* by the trials' clock */
    double patience; /* seconds that a candidate may take beyond what the default's time explains */
    bool model_only, exhaustive;
};

/* Always a result: the default, if nothing else. */
void search_run(const struct search *search, struct found *found);
void search_free(struct found *found);

/* The group's combinations as the model ranks them, the default first of equals: at most
 * `most` of them; how many. */
size_t search_rank(const struct search *search, struct candidate *ranked, size_t most);

#endif
