/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on host memory, on pretended CUDA and HIP devices: V travels beside the score, on
 * another stream and from page-locked memory; kernels wait for what they read; more than
 * a chunk, rows that lie apart, and calls of several threads give the reference's bytes.
 */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>

#include "compare.h"
#include "sim.h"

static const char *const backends[] = {"cuda", "hip"};
enum { BACKENDS = 2, VALUES = 2 * 150 * 20 * 4 /* bytes of V */ };

static void make(test_problem *p, const char *backend, int skip)
{
    test_problem_init(p, 2, 2, 150, 6, 12, 20, 160);
    p->policy.budget = 40;
    p->policy.window = 4;
    p->policy.skip = skip;
    p->options.backend = backend;
    p->options.device = strcmp(backend, "ref") == 0 ? NULL : "0";
    test_problem_build(p);
    test_problem_randomize(p, 11);
    assert_ok(test_problem_open(p));
}

static uint64_t evicted(test_problem *p)
{
    assert_ok(test_evict(p));
    return test_hash_selection(p);
}

static uint64_t expected(int skip)
{
    test_problem p;
    make(&p, "ref", skip);
    const uint64_t hash = evicted(&p);
    test_problem_close(&p);
    return hash;
}

/* ---------------------------------------------------------------- the order of work */

enum { LINES = 400 };

typedef struct line {
    int stream;
    char verb[16], what[40], how[16];
} line;

static int read_log(line *lines)
{
    int count = 0;
    for (const char *at = sim.ckv_sim_logged(); *at != '\0' && count < LINES; at = strchr(at, '\n') + 1) {
        line *l = &lines[count++];
        memset(l, 0, sizeof *l);
        assert_true(sscanf(at, "%d %15s %39s %15s", &l->stream, l->verb, l->what, l->how) >= 3);
    }
    return count;
}

/* The first line from `from` on with that verb and, unless NULL, that beginning of what. */
static int find(const line *lines, int count, int from, const char *verb, const char *what)
{
    for (int i = from; i < count; i++)
        if (strcmp(lines[i].verb, verb) == 0 && (what == NULL || strncmp(lines[i].what, what, strlen(what)) == 0))
            return i;
    return -1;
}

/* Of an eviction: Q and K are on their way before the score is launched, V after it and
 * before anything that reads V, which first waits for it; all copies are of locked memory,
 * those to the device on a stream that has no kernel. */
static void test_overlap(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS; b++)
        for (int skip = 0; skip < 2; skip++) {
            static line l[LINES];
            const char *reader = skip ? "ckv_bound" : "ckv_norm_";
            test_problem p;
            char bytes[24];
            make(&p, backends[b], skip);
            sim.ckv_sim_log(1);
            assert_int_equal(evicted(&p), expected(skip));
            sim.ckv_sim_log(1);
            assert_int_equal(evicted(&p), expected(skip)); /* with the first call's streams */
            const int count = read_log(l);
            sim.ckv_sim_log(0);
            snprintf(bytes, sizeof bytes, "%d", VALUES);
            const int v = find(l, count, 0, "upload", bytes), last = find(l, count, 0, "launch", "ckv_attend");
            const int first = find(l, count, 0, "launch", "ckv_row_max"), user = find(l, count, v, "launch", reader);
            assert_true(v >= 0 && first >= 0 && last > first && v > last && user > v);
            assert_int_equal(find(l, count, 0, "launch", reader), user);
            int uploads = 0;
            for (int i = 0; i < count; i++) {
                const int is_upload = strcmp(l[i].verb, "upload") == 0;
                uploads += is_upload;
                if (is_upload || strcmp(l[i].verb, "download") == 0)
                    assert_string_equal(l[i].how, "locked");
                if (is_upload) {
                    assert_int_equal(l[i].stream, l[v].stream);
                    assert_true(i < first || i == v); /* Q and K before the score */
                } else if (strcmp(l[i].verb, "record") != 0) {
                    assert_int_equal(l[i].stream, l[first].stream);
                }
            }
            assert_int_equal(uploads, 3);
            assert_int_not_equal(l[v].stream, l[first].stream);
            /* V, a record behind it, and the kernels' stream waits for that. */
            const int waits = find(l, count, v, "follow", NULL), recorded = find(l, count, v, "record", l[waits].what);
            assert_true(recorded > v && waits > recorded && user > waits);
            assert_int_equal(l[recorded].stream, l[v].stream);
            assert_int_equal(l[waits].stream, l[first].stream);
            test_problem_close(&p);
        }
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

/* Streams run in an order that the seed gives; with the events heeded the bits are the
 * reference's in every one of them, and if they were not heeded it would show. */
static void test_events_matter(void **state)
{
    enum { SEEDS = 24 };
    const uint64_t want = expected(0);
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        test_problem p;
        int wrong[2] = {0, 0};
        make(&p, backends[b], 0);
        for (int ignored = 0; ignored < 2; ignored++)
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                sim.ckv_sim_seed(seed);
                sim.ckv_sim_ignore_events(ignored);
                wrong[ignored] += evicted(&p) != want;
                sim.ckv_sim_ignore_events(0);
            }
        printf("# %s: %d of %d orders wrong without events\n", backends[b], wrong[1], SEEDS);
        assert_int_equal(wrong[0], 0);
        assert_true(wrong[1] > 0);
        test_problem_close(&p);
        assert_string_equal(sim.ckv_sim_complaint(), "");
    }
}

/* ---------------------------------------------------------------- many bytes, many calls */

/* Rows of 8 KB, of which few are kept: three chunks travel, dense or gathered. */
static void test_chunks(void **state)
{
    enum { ROWS = 700, WIDTH = 2050 };
    static const test_layout layouts[] = {TEST_DENSE, TEST_TOKENS_FIRST, TEST_REVERSED, TEST_ODD, TEST_TRANSPOSED};
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        for (int b = 0; b < BACKENDS; b++) {
            test_problem p;
            test_tensor from, to;
            test_random r = test_seed(i + 1);
            test_problem_init_select(&p, 2, ROWS, 5);
            p.options.backend = backends[b];
            test_problem_build(&p);
            test_problem_randomize(&p, 3);
            assert_ok(test_problem_open(&p));
            assert_ok(test_select(&p));
            test_tensor_new(&from, CKV_F32, 3, 2, ROWS, WIDTH, layouts[i]);
            test_tensor_new(&to, CKV_F32, 3, 2, 5, WIDTH, TEST_DENSE);
            test_randomize(&from, &r, -3, 3);
            if (layouts[i] == TEST_TRANSPOSED) { /* apart: half of the elements, so that they are gathered */
                from.view.shape[2] = to.view.shape[2] = WIDTH / 3;
                from.view.stride[2] *= 3;
                to.view.stride[2] *= 3;
            }
            assert_ok(ckv_compact(p.plan, &from.view, &p.selection, &to.view, &p.run));
            for (int64_t h = 0; h < 2; h++)
                for (int64_t k = 0; k < 5; k++)
                    for (int64_t c = 0; c < to.view.shape[2]; c++) {
                        const int64_t step = layouts[i] == TEST_TRANSPOSED ? 3 : 1;
                        assert_int_equal(test_get_bits(&to, h, k, c * step),
                                         test_get_bits(&from, h, test_positions(&p)[h * 5 + k], c * step));
                    }
            assert_true(test_buffer_intact(&to.buffer) && test_buffer_intact(&from.buffer));
            test_tensor_free(&from);
            test_tensor_free(&to);
            test_problem_close(&p);
        }
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

typedef struct caller {
    test_problem p; /* of another's context and handles */
    uint64_t want;
    int wrong;
} caller;

static void *call_often(void *argument)
{
    caller *c = argument;
    for (int i = 0; i < 6; i++)
        c->wrong += test_evict(&c->p) != CKV_OK || test_hash_selection(&c->p) != c->want;
    return NULL;
}

/* Calls at once on one context have streams each, which later calls use again. */
static void test_threads(void **state)
{
    enum { THREADS = 3 };
    const uint64_t want = expected(1);
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        caller c[THREADS];
        pthread_t threads[THREADS];
        const ckv_sim_live none = sim.ckv_sim_counts();
        for (int i = 0; i < THREADS; i++) {
            c[i].want = want;
            c[i].wrong = 0;
            make(&c[i].p, backends[b], 1);
        }
        ckv_plan *plans[THREADS];
        ckv_projection *projections[THREADS];
        for (int i = 0; i < THREADS; i++) {
            plans[i] = c[i].p.plan;
            projections[i] = c[i].p.projection;
            c[i].p.plan = plans[0];
            c[i].p.projection = projections[0];
        }
        const ckv_sim_live before = sim.ckv_sim_counts();
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c[i]), 0);
            for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(c[i].wrong, 0);
            }
        }
        const ckv_sim_live after = sim.ckv_sim_counts();
        assert_in_range(after.streams - before.streams, 2, 2 * THREADS);
        assert_int_equal(after.streams - before.streams, after.memory - before.memory); /* two chunks a lane */
        for (int i = 0; i < THREADS; i++) {
            c[i].p.plan = plans[i];
            c[i].p.projection = projections[i];
            test_problem_close(&c[i].p);
        }
        assert_int_equal(sim.ckv_sim_counts().streams, none.streams);
        assert_int_equal(sim.ckv_sim_counts().memory, none.memory);
        assert_string_equal(sim.ckv_sim_complaint(), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_events_matter),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_threads),
    };
    setenv("CKV_KERNEL_CACHE", "off", 1);
    setenv("CKV_SIM_CUDA", "sm_90", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-", 1);
    const char *reason = test_sim_load();
    if (reason != NULL) {
        printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
