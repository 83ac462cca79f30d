/* SPDX-License-Identifier: Apache-2.0 */
/* How a call names its memory: what a backend of host memory refuses, before it writes. */
#include "unit.h"

static test_problem problem;

static int open_problem(void **state)
{
    (void)state;
    test_problem_init(&problem, 2, 2, 40, 8, 8, 8, 12);
    problem.options.backend = "ref";
    test_problem_build(&problem);
    test_problem_randomize(&problem, 3);
    assert_ok(test_problem_open(&problem));
    test_remember(&problem);
    return 0;
}

static int close_problem(void **state)
{
    (void)state;
    test_problem_close(&problem);
    return 0;
}

/* Each of the five calls is refused so, and writes nothing. */
static void refused(const char *detail)
{
    ckv_tensor *key = &problem.tensor[TEST_KEY].view;
    assert_fails(test_score(&problem), CKV_ERROR_INVALID_ARGUMENT, detail);
    assert_fails(test_norm(&problem), CKV_ERROR_INVALID_ARGUMENT, detail);
    assert_fails(test_select(&problem), CKV_ERROR_INVALID_ARGUMENT, detail);
    assert_fails(test_evict(&problem), CKV_ERROR_INVALID_ARGUMENT, detail);
    assert_fails(ckv_compact(problem.plan, key, &problem.selection, key, &problem.run), CKV_ERROR_INVALID_ARGUMENT,
                 detail);
    assert_true(test_all_unchanged(&problem));
}

static void test_kinds_of_memory(void **state)
{
    (void)state;
    problem.run.memory = 2;
    refused("run: memory 2, wanted CKV_MEMORY_HOST or CKV_MEMORY_DEVICE");
    problem.run.memory = -1;
    refused("run: memory -1");
    problem.run.memory = CKV_MEMORY_DEVICE;
    refused("run: memory CKV_MEMORY_DEVICE, wanted CKV_MEMORY_HOST, since backend 'ref' has no other");
    problem.run.memory = CKV_MEMORY_HOST;
    assert_ok(test_evict(&problem)); /* and that was all */
    assert_int_equal(problem.info.device_memory, 0);
}

static void test_buffers(void **state)
{
    ckv_tensor *tensors[] = {&problem.tensor[TEST_QUERY].view, &problem.tensor[TEST_KEY].view,
                             &problem.tensor[TEST_VALUE].view};
    static const char *const names[] = {"query: buffer set", "key: buffer set", "value: buffer set"};
    int something;
    (void)state;
    problem.run.buffer = &something;
    refused("run: buffer set, wanted NULL with CKV_MEMORY_HOST");
    problem.run.buffer = NULL;
    for (int i = 0; i < 3; i++) {
        tensors[i]->buffer = &something;
        assert_fails(test_evict(&problem), CKV_ERROR_INVALID_ARGUMENT, names[i]);
        tensors[i]->buffer = NULL;
    }
    problem.selection.buffer = &something;
    assert_fails(test_evict(&problem), CKV_ERROR_INVALID_ARGUMENT, "selection: buffer set");
    assert_fails(test_select(&problem), CKV_ERROR_INVALID_ARGUMENT, "selection: buffer set");
    problem.selection.buffer = NULL;
    assert_true(test_all_unchanged(&problem));
    assert_ok(test_evict(&problem));
}

static void test_flags_of_the_device(void **state)
{
    (void)state;
    problem.run.device_flags = (char *)problem.workspace.data + 2;
    refused("run: device_flags");
    problem.run.device_flags = NULL;
    assert_ok(test_evict(&problem));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kinds_of_memory, open_problem, close_problem),
        cmocka_unit_test_setup_teardown(test_buffers, open_problem, close_problem),
        cmocka_unit_test_setup_teardown(test_flags_of_the_device, open_problem, close_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
