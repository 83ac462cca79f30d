/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a group's best values on one problem. */
#include "search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 20e-3     /* seconds that a sample takes at least, by repeats */
#define REPEATS_MOST 20  /* of a sample */
#define FIRST_LAUNCH 0.5 /* seconds beyond the deadline, before it is known how long one takes */
#define SLOW 5           /* times the default's, beside patience: the time-out of a candidate */
#define HOPELESS 4       /* times the default, by the model */
#define PASSES 3         /* over the tunables, where they are searched one after another */

/* What is known of a candidate. */
struct seen {
    struct candidate candidate;
    bool good;
    bool raced;
    struct candidate against; /* the first of the last race that it was in */
};

struct runner {
    const struct search *search;
    struct found *found;
    struct seen *seen;
    size_t seen_count, seen_room;
    double wall;    /* seconds of the default's first check and run, with all that they need */
    int repeats;    /* of a sample */
    int tried;      /* candidates that have raced */
    int expected;   /* candidates in all, as far as is known */
    bool raced_all; /* every candidate was in one race */
    bool over;      /* no more is to be run */
};

static double now(const struct runner *r)
{
    return r->search->trials->clock(r->search->trials->self);
}

/* ------------------------------------------------------------------ the model's ranks */

struct ranked {
    double seconds;
    int distance;
    int64_t number;
    struct candidate candidate;
};

static int by_rank(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    if (a->distance != b->distance)
        return a->distance - b->distance;
    return (a->number > b->number) - (a->number < b->number);
}

static struct ranked rank(const struct search *search, const struct candidate *candidate, int64_t number)
{
    const struct trials *trials = search->trials;
    struct ranked ranked = {.number = number, .candidate = *candidate};

    ranked.seconds = trials->estimate(trials->self, search->group, candidate);
    ranked.distance = space_distance(search->group, candidate, &search->base);
    return ranked;
}

static size_t sort(struct ranked *all, size_t count, struct candidate *ranked, size_t most)
{
    qsort(all, count, sizeof *all, by_rank);
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++)
        ranked[i] = all[i].candidate;
    return count;
}

size_t search_rank(const struct search *search, struct candidate *ranked, size_t most)
{
    size_t count = search->group->size < (double)CANDIDATES ? (size_t)search->group->size : (size_t)CANDIDATES;
    struct ranked *all = calloc(count == 0 ? 1 : count, sizeof *all);

    if (all == NULL)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct candidate candidate = space_nth(search->space, search->group, &search->base, (int64_t)i);

        all[i] = rank(search, &candidate, (int64_t)i);
    }
    count = sort(all, count, ranked, most);
    free(all);
    return count;
}

/* One tunable's other values. */
static size_t rank_along(const struct search *search, const struct candidate *center, int32_t member,
                         struct candidate *ranked, size_t most)
{
    int32_t index = search->group->members[member];
    const struct tunable *t = &search->space->tunables[index];
    struct ranked all[SPACE_VALUES];
    size_t count = 0;

    for (int32_t i = 0; i < t->count; i++) {
        struct candidate candidate = *center;

        candidate.value[index] = t->values[i];
        if (t->values[i] != center->value[index])
            all[count++] = rank(search, &candidate, i);
    }
    return sort(all, count, ranked, most);
}

/* Without those that are hopeless by the model; of an exhaustive search none is. */
static size_t promising(const struct runner *r, struct candidate *ranked, size_t count)
{
    const struct trials *trials = r->search->trials;
    double base = trials->estimate(trials->self, r->search->group, &r->search->base);
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (base <= 0 || r->search->exhaustive ||
            trials->estimate(trials->self, r->search->group, &ranked[i]) <= HOPELESS * base)
            ranked[kept++] = ranked[i];
    return kept;
}

/* ------------------------------------------------------------------ one candidate */

static void reject(struct runner *r, const struct candidate *candidate, const char *reason)
{
    struct rejected **end = &r->found->rejected, *one = calloc(1, sizeof *one);

    if (one == NULL)
        return;
    one->candidate = *candidate;
    snprintf(one->reason, sizeof one->reason, "%s", reason);
    while (*end != NULL)
        end = &(*end)->next;
    *end = one;
}

/* How long the next request of so many runs may take: some times what the default takes,
 * and not beyond what is left by more than one launch. */
static double limit_of(const struct runner *r, bool is_default, int runs)
{
    double left = r->search->deadline - now(r), launch = r->found->measured ? 2 * r->found->default_seconds : 0;

    left = (left > 0 ? left : 0) + fmax(launch, FIRST_LAUNCH);
    if (is_default)
        return left;
    return fmin(left, r->search->patience + 2 * r->wall + SLOW * runs * r->found->default_seconds);
}

static bool is_over(struct runner *r)
{
    if (!r->over && now(r) >= r->search->deadline) {
        r->over = true;
        r->found->ending = ENDING_BUDGET;
    }
    return r->over;
}

/* True: go on with it. */
static bool take_verdict(struct runner *r, const struct candidate *candidate, enum verdict verdict, double limit,
                         const char *reason)
{
    char late[SEARCH_REASON];

    switch (verdict) {
    case VERDICT_GOOD:
        return true;
    case VERDICT_REJECTED:
        reject(r, candidate, reason);
        return false;
    case VERDICT_LATE:
        if (is_over(r)) /* it may be as good as any */
            return false;
        snprintf(late, sizeof late, "no answer within %.3g s", limit);
        reject(r, candidate, late);
        return false;
    default:
        r->over = true;
        r->found->ending = ENDING_STOPPED;
        return false;
    }
}

static struct seen *find(struct runner *r, const struct candidate *candidate)
{
    for (size_t i = 0; i < r->seen_count; i++)
        if (space_distance(r->search->group, &r->seen[i].candidate, candidate) == 0)
            return &r->seen[i];
    return NULL;
}

static struct seen *add(struct runner *r, const struct candidate *candidate, bool good)
{
    if (r->seen_count == r->seen_room) {
        size_t room = r->seen_room * 2 + 16;
        struct seen *grown = realloc(r->seen, room * sizeof *grown);

        if (grown == NULL)
            return NULL;
        r->seen = grown;
        r->seen_room = room;
    }
    r->seen[r->seen_count] = (struct seen){.candidate = *candidate, .good = good};
    return &r->seen[r->seen_count++];
}

/* Its bits are right: asked once. */
static bool is_right(struct runner *r, const struct candidate *candidate, bool is_default)
{
    const struct trials *trials = r->search->trials;
    const struct seen *seen = find(r, candidate);
    char reason[SEARCH_REASON] = "";
    double limit;
    enum verdict verdict;

    if (seen != NULL)
        return seen->good;
    if (is_over(r))
        return false;
    limit = limit_of(r, is_default, 2);
    verdict = trials->check(trials->self, r->search->group, candidate, limit, reason);
    seen = add(r, candidate, take_verdict(r, candidate, verdict, limit, reason));
    if (trials->note != NULL)
        trials->note(trials->self, (int)r->seen_count,
                     r->expected > (int)r->seen_count ? r->expected : (int)r->seen_count);
    return seen != NULL && seen->good;
}

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* One more sample; false: it has none, and is out. */
static bool sample(struct runner *r, struct entrant *entrant, bool is_default)
{
    const struct trials *trials = r->search->trials;
    double seconds[REPEATS_MOST], limit = limit_of(r, is_default, 2);
    char reason[SEARCH_REASON] = "";
    enum verdict verdict =
        trials->time(trials->self, r->search->group, &entrant->candidate, r->repeats, limit, seconds, reason);
    struct seen *seen;

    if (take_verdict(r, &entrant->candidate, verdict, limit, reason)) {
        qsort(seconds, (size_t)r->repeats, sizeof *seconds, ascending);
        entrant->samples[entrant->count++] = seconds[(r->repeats - 1) / 2];
        return true;
    }
    entrant->out = true;
    seen = find(r, &entrant->candidate);
    if (seen != NULL && !r->over)
        seen->good = false;
    return false;
}

/* ------------------------------------------------------------------ a race */

static int in_it(const struct entrant *list, int count)
{
    int alive = 0;

    for (int i = 1; i < count; i++)
        alive += !list[i].out;
    return alive;
}

static bool one_round(struct runner *r, struct entrant *list, int count, int round)
{
    for (int k = 0; k < count; k++) {
        int i = round % 2 == 0 ? k : count - 1 - k;

        if (list[i].out)
            continue;
        if (is_over(r) || (!sample(r, &list[i], i == 0) && (r->over || i == 0)))
            return false;
    }
    return true;
}

/* The first is what the others are compared with.  `to_the_end`: none is dropped for being slow. */
static void race(struct runner *r, struct entrant *list, int count, bool to_the_end)
{
    for (int round = 0; round < RACE_ROUNDS && in_it(list, count) > 0; round++) {
        bool decided = false;

        if (!one_round(r, list, count, round))
            return;
        for (int i = 1; i < count; i++) {
            struct standing standing = race_standing(&list[0], &list[i]);

            list[i].out = list[i].out || (!to_the_end && race_is_lost(&standing));
            decided = decided || (!list[i].out && race_is_faster(&standing, r->tried));
        }
        if (round + 1 >= RACE_ENOUGH && decided && !to_the_end)
            return;
    }
}

/* Who won: 0 unless another is faster beyond chance.  Of equals the earlier one, which the
 * model prefers. */
static int winner(const struct runner *r, const struct entrant *list, int count)
{
    double least = 1;
    int won = 0;

    for (int i = 1; i < count; i++) {
        struct standing standing = race_standing(&list[0], &list[i]);

        if (race_is_faster(&standing, r->tried) && standing.ratio < least * (won == 0 ? 1 : 1 - RACE_GAIN)) {
            least = standing.ratio;
            won = i;
        }
    }
    return won;
}

/* Whether the two have met: once is enough. */
static bool has_met(struct runner *r, const struct candidate *candidate, const struct candidate *first)
{
    const struct seen *seen = find(r, candidate);

    return seen != NULL && seen->raced && space_distance(r->search->group, &seen->against, first) == 0;
}

static void let_meet(struct runner *r, const struct candidate *candidate, const struct candidate *first)
{
    struct seen *seen = find(r, candidate);

    if (seen != NULL) {
        seen->raced = true;
        seen->against = *first;
    }
}

/* Those of the list that are right, behind the one that they are compared with. */
static int line_up(struct runner *r, const struct candidate *first, const struct candidate *ranked, size_t count,
                   struct entrant *list)
{
    int entrants = 1;

    memset(list, 0, (SEARCH_FEW + 1) * sizeof *list);
    list[0].candidate = *first;
    for (size_t i = 0; i < count && entrants <= SEARCH_FEW && !r->over; i++) {
        if (space_distance(r->search->group, &ranked[i], first) == 0 || !is_right(r, &ranked[i], false))
            continue;
        let_meet(r, &ranked[i], first);
        list[entrants++].candidate = ranked[i];
    }
    r->tried += entrants - 1;
    return entrants;
}

static void settle(struct runner *r, const struct entrant *list, int won)
{
    struct standing standing = race_standing(&list[0], &list[won]);

    r->found->chosen = list[won].candidate;
    r->found->changed = won != 0;
    r->found->ratio = won == 0 ? 1 : standing.ratio;
    if (list[0].count > 0)
        r->found->default_seconds = race_median(&list[0]);
    r->found->chosen_seconds = won == 0 ? r->found->default_seconds : race_median(&list[won]);
}

/* ------------------------------------------------------------------ the ways to search */

/* A race of the two alone: what won among many may have been lucky. */
static void confirm(struct runner *r, const struct candidate *center)
{
    struct entrant list[SEARCH_FEW + 1];
    int entrants;

    if (space_distance(r->search->group, center, &r->search->base) == 0)
        return;
    entrants = line_up(r, &r->search->base, center, 1, list);
    race(r, list, entrants, false);
    settle(r, list, winner(r, list, entrants));
}

/* Of a race in which all took part. */
static void note_best(struct runner *r, const struct entrant *list, int entrants)
{
    double least = 1;

    r->found->best = list[0].candidate;
    for (int i = 1; i < entrants; i++) {
        struct standing standing = race_standing(&list[0], &list[i]);

        if (standing.rounds > 0 && standing.ratio < least) {
            least = standing.ratio;
            r->found->best = list[i].candidate;
        }
    }
}

/* From the center on, one tunable after another, while it helps. */
static void descend(struct runner *r, struct candidate *center)
{
    struct candidate ranked[SPACE_VALUES];
    struct entrant list[SEARCH_FEW + 1];
    bool better = true;

    for (int pass = 0; pass < PASSES && better && !r->over; pass++) {
        better = false;
        for (int32_t member = 0; member < r->search->group->count && !r->over; member++) {
            size_t count = promising(r, ranked, rank_along(r->search, center, member, ranked, SPACE_VALUES)), kept = 0;
            int entrants, won;

            for (size_t i = 0; i < count; i++)
                if (!has_met(r, &ranked[i], center))
                    ranked[kept++] = ranked[i];
            entrants = line_up(r, center, ranked, kept, list);
            race(r, list, entrants, false);
            won = winner(r, list, entrants);
            better = better || won != 0;
            *center = list[won].candidate;
        }
    }
}

/* The model's best few of all combinations; where there are more, the neighbours of whom
 * that finds; then the outcome against the default. */
static void search_few(struct runner *r)
{
    struct candidate *ranked = calloc((size_t)CANDIDATES, sizeof *ranked), center = r->search->base;
    struct entrant list[SEARCH_FEW + 1];
    size_t count = ranked == NULL ? 0 : promising(r, ranked, search_rank(r->search, ranked, (size_t)CANDIDATES));
    int entrants;

    r->expected = (int)(count < SEARCH_FEW + 1 ? count : SEARCH_FEW + 1);
    entrants = line_up(r, &center, ranked, count, list);
    free(ranked);
    race(r, list, entrants, false);
    settle(r, list, 0);
    note_best(r, list, entrants);
    r->raced_all = (double)r->seen_count == r->search->group->size && !r->over;
    center = list[winner(r, list, entrants)].candidate;
    if (r->search->group->size > SEARCH_FEW + 1)
        descend(r, &center);
    confirm(r, &center);
}

/* Every candidate against the default. */
static void race_all(struct runner *r, const struct candidate *ranked, size_t count)
{
    struct candidate best = r->search->base;
    struct entrant list[SEARCH_FEW + 1];
    double least = 1;

    r->expected = (int)count;
    for (size_t from = 0; from < count && !r->over; from += SEARCH_FEW) {
        size_t some = count - from < SEARCH_FEW ? count - from : SEARCH_FEW;
        int entrants = line_up(r, &r->search->base, ranked + from, some, list);

        race(r, list, entrants, false);
        for (int i = 1; i < entrants; i++) {
            struct standing standing = race_standing(&list[0], &list[i]);

            if (standing.rounds > 0 && standing.ratio < least) {
                least = standing.ratio;
                best = list[i].candidate;
            }
        }
    }
    r->found->best = best;
}

/* What the search chose beside the best of all, in one race; the better of the two counts. */
static void search_all(struct runner *r)
{
    struct found *found = r->found;
    struct candidate *ranked = calloc((size_t)CANDIDATES, sizeof *ranked), best;
    struct entrant list[SEARCH_FEW + 1];
    size_t count = ranked == NULL ? 0 : search_rank(r->search, ranked, (size_t)CANDIDATES);
    struct standing standing;

    found->searched = found->chosen;
    if (count > 0 && !r->raced_all)
        race_all(r, ranked, count);
    best = found->best;
    if (count > 0 && !r->over) {
        int entrants = line_up(r, &found->searched, &best, 1, list);

        race(r, list, entrants, true);
        found->exhaustive = !r->over;
        found->searched_seconds = entrants == 2 ? race_median(&list[0]) : found->chosen_seconds;
        found->best_seconds = entrants == 2 ? race_median(&list[1]) : found->chosen_seconds;
        standing = race_standing(&list[0], &list[entrants - 1]);
        found->best_ratio = standing.ratio > 0 ? 1 / standing.ratio : 1;
        if (entrants == 2 && race_is_faster(&standing, 1)) {
            found->chosen = best;
            found->changed = space_distance(r->search->group, &best, &r->search->base) != 0;
            found->ratio *= standing.ratio;
            found->chosen_seconds = found->default_seconds * found->ratio;
        }
    }
    free(ranked);
}

/* ------------------------------------------------------------------ */

/* The default's bits and its first time, from which follows how long a sample is. */
static bool start(struct runner *r)
{
    struct entrant first = {.candidate = r->search->base};
    double began = now(r);

    r->repeats = 1;
    if (!is_right(r, &r->search->base, true) || is_over(r) || !sample(r, &first, true)) {
        if (!r->over)
            r->found->ending = ENDING_DEFAULT;
        return false;
    }
    r->wall = now(r) - began;
    r->found->measured = true;
    r->found->default_seconds = r->found->chosen_seconds = first.samples[0];
    if (first.samples[0] < SAMPLE)
        r->repeats = (int)fmin(REPEATS_MOST, ceil(SAMPLE / fmax(first.samples[0], 1e-9)));
    return true;
}

void search_run(const struct search *search, struct found *found)
{
    struct runner runner = {.search = search, .found = found};

    memset(found, 0, sizeof *found);
    found->chosen = search->base;
    found->ratio = 1;
    found->candidates = (int)fmin(search->group->size, 1e9);
    found->ending = search->model_only ? ENDING_MODEL : ENDING_DONE;
    if (search->model_only)
        return;
    if (start(&runner)) {
        search_few(&runner);
        if (search->exhaustive && !runner.over)
            search_all(&runner);
    }
    for (size_t i = 0; i < runner.seen_count; i++)
        found->timed += runner.seen[i].good;
    free(runner.seen);
}

void search_free(struct found *found)
{
    while (found->rejected != NULL) {
        struct rejected *next = found->rejected->next;

        free(found->rejected);
        found->rejected = next;
    }
}
