/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a race, and what may be concluded from them. */
#ifndef CKV_AUTOTUNE_RACE_H
#define CKV_AUTOTUNE_RACE_H

#include "space.h"

#define RACE_GAIN 0.02 /* less is not worth a difference between two runs */
#define RACE_ROUNDS 15 /* at most */
#define RACE_ENOUGH 9  /* rounds after which a lead is believed */

struct entrant {
    struct candidate candidate;
    double samples[RACE_ROUNDS]; /* seconds */
    int count;
    bool out; /* rejected, or clearly worse */
};

/* Against the first of the same race, by the rounds that both have. */
struct standing {
    int rounds, below; /* below: rounds in which it was the faster */
    double ratio;      /* median of the rounds' ratios: its time to the first's; 1 where there is no round */
    double least;      /* ratio */
};

struct standing race_standing(const struct entrant *first, const struct entrant *entrant);
double race_median(const struct entrant *entrant);

/* Whether `below` of `rounds` is beyond chance (a sign test at 5%), where the best of
 * `tried` was looked for. */
bool race_beyond_chance(int below, int rounds, int tried);

/* Faster beyond chance, and by more than RACE_GAIN. */
bool race_is_faster(const struct standing *standing, int tried);

/* Nothing that may still come can make it worth while. */
bool race_is_lost(const struct standing *standing);

#endif
