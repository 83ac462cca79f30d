/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner's search, on made-up candidates and a made-up clock. */
#include "unit.h"

#include "autotune/search.h"

#include <math.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ a made-up device */

enum fault { FINE, WRONG, HANGS, DIES, FAILS };

/* Seconds and fault of a candidate are functions of its values. */
struct fake {
    double at;      /* the clock */
    double launch;  /* what any request costs beside its runs */
    double noise;   /* of a run's time, as a share */
    uint64_t state; /* of the noise */
    double (*seconds)(const struct candidate *candidate);
    enum fault (*fault)(const struct candidate *candidate);
    int checks, times, stop_after; /* requests so far; stop at that many, if not 0 */
    double longest;                /* overrun of a limit */
};

static double next(struct fake *fake)
{
    fake->state = fake->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(fake->state >> 40) / (double)(1 << 24);
}

static double fake_clock(void *self)
{
    const struct fake *fake = self;
    return fake->at;
}

/* The model prefers low values; the truth is elsewhere. */
static double fake_estimate(void *self, const struct group *group, const struct candidate *candidate)
{
    double sum = 0;
    (void)self;
    for (int32_t i = 0; i < group->count; i++)
        sum += candidate->value[group->members[i]];
    return 1e-3 * (1 + 0.05 * sum);
}

static enum verdict request(struct fake *fake, const struct candidate *candidate, double runs, double limit,
                            char *reason)
{
    double seconds = fake->launch + runs * fake->seconds(candidate);
    if (fake->stop_after != 0 && fake->checks + fake->times >= fake->stop_after)
        return VERDICT_STOPPED;
    switch (fake->fault(candidate)) {
    case HANGS:
        fake->at += limit;
        return VERDICT_LATE;
    case DIES:
        snprintf(reason, SEARCH_REASON, "ended by signal 4 (Illegal instruction)");
        return VERDICT_REJECTED;
    case FAILS:
        snprintf(reason, SEARCH_REASON, "no such kernel");
        return VERDICT_REJECTED;
    default:
        if (seconds > limit) {
            fake->at += limit;
            return VERDICT_LATE;
        }
        fake->at += seconds;
        return VERDICT_GOOD;
    }
}

static enum verdict fake_check(void *self, const struct group *group, const struct candidate *candidate, double limit,
                               char *reason)
{
    struct fake *fake = self;
    enum verdict verdict = request(fake, candidate, 2, limit, reason);
    (void)group;
    fake->checks++;
    if (verdict == VERDICT_GOOD && fake->fault(candidate) == WRONG) {
        snprintf(reason, SEARCH_REASON, "other bits than the reference's");
        return VERDICT_REJECTED;
    }
    return verdict;
}

static enum verdict fake_time(void *self, const struct group *group, const struct candidate *candidate, int repeats,
                              double limit, double *seconds, char *reason)
{
    struct fake *fake = self;
    enum verdict verdict = request(fake, candidate, repeats + 1, limit, reason);
    (void)group;
    fake->times++;
    for (int i = 0; i < repeats; i++)
        seconds[i] = fake->seconds(candidate) * (1 + fake->noise * next(fake));
    return verdict;
}

static struct trials trials_of(struct fake *fake)
{
    return (struct trials){
        .self = fake, .clock = fake_clock, .estimate = fake_estimate, .check = fake_check, .time = fake_time};
}

static enum fault all_fine(const struct candidate *candidate)
{
    (void)candidate;
    return FINE;
}

/* ------------------------------------------------------------------ a made-up space */

/* `tunables` of `values` values each, 0 to values - 1, all of the norm; the default is all 0. */
static void make_space(struct space *space, struct group *group, int32_t tunables, int32_t values)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    memset(space, 0, sizeof *space);
    space->count = tunables;
    for (int32_t i = 0; i < tunables; i++) {
        struct tunable *t = &space->tunables[i];
        t->stage = "norm";
        t->name = names[i];
        t->meaning = "made up";
        t->scope = CKV_SCOPE_PLAN;
        t->count = values;
        for (int32_t k = 0; k < values; k++) {
            t->values[k] = k;
            snprintf(t->labels[k], SPACE_LABEL, "%d", (int)k);
        }
    }
    assert_int_equal(space_groups(space, NULL, 0, group), 1);
}

struct world {
    struct fake fake;
    struct space space;
    struct group group;
    struct trials trials;
    struct search search;
    struct found found;
};

static void make_world(struct world *w, int32_t tunables, int32_t values, double (*seconds)(const struct candidate *),
                       enum fault (*fault)(const struct candidate *))
{
    memset(w, 0, sizeof *w);
    w->fake = (struct fake){.launch = 1e-3, .seconds = seconds, .fault = fault, .state = 7};
    make_space(&w->space, &w->group, tunables, values);
    w->trials = trials_of(&w->fake);
    w->search = (struct search){.space = &w->space,
                                .group = &w->group,
                                .base = w->space.fallback,
                                .trials = &w->trials,
                                .deadline = 1000,
                                .patience = 5};
}

static int rejections(const struct found *found)
{
    int count = 0;
    for (const struct rejected *r = found->rejected; r != NULL; r = r->next)
        count++;
    return count;
}

static const char *reason_of(const struct found *found, int32_t value)
{
    for (const struct rejected *r = found->rejected; r != NULL; r = r->next)
        if (r->candidate.value[0] == value)
            return r->reason;
    return "(none)";
}

/* ------------------------------------------------------------------ what is fastest */

/* One tunable of six values: the fourth takes half the default's time. */
static double fourth_is_best(const struct candidate *c)
{
    static const double seconds[] = {0.010, 0.011, 0.009, 0.005, 0.012, 0.020};
    return seconds[c->value[0]];
}

static void test_the_fastest_wins(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, fourth_is_best, all_fine);
    w.fake.noise = 0.03;
    search_run(&w.search, &w.found);
    assert_true(w.found.measured && w.found.changed);
    assert_int_equal(w.found.chosen.value[0], 3);
    assert_true(fabs(w.found.ratio - 0.5) < 0.03);
    assert_true(fabs(w.found.default_seconds - 0.010) < 0.0005);
    assert_true(fabs(w.found.chosen_seconds - 0.005) < 0.0005);
    assert_int_equal(w.found.ending, ENDING_DONE);
    assert_int_equal(w.found.timed, 6);
    assert_int_equal(rejections(&w.found), 0);
    search_free(&w.found);
}

static double all_equal(const struct candidate *c)
{
    (void)c;
    return 0.010;
}

static double hardly_better(const struct candidate *c)
{
    return c->value[0] == 2 ? 0.00985 : 0.010; /* within RACE_GAIN */
}

/* Noise alone never makes a winner: 200 devices without any difference.  One below what is
 * worth it rarely does. */
static void test_the_default_wins_ties(void **state)
{
    struct world w;
    int lucky = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        make_world(&w, 1, 6, seed % 2 == 0 ? all_equal : hardly_better, all_fine);
        w.fake.noise = 0.10;
        w.fake.state = seed;
        search_run(&w.search, &w.found);
        if (w.found.changed && (seed % 2 == 0 || w.found.chosen.value[0] != 2))
            fail_msg("seed %d: %d won by noise, ratio %g", (int)seed, (int)w.found.chosen.value[0], w.found.ratio);
        lucky += w.found.changed;
        assert_true(w.found.measured && (w.found.changed || w.found.ratio == 1));
        search_free(&w.found);
    }
    assert_true(lucky < 20);
}

/* And a difference of a tenth is found through as much noise, nearly always. */
static double a_tenth_better(const struct candidate *c)
{
    return c->value[0] == 2 ? 0.009 : 0.010;
}

static void test_a_gain_shows_through_noise(void **state)
{
    struct world w;
    int found = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        make_world(&w, 1, 3, a_tenth_better, all_fine);
        w.fake.noise = 0.10;
        w.fake.state = seed;
        search_run(&w.search, &w.found);
        found += w.found.changed && w.found.chosen.value[0] == 2;
        assert_true(!w.found.changed || w.found.chosen.value[0] == 2);
        search_free(&w.found);
    }
    assert_true(found >= 90);
}

static void test_twice_gives_the_same(void **state)
{
    struct world a, b;
    (void)state;
    make_world(&a, 2, 5, fourth_is_best, all_fine);
    make_world(&b, 2, 5, fourth_is_best, all_fine);
    a.fake.noise = b.fake.noise = 0.02;
    search_run(&a.search, &a.found);
    b.fake.state = 1234567; /* other noise, the same device */
    search_run(&b.search, &b.found);
    assert_int_equal(a.found.chosen.value[0], 3);
    assert_int_equal(a.found.chosen.value[1], 0); /* makes no difference: as the default has it */
    assert_memory_equal(&a.found.chosen, &b.found.chosen, sizeof a.found.chosen);
    search_free(&a.found);
    search_free(&b.found);
}

/* Six tunables of five values, 15625 combinations; the best is (1, 2, 0, 3, 4, 0), and each
 * tunable counts for itself. */
static double hilly(const struct candidate *c)
{
    static const int32_t best[] = {1, 2, 0, 3, 4, 0};
    double seconds = 0.010;
    for (int i = 0; i < 6; i++)
        seconds *= 1 + 0.1 * abs(c->value[i] - best[i]);
    return seconds;
}

static void test_a_large_space(void **state)
{
    static const int32_t best[] = {1, 2, 0, 3, 4, 0};
    struct world w;
    (void)state;
    make_world(&w, 6, 5, hilly, all_fine);
    w.fake.noise = 0.01;
    search_run(&w.search, &w.found);
    assert_memory_equal(w.found.chosen.value, best, sizeof best);
    assert_true(w.found.changed && fabs(w.found.ratio - 1 / (1.1 * 1.2 * 1.3 * 1.4)) < 0.01);
    assert_true(w.found.timed < 100); /* of 15625 */
    search_free(&w.found);
}

/* What the model finds hopeless is not tried, unless all is. */
static double steep_estimate(void *self, const struct group *group, const struct candidate *candidate)
{
    (void)self;
    (void)group;
    return candidate->value[0] == 3 ? 0.041 : 0.010;
}

static void test_hopeless_candidates(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, fourth_is_best, all_fine);
    w.trials.estimate = steep_estimate;
    search_run(&w.search, &w.found);
    assert_int_equal(w.found.chosen.value[0], 2);
    assert_int_equal(w.found.timed, 5);
    search_free(&w.found);
    make_world(&w, 1, 6, fourth_is_best, all_fine);
    w.trials.estimate = steep_estimate;
    w.search.exhaustive = true;
    search_run(&w.search, &w.found);
    assert_int_equal(w.found.chosen.value[0], 3);
    search_free(&w.found);
}

/* ------------------------------------------------------------------ candidates that must not win */

/* Value 1 is the fastest and wrong, 2 never ends, 3 dies, 4 has no kernel; 5 is right. */
static double planted_seconds(const struct candidate *c)
{
    static const double seconds[] = {0.010, 0.001, 0.002, 0.002, 0.002, 0.008};
    return seconds[c->value[0]];
}

static enum fault planted_fault(const struct candidate *c)
{
    static const enum fault faults[] = {FINE, WRONG, HANGS, DIES, FAILS, FINE};
    return faults[c->value[0]];
}

static void test_planted_candidates(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, planted_seconds, planted_fault);
    search_run(&w.search, &w.found);
    assert_int_equal(w.found.chosen.value[0], 5);
    assert_int_equal(rejections(&w.found), 4);
    assert_non_null(strstr(reason_of(&w.found, 1), "other bits"));
    assert_non_null(strstr(reason_of(&w.found, 2), "no answer within"));
    assert_non_null(strstr(reason_of(&w.found, 3), "signal 4"));
    assert_non_null(strstr(reason_of(&w.found, 4), "no such kernel"));
    assert_int_equal(w.found.ending, ENDING_DONE);
    assert_true(w.fake.at < 10); /* one time-out of 5 s */
    search_free(&w.found);
}

static enum fault all_but_the_default_fail(const struct candidate *c)
{
    return c->value[0] == 0 ? FINE : FAILS;
}

static enum fault everything_fails(const struct candidate *c)
{
    (void)c;
    return FAILS;
}

static enum fault everything_hangs(const struct candidate *c)
{
    (void)c;
    return HANGS;
}

static void test_all_fail(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, planted_seconds, all_but_the_default_fail);
    search_run(&w.search, &w.found);
    assert_true(w.found.measured && !w.found.changed);
    assert_int_equal(rejections(&w.found), 5);
    search_free(&w.found);

    make_world(&w, 1, 6, planted_seconds, everything_fails);
    search_run(&w.search, &w.found);
    assert_true(!w.found.measured && !w.found.changed);
    assert_int_equal(w.found.chosen.value[0], 0);
    assert_int_equal(w.found.ending, ENDING_DEFAULT);
    assert_int_equal(w.fake.checks, 1);
    search_free(&w.found);
}

/* It passes the check, and fails in the middle of the race. */
static int until_it_fails;

static enum fault fails_later(const struct candidate *c)
{
    return c->value[0] == 3 && until_it_fails-- <= 0 ? DIES : FINE;
}

static void test_a_late_failure(void **state)
{
    struct world w;
    (void)state;
    until_it_fails = 6;
    make_world(&w, 1, 6, fourth_is_best, fails_later);
    search_run(&w.search, &w.found);
    assert_true(w.found.chosen.value[0] == 2); /* the next best */
    assert_int_equal(rejections(&w.found), 1);
    search_free(&w.found);
}

/* ------------------------------------------------------------------ the time */

static void test_no_budget(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, fourth_is_best, all_fine);
    w.search.model_only = true;
    search_run(&w.search, &w.found);
    assert_int_equal(w.fake.checks + w.fake.times, 0);
    assert_true(!w.found.measured && !w.found.changed);
    assert_int_equal(w.found.ending, ENDING_MODEL);
    search_free(&w.found);
}

static double a_second(const struct candidate *c)
{
    return c->value[0] == 3 ? 0.5 : 1.0;
}

/* Whatever the budget, it is kept to within one launch, here three runs of a second. */
static void test_budgets_are_kept(void **state)
{
    struct world w;
    int changed = 0;
    (void)state;
    for (double budget = 0.1; budget < 300; budget *= 1.7) {
        make_world(&w, 1, 6, a_second, all_fine);
        w.search.deadline = budget;
        search_run(&w.search, &w.found);
        if (w.fake.at > budget + 3)
            fail_msg("budget %g: %g s", budget, w.fake.at);
        assert_true(w.found.ending == ENDING_BUDGET || w.found.ending == ENDING_DONE);
        assert_true(budget > 10 || !w.found.changed); /* too little to know */
        changed += w.found.changed;
        search_free(&w.found);
    }
    assert_true(changed > 0);
}

static void test_hanging_within_200_ms(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, fourth_is_best, everything_hangs);
    w.search.deadline = 0.2;
    search_run(&w.search, &w.found);
    assert_true(w.fake.at <= 0.71); /* half a second for what may be the first launch */
    assert_true(!w.found.measured && !w.found.changed);
    assert_int_equal(w.found.ending, ENDING_BUDGET);
    assert_int_equal(rejections(&w.found), 0); /* it was not given its time */
    search_free(&w.found);
}

/* Stopped at any request: what is known by then, and no word of a rejection. */
static void test_stopping(void **state)
{
    struct world w;
    (void)state;
    for (int after = 1; after < 40; after++) {
        make_world(&w, 1, 6, fourth_is_best, all_fine);
        w.fake.stop_after = after;
        search_run(&w.search, &w.found);
        assert_int_equal(w.found.ending, ENDING_STOPPED);
        assert_true(!w.found.changed || fourth_is_best(&w.found.chosen) < 0.010);
        assert_int_equal(rejections(&w.found), 0);
        assert_true(w.fake.checks + w.fake.times <= after + 1);
        search_free(&w.found);
    }
}

/* ------------------------------------------------------------------ all candidates */

/* The model ranks 100 combinations; the fastest is the one that it ranks last. */
static double last_is_best(const struct candidate *c)
{
    return c->value[0] == 9 && c->value[1] == 9 ? 0.004 : c->value[0] == 1 && c->value[1] == 0 ? 0.008 : 0.010;
}

static void test_exhaustive(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 2, 10, last_is_best, all_fine);
    w.fake.noise = 0.01;
    search_run(&w.search, &w.found);
    assert_int_equal(w.found.chosen.value[0], 1); /* the best few alone do not have it */
    assert_false(w.found.exhaustive);
    search_free(&w.found);

    w.search.exhaustive = true;
    w.search.deadline = 1e6;
    search_run(&w.search, &w.found);
    assert_true(w.found.exhaustive);
    assert_int_equal(w.found.searched.value[0], 1);
    assert_int_equal(w.found.best.value[0], 9);
    assert_int_equal(w.found.best.value[1], 9);
    assert_true(fabs(w.found.best_ratio - 2) < 0.05); /* the search's choice takes twice as long */
    assert_int_equal(w.found.chosen.value[0], 9);     /* and the better one counts */
    assert_true(fabs(w.found.ratio - 0.4) < 0.02);
    assert_int_equal(w.found.timed, 100);
    search_free(&w.found);
}

static void test_exhaustive_agrees(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 1, 6, fourth_is_best, planted_fault); /* of which 1 to 4 are no candidates */
    w.search.exhaustive = true;
    search_run(&w.search, &w.found);
    assert_true(w.found.exhaustive && !w.found.changed);
    assert_true(w.found.best_ratio == 1);
    assert_int_equal(rejections(&w.found), 4); /* each told once */
    search_free(&w.found);
}

/* ------------------------------------------------------------------ ranks, groups, chance */

static void test_ranks(void **state)
{
    struct world w;
    struct candidate ranked[20];
    (void)state;
    make_world(&w, 2, 4, all_equal, all_fine);
    assert_int_equal(search_rank(&w.search, ranked, 20), 16);
    assert_true(ranked[0].value[0] == 0 && ranked[0].value[1] == 0);
    assert_true(ranked[15].value[0] == 3 && ranked[15].value[1] == 3);
    assert_int_equal(ranked[1].value[0] + ranked[1].value[1], 1);
    assert_int_equal(search_rank(&w.search, ranked, 3), 3);
}

static void test_groups(void **state)
{
    static const char *const norm[] = {"norm"};
    struct space space;
    struct group groups[SPACE_GROUPS];
    char text[SPACE_TEXT];
    (void)state;
    make_space(&space, groups, 6, 3);
    space.tunables[0].stage = "all";
    space.tunables[0].scope = CKV_SCOPE_CONTEXT;
    space.tunables[1].scope = CKV_SCOPE_PROJECTION;
    space.tunables[2].held = true;
    space.tunables[3].count = 1; /* no choice */
    space.tunables[4].stage = "score";
    assert_int_equal(space_groups(&space, NULL, 0, groups), 4);
    assert_string_equal(groups[0].stage, "all");
    assert_string_equal(groups[0].measured, "evict");
    assert_int_equal(groups[1].scope, CKV_SCOPE_PROJECTION);
    assert_string_equal(groups[2].stage, "score");
    assert_string_equal(groups[3].stage, "norm");
    assert_int_equal(groups[3].members[0], 5);
    assert_true(groups[3].size == 3);
    assert_int_equal(space_groups(&space, norm, 1, groups), 2);
    space_text(&space, &space.fallback, text, sizeof text);
    assert_string_equal(text, "a=0,b=0,d=0,e=0,f=0");
    space_group_text(&space, &groups[1], &space.fallback, text, sizeof text);
    assert_string_equal(text, "f=0");
}

static void test_chance(void **state)
{
    (void)state;
    assert_false(race_beyond_chance(4, 4, 1)); /* 1/16 */
    assert_true(race_beyond_chance(5, 5, 1));  /* 1/32 */
    assert_false(race_beyond_chance(5, 5, 2));
    assert_true(race_beyond_chance(9, 9, 8)); /* 8/512 */
    assert_false(race_beyond_chance(8, 9, 8));
    assert_true(race_beyond_chance(8, 9, 2)); /* 2 * 10/512 */
    assert_false(race_beyond_chance(0, 0, 1));
    struct entrant first = {.samples = {1, 1, 1, 1, 1}, .count = 5};
    struct entrant better = {.samples = {0.9, 0.8, 0.9, 0.9, 2}, .count = 5};
    struct standing standing = race_standing(&first, &better);
    assert_int_equal(standing.below, 4);
    assert_true(standing.ratio == 0.9);
    assert_false(race_is_faster(&standing, 1));
    better.samples[4] = 0.9;
    standing = race_standing(&first, &better);
    assert_true(race_is_faster(&standing, 1));
    assert_false(race_is_lost(&standing));
    struct entrant worse = {.samples = {1.3, 1.4}, .count = 2};
    standing = race_standing(&first, &worse);
    assert_true(race_is_lost(&standing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fastest_wins),
        cmocka_unit_test(test_the_default_wins_ties),
        cmocka_unit_test(test_a_gain_shows_through_noise),
        cmocka_unit_test(test_twice_gives_the_same),
        cmocka_unit_test(test_a_large_space),
        cmocka_unit_test(test_planted_candidates),
        cmocka_unit_test(test_hopeless_candidates),
        cmocka_unit_test(test_all_fail),
        cmocka_unit_test(test_a_late_failure),
        cmocka_unit_test(test_no_budget),
        cmocka_unit_test(test_budgets_are_kept),
        cmocka_unit_test(test_hanging_within_200_ms),
        cmocka_unit_test(test_stopping),
        cmocka_unit_test(test_exhaustive),
        cmocka_unit_test(test_exhaustive_agrees),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
