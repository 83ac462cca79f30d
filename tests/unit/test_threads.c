/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share context, projection and plan get what one thread gets. */
#include "unit.h"

#include <pthread.h>

#define THREADS 4

typedef struct worker {
    test_problem p; /* handles and inputs shared, outputs its own */
    pthread_t thread;
    uint64_t attention, norm, kept;
    int failed, detail;
} worker;

static void open_outputs(worker *w, const test_problem *shared)
{
    const ckv_shape *s = &shared->shape;
    w->p = *shared;
    test_tensor_new(&w->p.attention, CKV_F32, 2, 1, s->kv_heads, s->tokens, TEST_DENSE);
    test_tensor_new(&w->p.norm, CKV_F32, 2, 1, s->kv_heads, s->tokens, TEST_DENSE);
    test_buffer_new(&w->p.workspace, shared->info.workspace, 1);
    test_buffer_new(&w->p.positions, shared->positions.size, 0);
    test_buffer_new(&w->p.offsets, shared->offsets.size, 0);
    test_buffer_new(&w->p.stages, shared->stages.size, 0);
    ckv_selection_init(&w->p.selection, (int32_t *)(void *)w->p.positions.data, shared->info.positions,
                       (int32_t *)(void *)w->p.offsets.data);
    w->p.selection.stages = w->p.stages.data;
    ckv_run_init(&w->p.run, w->p.workspace.data, w->p.workspace.size);
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int round = 0; round < (test_light() ? 3 : 20); round++) {
        w->failed += test_stages(&w->p) != CKV_OK;
        w->attention = test_hash_attention(&w->p);
        w->norm = test_hash_norm(&w->p);
        w->kept = test_hash_selection(&w->p);
        w->failed += test_evict(&w->p) != CKV_OK || test_hash_selection(&w->p) != w->kept;
        /* Errors of one thread are not those of another. */
        w->p.run.workspace_size = (size_t)w->detail;
        w->failed += test_evict(&w->p) != CKV_ERROR_CAPACITY;
        char text[40];
        snprintf(text, sizeof text, "workspace_size %d,", w->detail);
        w->failed += strstr(ckv_error_detail(), text) == NULL;
        w->p.run.workspace_size = w->p.workspace.size;
    }
    return NULL;
}

static void test_shared_handles(void **state)
{
    (void)state;
    static worker workers[THREADS];
    test_problem p;
    test_problem_init(&p, 2, 3, 60, 16, 16, 16, 24);
    test_problem_build(&p);
    test_problem_randomize(&p, 300);
    assert_ok(test_problem_open(&p));
    assert_ok(test_stages(&p));
    test_light();
    for (int i = 0; i < THREADS; i++) {
        open_outputs(&workers[i], &p);
        workers[i].detail = 10 + i;
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].failed, 0);
        assert_int_equal(workers[i].attention, test_hash_attention(&p));
        assert_int_equal(workers[i].norm, test_hash_norm(&p));
        assert_int_equal(workers[i].kept, test_hash_selection(&p));
        test_tensor_free(&workers[i].p.attention);
        test_tensor_free(&workers[i].p.norm);
        test_buffer_free(&workers[i].p.workspace);
        test_buffer_free(&workers[i].p.positions);
        test_buffer_free(&workers[i].p.offsets);
        test_buffer_free(&workers[i].p.stages);
    }
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_handles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
