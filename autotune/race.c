/* SPDX-License-Identifier: Apache-2.0 */
/* What may be concluded from the samples of a race. */
#include "race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

static double median(const double *values, int count)
{
    double sorted[RACE_ROUNDS];

    if (count == 0)
        return 0;
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double race_median(const struct entrant *entrant)
{
    return median(entrant->samples, entrant->count);
}

struct standing race_standing(const struct entrant *first, const struct entrant *entrant)
{
    struct standing standing = {0, 0, 1, 1};
    double ratios[RACE_ROUNDS];

    standing.rounds = first->count < entrant->count ? first->count : entrant->count;
    for (int i = 0; i < standing.rounds; i++) {
        ratios[i] = entrant->samples[i] / fmax(first->samples[i], 1e-12);
        standing.below += entrant->samples[i] < first->samples[i];
        standing.least = i == 0 ? ratios[i] : fmin(standing.least, ratios[i]);
    }
    if (standing.rounds > 0)
        standing.ratio = median(ratios, standing.rounds);
    return standing;
}

bool race_beyond_chance(int below, int rounds, int tried)
{
    double way = 1, tail = 0; /* of `rounds` fair coins, `below` or more heads */

    for (int heads = rounds; heads >= below && heads >= 0; heads--) {
        tail += way;
        way *= (double)heads / (double)(rounds - heads + 1);
    }
    return tail * pow(0.5, rounds) * (tried < 1 ? 1 : tried) <= 0.05;
}

bool race_is_faster(const struct standing *standing, int tried)
{
    return standing->ratio < 1 - RACE_GAIN && race_beyond_chance(standing->below, standing->rounds, tried);
}

bool race_is_lost(const struct standing *s)
{
    return (s->rounds >= 2 && s->least > 1.25) || (s->rounds >= 3 && s->least > 1.05) ||
           (s->rounds >= 5 && (s->below == 0 || s->ratio > 1)) ||
           (s->rounds >= RACE_ENOUGH && s->ratio > 1 - RACE_GAIN);
}
