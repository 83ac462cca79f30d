/* SPDX-License-Identifier: Apache-2.0 */
/* The whole pipeline: exact cases, and properties that hold whatever the numbers. */
#include "unit.h"

#include <stdlib.h>

/* ---------------------------------------------------------------- exact cases */

/* Flat attention: the window is kept because it is the window. */
static void test_flat_attention(void **state)
{
    (void)state;
    for (int zero = 0; zero < 2; zero++) {
        test_problem p;
        test_problem_init(&p, 1, 1, 8, 4, 4, 4, 4);
        p.policy.window = 4;
        p.policy.keep = (ckv_ratio){1, 2};
        test_problem_build(&p);
        test_fill(&p.tensor[TEST_WEIGHT], 1.0f);
        if (zero) /* value rows of the window without any norm */
            for (int64_t i = 0; i < 6; i++)
                for (int64_t c = 0; c < 4; c++)
                    test_put(&p.tensor[TEST_VALUE], 0, i, c, 1.0f);
        else
            test_fill(&p.tensor[TEST_VALUE], 1.0f);
        assert_ok(test_problem_open(&p));
        assert_ok(test_evict(&p));
        assert_true(TEST_KEEPS(&p, 0, 4, 5, 6, 7));
        test_problem_close(&p);
    }
}

/* A protected first token whose value row is zero. */
static void test_protected_zero_row(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 1, 1, 4, 1, 2, 2, 2);
    p.policy.recent = 0;
    p.policy.sinks = 1;
    p.policy.budget = 2;
    test_problem_build(&p);
    test_fill(&p.tensor[TEST_WEIGHT], 4.0f); /* norms above 1 */
    test_fill(&p.tensor[TEST_VALUE], 1.0f);
    test_put(&p.tensor[TEST_VALUE], 0, 0, 0, 0.0f);
    test_put(&p.tensor[TEST_VALUE], 0, 0, 1, 0.0f);
    assert_ok(test_problem_open(&p));
    assert_ok(test_evict(&p));
    assert_int_equal(test_positions(&p)[0], 0);
    test_problem_close(&p);
}

/* Hidden size 6, four query heads of width 3, two KV heads: W_O is 6 by 12. */
static void test_hidden_of_its_own(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 2, 2, 12, 3, 3, 3, 6);
    p.policy.window = 3;
    test_problem_build(&p);
    test_problem_randomize(&p, 1);
    assert_ok(test_problem_open(&p));
    assert_ok(test_evict(&p));
    ckv_tensor wrong = p.tensor[TEST_WEIGHT].view;
    ckv_projection *projection;
    wrong.shape[1] = 6; /* as if the heads' widths summed up to the hidden size */
    assert_fails(ckv_projection_create(p.context, &wrong, 4, 3, &projection), CKV_ERROR_SHAPE, "wanted [>=1,12]");
    test_problem_close(&p);
}

static void test_window_longer_than_queries(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 1, 2, 100, 1, 8, 8, 8); /* a decode step */
    test_problem_build(&p);
    test_problem_randomize(&p, 2);
    assert_ok(test_problem_open(&p));
    assert_int_equal(p.info.window, 1);
    assert_ok(test_evict(&p));
    assert_int_equal(test_positions(&p)[39], 99);
    assert_int_equal(test_stage_codes(&p)[39], CKV_KEPT_FORCED);
    assert_int_not_equal(test_stage_codes(&p)[38], CKV_KEPT_FORCED);
    test_problem_close(&p);
    test_problem_init(&p, 2, 2, 8, 40, 8, 8, 8); /* a window of all tokens */
    test_problem_build(&p);
    test_problem_randomize(&p, 3);
    assert_ok(test_problem_open(&p));
    assert_ok(test_evict(&p));
    assert_true(TEST_KEEPS(&p, 0, 5, 6, 7));
    assert_true(TEST_KEEPS(&p, 1, 5, 6, 7));
    test_problem_close(&p);
}

static void test_flags(void **state)
{
    (void)state;
    const uint32_t flags[] = {CKV_NONFINITE_QUERY, CKV_NONFINITE_KEY, CKV_NONFINITE_VALUE, CKV_NONFINITE_WEIGHT};
    for (int mask = 0; mask < 16; mask++) {
        test_problem p;
        uint32_t want = 0;
        test_problem_init(&p, 2, 2, 12, 3, 3, 3, 6);
        test_problem_build(&p);
        test_problem_randomize(&p, 4);
        for (int t = 0; t < TEST_TENSORS; t++)
            if ((mask >> t & 1) != 0) {
                const int64_t *shape = p.tensor[t].cells.shape;
                test_put_bits(&p.tensor[t], shape[0] - 1, shape[1] - 1, shape[2] - 1,
                              t % 2 ? 0xff800000u : 0x7fc00001u);
                want |= flags[t];
            }
        assert_ok(test_problem_open(&p));
        assert_ok(test_evict(&p));
        assert_int_equal(p.run.flags, want);
        assert_ok(test_stages(&p));
        assert_int_equal(p.run.flags, want);
        test_problem_close(&p);
    }
}

/* ---------------------------------------------------------------- random problems */

static void random_sizes(test_problem *p, test_random *random)
{
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F16, CKV_BF16};
    int64_t n = test_between(random, 2, 60);
    test_problem_init(p, (int32_t)test_between(random, 1, 3), (int32_t)test_between(random, 1, 5), n,
                      test_between(random, 1, 20), (int32_t)test_between(random, 1, 20),
                      (int32_t)test_between(random, 1, 20), (int32_t)test_between(random, 1, 30));
    for (int t = 0; t < TEST_TENSORS; t++)
        p->dtype[t] = dtypes[test_between(random, 0, 2)];
    p->policy.budget = test_between(random, 1, n - 1);
    p->policy.alpha = (ckv_ratio){test_between(random, 0, 4), 4};
    p->policy.window = (int32_t)test_between(random, 1, 12);
    p->policy.recent = (int32_t)test_between(random, -1, 9);
    p->policy.sinks = (int32_t)test_between(random, 0, 4);
    p->policy.pool = (ckv_pool)test_between(random, 0, 2);
    p->policy.pool_width = (int32_t)test_between(random, 1, 9);
}

/* Ascending, as many as promised, the forced ones among them, codes that add up. */
static void check_properties(const test_problem *p)
{
    int64_t n = p->info.tokens, budget = p->info.budget;
    int64_t recent = p->policy.recent < 0 ? p->info.window : p->policy.recent < n ? p->policy.recent : n;
    int64_t sinks = p->policy.sinks < n - recent ? p->policy.sinks : n - recent;
    int64_t forced = recent + sinks < budget ? recent + sinks : budget;
    int64_t stage1 = p->info.stage1 > forced ? p->info.stage1 - forced : 0;
    for (int32_t h = 0; h < p->shape.kv_heads; h++) {
        const int32_t *row = test_positions(p) + test_offsets(p)[h];
        const uint8_t *code = test_stage_codes(p) + test_offsets(p)[h];
        int64_t count[4] = {0};
        assert_int_equal(test_offsets(p)[h], h * budget);
        for (int64_t i = 0; i < budget; i++) {
            assert_true(row[i] >= 0 && row[i] < n && (i == 0 || row[i] > row[i - 1]));
            assert_in_range(code[i], CKV_KEPT_FORCED, CKV_KEPT_STAGE2);
            count[code[i]]++;
            if (code[i] == CKV_KEPT_FORCED)
                assert_true(row[i] >= n - recent || row[i] < sinks);
        }
        assert_int_equal(count[CKV_KEPT_FORCED], forced);
        assert_int_equal(count[CKV_KEPT_STAGE1], stage1);
        assert_int_equal(count[CKV_KEPT_STAGE2], budget - forced - stage1);
        for (int64_t back = 1; back <= recent && back <= budget; back++)
            assert_int_equal(row[budget - back], n - back);
    }
    assert_int_equal(test_offsets(p)[p->shape.kv_heads], p->info.positions);
}

/* The same problem in other layouts, after rubbish in the workspace, and twice. */
static void check_layouts(test_problem *p, test_random *random, const uint64_t want[3])
{
    test_problem other = *p;
    for (int t = 0; t < TEST_TENSORS; t++)
        other.layout[t] = (test_layout)test_between(random, 0, TEST_LAYOUTS - 1);
    test_problem_build(&other);
    for (int t = 0; t < TEST_TENSORS; t++)
        test_copy(&other.tensor[t], &p->tensor[t]);
    assert_ok(test_problem_open(&other));
    for (int repeat = 0; repeat < 2; repeat++) {
        memset(other.workspace.data, repeat == 0 ? 0xff : 0x3f, other.workspace.size);
        assert_ok(test_stages(&other));
        assert_int_equal(test_hash_attention(&other), want[0]);
        assert_int_equal(test_hash_norm(&other), want[1]);
        assert_int_equal(test_hash_selection(&other), want[2]);
        memset(other.positions.data, 0, other.positions.size);
        memset(other.stages.data, 0, other.stages.size);
        assert_ok(test_evict(&other));
        assert_int_equal(test_hash_selection(&other), want[2]);
    }
    assert_true(test_all_intact(&other));
    test_problem_close(&other);
}

/* KV heads in reverse: results in reverse, so no head feels its neighbours. */
static void check_permuted(const test_problem *p)
{
    test_problem other = *p;
    int32_t heads = p->shape.kv_heads, group = p->shape.query_heads / heads, dim = p->shape.value_dim;
    test_problem_build(&other);
    for (int32_t g = 0; g < heads; g++) {
        int32_t from = heads - 1 - g;
        for (int64_t i = 0; i < p->shape.tokens; i++) {
            for (int64_t c = 0; c < p->shape.head_dim; c++)
                test_put_bits(&other.tensor[TEST_KEY], g, i, c, test_get_bits(&p->tensor[TEST_KEY], from, i, c));
            for (int64_t c = 0; c < dim; c++)
                test_put_bits(&other.tensor[TEST_VALUE], g, i, c, test_get_bits(&p->tensor[TEST_VALUE], from, i, c));
        }
        for (int32_t h = 0; h < group; h++) {
            for (int64_t i = 0; i < p->shape.queries; i++)
                for (int64_t c = 0; c < p->shape.head_dim; c++)
                    test_put_bits(&other.tensor[TEST_QUERY], g * group + h, i, c,
                                  test_get_bits(&p->tensor[TEST_QUERY], from * group + h, i, c));
            for (int64_t j = 0; j < p->shape.hidden; j++)
                for (int32_t k = 0; k < dim; k++)
                    test_put_bits(&other.tensor[TEST_WEIGHT], 0, j, (g * group + h) * dim + k,
                                  test_get_bits(&p->tensor[TEST_WEIGHT], 0, j, (from * group + h) * dim + k));
        }
    }
    assert_ok(test_problem_open(&other));
    assert_ok(test_stages(&other));
    for (int32_t g = 0; g < heads; g++) {
        int64_t budget = p->info.budget, from = heads - 1 - g;
        for (int64_t i = 0; i < p->shape.tokens; i++) {
            assert_int_equal(test_bits(test_attention(&other, g, i)), test_bits(test_attention(p, from, i)));
            assert_int_equal(test_bits(test_norm_at(&other, g, i)), test_bits(test_norm_at(p, from, i)));
        }
        assert_memory_equal(test_positions(&other) + g * budget, test_positions(p) + from * budget,
                            (size_t)budget * sizeof(int32_t));
        assert_memory_equal(test_stage_codes(&other) + g * budget, test_stage_codes(p) + from * budget, (size_t)budget);
    }
    test_problem_close(&other);
}

static void test_properties(void **state)
{
    (void)state;
    test_random random = test_seed(100);
    for (int round = 0; round < (test_light() ? 20 : 250); round++) {
        test_problem p;
        random_sizes(&p, &random);
        test_problem_build(&p);
        test_problem_randomize(&p, (uint64_t)round + 1000);
        test_problem twin = p; /* before there are handles */
        assert_ok(test_problem_open(&p));
        test_remember(&p);
        assert_ok(test_stages(&p));
        assert_true(test_inputs_unchanged(&p));
        assert_true(test_all_intact(&p));
        check_properties(&p);
        const uint64_t want[3] = {test_hash_attention(&p), test_hash_norm(&p), test_hash_selection(&p)};
        memset(p.positions.data, 0, p.positions.size);
        assert_ok(test_evict(&p));
        assert_true(test_inputs_unchanged(&p));
        assert_int_equal(test_hash_selection(&p), want[2]);
        check_layouts(&twin, &random, want);
        check_permuted(&p);
        test_problem_close(&p);
    }
}

/* Heads that share one key and value by a stride of 0 equal heads that repeat them. */
static void test_broadcast(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 3, 2, 30, 5, 6, 7, 8);
    test_problem_build(&p);
    test_problem_randomize(&p, 5);
    for (int t = TEST_KEY; t <= TEST_VALUE; t++)
        for (int64_t h = 1; h < 3; h++)
            for (int64_t i = 0; i < 30; i++)
                for (int64_t c = 0; c < p.tensor[t].cells.shape[2]; c++)
                    test_put_bits(&p.tensor[t], h, i, c, test_get_bits(&p.tensor[t], 0, i, c));
    assert_ok(test_problem_open(&p));
    assert_ok(test_evict(&p));
    uint64_t want = test_hash_selection(&p);
    p.tensor[TEST_KEY].view.stride[0] = 0;
    p.tensor[TEST_VALUE].view.stride[0] = 0;
    assert_ok(test_evict(&p));
    assert_int_equal(test_hash_selection(&p), want);
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_attention),
        cmocka_unit_test(test_protected_zero_row),
        cmocka_unit_test(test_hidden_of_its_own),
        cmocka_unit_test(test_window_longer_than_queries),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_broadcast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
