/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a caller hands in twice, and views that have no rows. */
#include "unit.h"

/* A budget of none leaves nothing to move: a dense view of no rows is a fine output. */
static void test_no_rows(void **state)
{
    (void)state;
    for (int32_t heads = 1; heads <= 3; heads++) {
        test_problem p;
        test_tensor from;
        ckv_tensor to;
        float spare[4];
        test_problem_init_select(&p, heads, 5, 0);
        assert_ok(test_problem_open(&p));
        assert_ok(test_select(&p));
        test_tensor_new(&from, CKV_F32, 3, heads, 5, 4, TEST_DENSE);
        test_buffer_remember(&from.buffer);
        ckv_tensor_init_3d(&to, CKV_F32, spare, heads, 0, 4);
        assert_ok(ckv_compact(p.plan, &from.view, &p.selection, &to, &p.run));
        to.data = (char *)from.view.data + 16; /* no byte of it is shared */
        assert_ok(ckv_compact(p.plan, &from.view, &p.selection, &to, &p.run));
        to.stride[0] = INT64_MIN; /* a stride that leads nowhere, or an error: no undefined negation */
        (void)ckv_compact(p.plan, &from.view, &p.selection, &to, &p.run);
        assert_true(test_buffer_unchanged(&from.buffer));
        test_tensor_free(&from);
        test_problem_close(&p);
    }
}

/* In place, with a source whose rows share memory: moved rightly, or refused. */
static void test_source_that_overlaps_itself(void **state)
{
    (void)state;
    float rows[3] = {10, 20, 30};
    ckv_tensor from, to;
    test_problem p;
    test_problem_init_select(&p, 2, 2, 1);
    assert_ok(test_problem_open(&p));
    ckv_tensor_init_3d(&from, CKV_F32, rows + 1, 2, 2, 1);
    from.stride[0] = 4;
    from.stride[1] = -4; /* head 0: 20 10, head 1: 30 20 */
    to = from;
    to.shape[1] = 1;
    const int32_t offsets[] = {0, 1, 2}, positions[] = {1, 1};
    memcpy(p.selection.offsets, offsets, sizeof offsets);
    memcpy(p.selection.positions, positions, sizeof positions);
    if (ckv_compact(p.plan, &from, &p.selection, &to, &p.run) == CKV_OK) {
        assert_true(rows[1] == 10.0f);
        assert_true(rows[2] == 20.0f);
    } else {
        assert_true(rows[0] == 10.0f && rows[1] == 20.0f && rows[2] == 30.0f);
    }
    test_problem_close(&p);
}

/* Outputs and workspace that share memory with an input, or with each other. */
static void test_shared_memory(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 2, 1, 40, 4, 16, 16, 4);
    p.policy.budget = 20;
    test_problem_build(&p);
    test_problem_randomize(&p, 1);
    assert_ok(test_problem_open(&p));
    assert_ok(test_stages(&p));
    const ckv_selection selection = p.selection;
    const ckv_run run = p.run;
    int32_t *const targets[] = {(int32_t *)p.attention.view.data, (int32_t *)p.norm.view.data,
                                (int32_t *)(void *)p.workspace.data};
    for (int i = 0; i < 3; i++) {
        p.selection.positions = targets[i];
        assert_int_equal(test_select(&p), CKV_ERROR_STRIDE);
        p.selection = selection;
        p.selection.offsets = targets[i];
        assert_int_equal(test_select(&p), CKV_ERROR_STRIDE);
        p.selection = selection;
        p.selection.stages = (uint8_t *)targets[i];
        assert_int_equal(test_select(&p), CKV_ERROR_STRIDE);
        p.selection = selection;
    }
    p.selection.offsets = p.selection.positions;
    assert_int_equal(test_select(&p), CKV_ERROR_STRIDE);
    p.selection = selection;
    for (int t = TEST_QUERY; t <= TEST_VALUE; t++) {
        p.selection.positions = (int32_t *)p.tensor[t].view.data;
        assert_int_equal(test_evict(&p), CKV_ERROR_STRIDE);
        p.selection = selection;
        p.run.workspace = p.tensor[t].view.data;
        assert_int_equal(test_evict(&p), CKV_ERROR_STRIDE);
        p.run = run;
    }
    p.run.workspace = p.attention.view.data;
    assert_int_equal(test_score(&p), CKV_ERROR_STRIDE);
    assert_int_equal(test_select(&p), CKV_ERROR_STRIDE);
    p.run = run;
    ckv_tensor to;
    ckv_tensor_init_3d(&to, CKV_F32, p.selection.positions, 2, 20, 1);
    ckv_tensor from = p.tensor[TEST_VALUE].view;
    from.shape[2] = 1;
    assert_int_equal(ckv_compact(p.plan, &from, &p.selection, &to, &p.run), CKV_ERROR_STRIDE);
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_source_that_overlaps_itself),
        cmocka_unit_test(test_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
