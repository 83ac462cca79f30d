/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates in a process of their own.  Started as a worker, this program serves a backend
 * of its own making: the reference's stages, and one tunable whose values are wrong in one
 * element, never end, die, or fail.
 */
#define _POSIX_C_SOURCE 200809L
#include "unit.h"

#include "autotune/remote.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What the planted tunable does to a stage. */
enum kind { KIND_DEFAULT, KIND_WRONG, KIND_SPINS, KIND_DIES, KIND_FAILS, KIND_EXITS, KIND_BABBLES, KIND_FASTER, KINDS };

static const char *const kind_names[KINDS] = {"default", "wrong", "spins",   "dies",
                                              "fails",   "exits", "babbles", "faster"};

/* ------------------------------------------------------------------ the worker */

static int asked_kind(const json_t *request)
{
    const char *text = json_string_value(json_object_get(request, "parameters"));
    for (int kind = 0; kind < KINDS; kind++) {
        const char *at = text == NULL ? NULL : strstr(text, kind_names[kind]);
        if (at != NULL)
            return kind;
    }
    return KIND_DEFAULT;
}

static void misbehave(int kind, json_t *answer)
{
    volatile int turning = 1;
    if (kind == KIND_SPINS)
        while (turning)
            ;
    if (kind == KIND_DIES)
        raise(SIGILL);
    if (kind == KIND_EXITS)
        _exit(3);
    if (kind == KIND_FAILS) {
        worker_refuse(answer, "no such kernel");
        json_object_set_new(answer, "last", json_true());
        return;
    }
    json_object_set_new(answer, "good", json_true());
}

/* Eight numbers, as a stage would have them; of the wrong kind one bit is another. */
static void compute(int kind, unsigned *out)
{
    for (unsigned i = 0; i < 8; i++)
        out[i] = i * 2654435761u;
    out[5] ^= kind == KIND_WRONG;
}

static void answer_planted(void *self, const json_t *request, json_t *answer)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    int kind = asked_kind(request), repeats = (int)json_integer_value(json_object_get(request, "repeats"));
    unsigned wanted[8], made[8];
    json_t *list = json_array();
    (void)self;
    printf("a library that prints\n"); /* not into the answer */
    fflush(stdout);
    compute(KIND_DEFAULT, wanted);
    compute(kind, made);
    misbehave(kind, answer);
    if (op != NULL && strcmp(op, "check") == 0 && memcmp(wanted, made, sizeof made) != 0)
        worker_refuse(answer, "other bits than the reference's");
    for (int i = 0; i < repeats; i++)
        json_array_append_new(list, json_real(kind == KIND_DEFAULT ? 0.030 : kind == KIND_FASTER ? 0.020 : 0.001));
    if (kind == KIND_BABBLES)
        json_array_clear(list);
    json_object_set_new(answer, "seconds", list);
}

/* ------------------------------------------------------------------ who asks */

struct world {
    struct remote remote;
    struct space space;
    struct group group;
    struct shape shape;
    struct trials trials;
    struct search search;
    struct found found;
};

static double no_estimate(void *self, const struct group *group, const struct candidate *candidate)
{
    (void)self;
    (void)group;
    (void)candidate;
    return 0;
}

static void make_world(struct world *w)
{
    struct tunable *t = &w->space.tunables[0];
    memset(w, 0, sizeof *w);
    w->space.count = 1;
    t->stage = "norm";
    t->name = "kind";
    t->scope = CKV_SCOPE_PLAN;
    t->count = KINDS;
    for (int kind = 0; kind < KINDS; kind++) {
        t->values[kind] = kind;
        snprintf(t->labels[kind], SPACE_LABEL, "%s", kind_names[kind]);
    }
    assert_int_equal(space_groups(&w->space, NULL, 0, &w->group), 1);
    w->shape = (struct shape){.query_heads = 2, .kv_heads = 1, .head_dim = 8, .value_dim = 8, .hidden = 16};
    w->remote.space = &w->space;
    w->remote.backend = "planted";
    w->remote.shape = &w->shape;
    w->remote.tokens = 64;
    w->trials = remote_trials(&w->remote);
    w->trials.estimate = no_estimate;
    w->search = (struct search){.space = &w->space,
                                .group = &w->group,
                                .trials = &w->trials,
                                .deadline = w->trials.clock(NULL) + 60,
                                .patience = 0.2};
}

static void close_world(struct world *w)
{
    search_free(&w->found);
    worker_close(&w->remote.worker);
}

static const char *reason_of(const struct found *found, int kind)
{
    for (const struct rejected *r = found->rejected; r != NULL; r = r->next)
        if (r->candidate.value[0] == kind)
            return r->reason;
    return "(none)";
}

static void test_each_fault_is_told(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    search_run(&w.search, &w.found);
    assert_int_equal(w.found.chosen.value[0], KIND_FASTER);
    assert_true(fabs(w.found.ratio - 2.0 / 3.0) < 1e-9);
    assert_string_equal(reason_of(&w.found, KIND_WRONG), "other bits than the reference's");
    assert_non_null(strstr(reason_of(&w.found, KIND_SPINS), "no answer within"));
    assert_non_null(strstr(reason_of(&w.found, KIND_DIES), "signal 4 (Illegal instruction)"));
    assert_string_equal(reason_of(&w.found, KIND_FAILS), "no such kernel");
    assert_string_equal(reason_of(&w.found, KIND_EXITS), "ended the process with status 3");
    assert_string_equal(reason_of(&w.found, KIND_BABBLES), "an answer without times");
    assert_string_equal(reason_of(&w.found, KIND_FASTER), "(none)");
    /* One to begin with, and one after each of: spins, dies, fails, exits. */
    assert_int_equal(w.remote.worker.starts, 5);
    close_world(&w);
}

/* The default itself: the time that there is, and no more. */
static void test_a_spinning_default(void **state)
{
    struct world w;
    double before, taken;
    (void)state;
    make_world(&w);
    w.search.base.value[0] = KIND_SPINS;
    before = w.trials.clock(NULL);
    w.search.deadline = before + 0.2;
    search_run(&w.search, &w.found);
    taken = w.trials.clock(NULL) - before;
    assert_true(taken > 0.2 && taken < 2);
    assert_int_equal(w.found.ending, ENDING_BUDGET);
    assert_true(!w.found.measured && !w.found.changed);
    assert_int_equal(w.remote.worker.process, 0); /* killed */
    close_world(&w);
}

static void test_no_budget_starts_nothing(void **state)
{
    struct world w;
    (void)state;
    make_world(&w);
    w.search.model_only = true;
    search_run(&w.search, &w.found);
    assert_int_equal(w.remote.worker.starts, 0);
    close_world(&w);
}

static volatile sig_atomic_t stop;

static void on_alarm(int number)
{
    (void)number;
    stop = 1;
}

/* A signal ends the waiting at once; the worker goes with it. */
static void test_a_signal_stops(void **state)
{
    struct world w;
    struct sigaction action = {.sa_handler = on_alarm};
    double before;
    (void)state;
    make_world(&w);
    sigaction(SIGALRM, &action, NULL);
    stop = 0;
    w.remote.worker.stop = &stop;
    w.search.base.value[0] = KIND_SPINS;
    before = w.trials.clock(NULL);
    alarm(1);
    search_run(&w.search, &w.found);
    assert_true(w.trials.clock(NULL) - before < 5);
    assert_int_equal(w.found.ending, ENDING_STOPPED);
    assert_int_equal(w.remote.worker.process, 0);
    close_world(&w);
}

/* A program that is no worker, and one that is not there. */
static void test_no_worker(void **state)
{
    struct world w;
    json_t *request = json_object(), *answer = NULL;
    char reason[SEARCH_REASON] = "";
    (void)state;
    make_world(&w);
    w.remote.worker.program = "/bin/false";
    assert_int_equal(worker_ask(&w.remote.worker, request, 5, &answer, reason, sizeof reason), ASKED_DIED);
    assert_string_equal(reason, "ended the process with status 1");
    setenv("PATH", "/nowhere", 1); /* where a ckv could be found instead */
    w.remote.worker.program = "/nowhere/at/all";
    assert_int_equal(worker_ask(&w.remote.worker, request, 5, &answer, reason, sizeof reason), ASKED_DIED);
    assert_string_equal(reason, "the worker could not be started");
    search_run(&w.search, &w.found);
    assert_int_equal(w.found.ending, ENDING_DEFAULT);
    assert_string_equal(w.found.rejected->reason, "the worker could not be started");
    json_decref(request);
    close_world(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fault_is_told),
        cmocka_unit_test(test_a_spinning_default),
        cmocka_unit_test(test_no_budget_starts_nothing),
        cmocka_unit_test(test_a_signal_stops),
        cmocka_unit_test(test_no_worker),
    };
    if (argc > 1 && strcmp(argv[1], WORKER_COMMAND) == 0)
        return worker_serve(answer_planted, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
