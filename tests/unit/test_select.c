/* SPDX-License-Identifier: Apache-2.0 */
/* Selection by the reference, against a selection by sorting written here. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- by sorting */

typedef struct entry {
    double score; /* NaN ranks last */
    int64_t position;
} entry;

static int by_rank(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (isnan(a->score) || isnan(b->score)) {
        if (isnan(a->score) != isnan(b->score))
            return isnan(a->score) ? 1 : -1;
    } else if (a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return a->position < b->position ? -1 : 1;
}

/* Spec 6.4 in doubles, rounded to float where it rounds: exact for + and * of floats. */
static double stage2_score(const test_problem *p, float attention, float norm)
{
    if (isnan(attention) || isnan(norm))
        return (double)NAN;
    double a = (double)attention, n = (double)norm;
    a = a < 0x1p-126 ? 0.0 : fmin(a, 0x1p20);
    n = n < 0x1p-100 ? 0.0 : fmin(n, 0x1p106);
    float sum = (float)(a + (double)p->policy.epsilon);
    return (double)(float)((double)sum * n);
}

static void take_best(entry *list, int64_t count, int64_t wanted, uint8_t reason, int *code)
{
    qsort(list, (size_t)count, sizeof *list, by_rank);
    for (int64_t i = 0; i < wanted && i < count; i++)
        code[list[i].position] = reason;
}

/* code[i]: why position i of the head is kept, or -1. */
static void select_by_sorting(const test_problem *p, int64_t head, int *code)
{
    int64_t n = p->info.tokens, budget = p->info.budget, taken = 0, count;
    int64_t recent = p->policy.recent < 0 ? p->info.window : p->policy.recent;
    entry *list = malloc((size_t)n * sizeof *list);
    assert_non_null(list);
    for (int64_t i = 0; i < n; i++)
        code[i] = budget == n ? CKV_KEPT_ALL : -1;
    for (int64_t back = 1; budget < n && back <= n; back++)
        if (back <= recent && taken < budget) {
            code[n - back] = CKV_KEPT_FORCED;
            taken++;
        }
    for (int64_t i = 0; budget < n && i < n && i < p->policy.sinks; i++)
        if (code[i] < 0 && taken < budget) {
            code[i] = CKV_KEPT_FORCED;
            taken++;
        }
    for (int stage = CKV_KEPT_STAGE1; stage <= CKV_KEPT_STAGE2; stage++) {
        int64_t limit = stage == CKV_KEPT_STAGE1 ? p->info.stage1 : budget;
        count = 0;
        for (int64_t i = 0; i < n; i++) {
            float a = test_attention(p, head, i);
            if (code[i] >= 0)
                continue;
            list[count].score = stage == CKV_KEPT_STAGE1 ? (double)a : stage2_score(p, a, test_norm_at(p, head, i));
            list[count++].position = i;
        }
        if (limit > taken) {
            take_best(list, count, limit - taken, (uint8_t)stage, code);
            taken = limit;
        }
    }
    free(list);
}

static void check_selection(test_problem *p)
{
    int64_t n = p->info.tokens, at = 0;
    int *code = malloc((size_t)n * sizeof *code);
    assert_non_null(code);
    assert_ok(test_select(p));
    assert_true(test_all_intact(p));
    assert_int_equal(test_offsets(p)[0], 0);
    for (int64_t h = 0; h < p->shape.kv_heads; h++) {
        select_by_sorting(p, h, code);
        for (int64_t i = 0; i < n; i++)
            if (code[i] >= 0) {
                assert_int_equal(test_positions(p)[at], i);
                assert_int_equal(test_stage_codes(p)[at], code[i]);
                at++;
            }
        assert_int_equal(test_offsets(p)[h + 1], at);
        assert_int_equal(at, (h + 1) * p->info.budget);
    }
    free(code);
}

/* ---------------------------------------------------------------- exact cases */

static void put_scores(const test_problem *p, int64_t head, const float *attention, const float *norm)
{
    for (int64_t i = 0; i < p->shape.tokens; i++) {
        if (attention != NULL)
            test_put_bits(&p->attention, 0, head, i, test_bits(attention[i]));
        test_put_bits(&p->norm, 0, head, i, test_bits(norm == NULL ? 1.0f : norm[i]));
    }
}

static void open_select(test_problem *p, int64_t tokens, int64_t budget, const float *attention, const float *norm)
{
    test_problem_init_select(p, 1, tokens, budget);
    assert_ok(test_problem_open(p));
    put_scores(p, 0, attention, norm);
}

static void reopen(test_problem *p)
{
    test_problem_close(p);
    assert_ok(test_problem_open(p));
}

#define ROW(...) ((const float[]){__VA_ARGS__})

/* A short prompt still gives stage 1 a slot; without it the norms would choose position 1. */
static void test_short_prompt(void **state)
{
    (void)state;
    test_problem p;
    open_select(&p, 3, -1, ROW(0.5f, 0.3f, 0.2f), ROW(0.1f, 1.0f, 1.0f));
    test_problem_close(&p);
    p.policy.keep = (ckv_ratio){1, 2};
    assert_ok(test_problem_open(&p));
    put_scores(&p, 0, ROW(0.5f, 0.3f, 0.2f), ROW(0.1f, 1.0f, 1.0f));
    assert_int_equal(p.info.budget, 1);
    assert_int_equal(p.info.stage1, 1);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0));
    assert_int_equal(test_stage_codes(&p)[0], CKV_KEPT_STAGE1);
    p.policy.alpha = (ckv_ratio){0, 1};
    reopen(&p);
    put_scores(&p, 0, ROW(0.5f, 0.3f, 0.2f), ROW(0.1f, 1.0f, 1.0f));
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 1));
    assert_int_equal(test_stage_codes(&p)[0], CKV_KEPT_STAGE2);
    test_problem_close(&p);
}

static void test_ascending(void **state)
{
    (void)state;
    test_problem p;
    open_select(&p, 4, 3, ROW(0.1f, 0.9f, 0.2f, 0.8f), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 1, 2, 3));
    test_problem_close(&p);
}

static void test_ties(void **state)
{
    (void)state;
    const ckv_ratio alphas[] = {{0, 1}, {1, 1}, {1, 2}};
    for (int a = 0; a < 3; a++) {
        test_problem p;
        test_problem_init_select(&p, 1, 6, 2);
        p.policy.alpha = alphas[a];
        assert_ok(test_problem_open(&p));
        put_scores(&p, 0, ROW(3, 2, 3, 2, 1, 1), NULL);
        check_selection(&p);
        assert_true(TEST_KEEPS(&p, 0, 0, 2));
        p.policy.budget = 3;
        reopen(&p);
        put_scores(&p, 0, ROW(3, 2, 3, 2, 1, 1), NULL);
        check_selection(&p);
        assert_true(TEST_KEEPS(&p, 0, 0, 1, 2));
        test_problem_close(&p);
    }
}

static void test_signed_zeros(void **state)
{
    (void)state;
    test_problem p;
    open_select(&p, 4, 2, ROW(-0.0f, 0.0f, -0.0f, 0.0f), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1));
    put_scores(&p, 0, ROW(0, 0, 0, 0), ROW(-0.0f, 0.0f, -0.0f, 0.0f));
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1));
    test_problem_close(&p);
    /* What was a float of 16 bits. */
    test_tensor half;
    test_tensor_new(&half, CKV_F16, 3, 1, 1, 4, TEST_DENSE);
    for (int i = 0; i < 4; i++)
        test_put_bits(&half, 0, 0, i, i % 2 == 0 ? 0x8000u : 0);
    open_select(&p, 4, 2, NULL, NULL);
    for (int i = 0; i < 4; i++)
        test_put_bits(&p.attention, 0, 0, i, test_bits((float)test_get(&half, 0, 0, i)));
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1));
    test_problem_close(&p);
    test_tensor_free(&half);
}

static void test_infinities_and_nan(void **state)
{
    (void)state;
    const float inf = INFINITY;
    test_problem p;
    open_select(&p, 4, 2, ROW(-inf, -inf, -inf, 1), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 3));
    assert_int_equal(p.run.flags, CKV_NONFINITE_ATTENTION);
    put_scores(&p, 0, ROW(NAN, -1, NAN, NAN), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1));
    put_scores(&p, 0, ROW(NAN, NAN, -inf, -2), ROW(1, 1, 1, 1)); /* NaN below -infinity */
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 2, 3));
    put_scores(&p, 0, ROW(NAN, NAN, NAN, NAN), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1));
    put_scores(&p, 0, ROW(1, 2, 3, 4), ROW(NAN, inf, 1, 1));
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 1, 3));
    assert_int_equal(p.run.flags, CKV_NONFINITE_NORM);
    put_scores(&p, 0, ROW(1, 2, 3, 4), ROW(1, 1, 1, 1));
    check_selection(&p);
    assert_int_equal(p.run.flags, 0);
    test_problem_close(&p);
}

/* More asked for than there is: all of it, and no more is written. */
static void test_budget_beyond(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init_select(&p, 1, 3, 5);
    assert_ok(test_problem_open(&p));
    put_scores(&p, 0, ROW(NAN, 1, 2), NULL);
    test_buffer larger;
    test_buffer_new(&larger, 5 * sizeof(int32_t), 0);
    p.selection.positions = (int32_t *)(void *)larger.data;
    p.selection.capacity = 5;
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1, 2));
    assert_int_equal(test_stage_codes(&p)[1], CKV_KEPT_ALL);
    assert_int_equal(p.selection.positions[3], 0x5a5a5a5a);
    assert_int_equal(p.selection.positions[4], 0x5a5a5a5a);
    assert_int_equal(p.run.flags, 0); /* no tensor is read */
    assert_true(test_buffer_intact(&larger));
    test_buffer_free(&larger);
    test_problem_close(&p);
}

static void test_budget_of_none(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init_select(&p, 3, 7, 0);
    assert_ok(test_problem_open(&p));
    p.selection.positions = NULL;
    p.selection.stages = NULL;
    assert_ok(test_select(&p));
    for (int h = 0; h <= 3; h++)
        assert_int_equal(test_offsets(&p)[h], 0);
    assert_true(test_all_intact(&p));
    test_problem_close(&p);
}

/* Force is a flag: scores that tie, zeros and norms of 0 do not undo it. */
static void test_force(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init_select(&p, 1, 8, 4);
    p.policy.window = p.policy.recent = 4;
    assert_ok(test_problem_open(&p));
    put_scores(&p, 0, ROW(1, 1, 1, 1, 1, 1, 1, 1), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 4, 5, 6, 7));
    put_scores(&p, 0, ROW(9, 9, 9, 9, 0, 0, 0, 0),
               ROW(9, 9, 9, 9, 1, 1, 0, 0)); /* stage 1 has fewer slots than the window */
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 4, 5, 6, 7));
    for (int i = 0; i < 4; i++)
        assert_int_equal(test_stage_codes(&p)[i], CKV_KEPT_FORCED);
    test_problem_close(&p);

    test_problem_init_select(&p, 1, 4, 2); /* a sink whose value row is zero */
    p.policy.sinks = 1;
    assert_ok(test_problem_open(&p));
    put_scores(&p, 0, ROW(0, 1, 1, 1), ROW(0, 1, 1, 1));
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1));
    test_problem_close(&p);

    test_problem_init_select(&p, 1, 8, 3); /* more forced than the budget: latest first, then sinks */
    p.policy.recent = 2;
    p.policy.sinks = 3;
    assert_ok(test_problem_open(&p));
    put_scores(&p, 0, ROW(0, 0, 9, 9, 9, 9, 0, 0), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 6, 7));
    p.policy.recent = 5;
    reopen(&p);
    put_scores(&p, 0, ROW(9, 9, 9, 9, 9, 9, 9, 9), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 5, 6, 7));
    p.policy.recent = 0; /* a window of 0 protects nothing */
    p.policy.sinks = 0;
    reopen(&p);
    put_scores(&p, 0, ROW(3, 2, 1, 0, 0, 0, 0, 0), NULL);
    check_selection(&p);
    assert_true(TEST_KEEPS(&p, 0, 0, 1, 2));
    test_problem_close(&p);
}

/* Forced entries count in stage 1; what stage 2 adds weighs attention with the norm. */
static void test_two_stages(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init_select(&p, 1, 8, 4);
    p.policy.recent = 1;
    assert_ok(test_problem_open(&p));
    put_scores(&p, 0, ROW(0.5f, 0.4f, 0.3f, 0.2f, 0.1f, 0, 0, 0), ROW(0, 0, 1, 2, 5, 1000, 0, 9));
    check_selection(&p);
    /* .4002 .5005 .1: positions 3 and 4 */
    assert_true(TEST_KEEPS(&p, 0, 0, 3, 4, 7));
    const uint8_t codes[] = {CKV_KEPT_STAGE1, CKV_KEPT_STAGE2, CKV_KEPT_STAGE2, CKV_KEPT_FORCED};
    assert_memory_equal(test_stage_codes(&p), codes, sizeof codes);
    p.selection.stages = NULL; /* optional */
    assert_ok(test_select(&p));
    assert_true(TEST_KEEPS(&p, 0, 0, 3, 4, 7));
    test_problem_close(&p);
}

/* The edges at which a caller's own scores are cut. */
static void test_cut_scores(void **state)
{
    (void)state;
    const float inf = INFINITY;
    test_problem p;
    test_problem_init_select(&p, 1, 2, 1);
    p.policy.alpha = (ckv_ratio){0, 1};
    assert_ok(test_problem_open(&p));
    const struct {
        float attention[2], norm[2];
        int32_t kept;
    } cases[] = {
        {{0x1p20f, inf}, {1, 1}, 0}, /* both 2^20 */
        {{0x1.fffffep19f, inf}, {1, 1}, 1},
        {{1, 1}, {0x1p106f, inf}, 0}, /* both 2^106 */
        {{1, 1}, {0x1.fffffep105f, inf}, 1},
        {{1, 1}, {0, 0x1.fffffep-101f}, 0}, /* both 0 */
        {{1, 1}, {0, 0x1p-100f}, 1},
        {{1, 1}, {-5, 0}, 0}, /* negative: 0 */
        {{1, 1}, {-inf, 0}, 0},
        {{-7, 0}, {1, 1}, 0},
        {{-inf, 0}, {1, 1}, 0},
        {{0, 0x1.fffffep-127f}, {1, 1}, 0},
        {{NAN, -inf}, {1, 1}, 1}, /* NaN ranks last */
        {{1, 1}, {NAN, -1}, 1},
        {{inf, 0}, {NAN, 0}, 1},
        {{0, 1}, {1, 1e-5f}, 0}, /* epsilon: 1e-4 against 1.0001e-5 */
        {{0, 1}, {1, 1e-3f}, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        put_scores(&p, 0, cases[c].attention, cases[c].norm);
        check_selection(&p);
        if (test_positions(&p)[0] != cases[c].kept)
            fail_msg("case %d keeps %d", (int)c, (int)test_positions(&p)[0]);
    }
    test_problem_close(&p);
}

/* Scores of blocks copied to their four cells, with a cut inside a tie; the same each time. */
static void test_long_ties(void **state)
{
    (void)state;
    const int64_t blocks = test_light() ? 3000 : 49152, tokens = 4 * blocks + 2;
    test_random random = test_seed(50);
    test_problem p;
    uint64_t want = 0;
    test_problem_init_select(&p, 1, tokens, 2051);
    assert_ok(test_problem_open(&p));
    for (int64_t b = 0; b < blocks; b++) {
        uint32_t bits = test_bits((float)test_between(&random, 0, 900) / 1024.0f);
        for (int64_t i = 4 * b; i < 4 * b + 4; i++) {
            test_put_bits(&p.attention, 0, 0, i, bits);
            test_put_bits(&p.norm, 0, 0, i, test_bits(1.0f));
        }
    }
    test_put_bits(&p.attention, 0, 0, tokens - 2, 0);
    test_put_bits(&p.attention, 0, 0, tokens - 1, test_bits(0.875f));
    for (int repeat = 0; repeat < (test_light() ? 3 : 20); repeat++) {
        memset(p.workspace.data, repeat * 37, p.workspace.size);
        if (repeat == 0)
            check_selection(&p);
        assert_ok(test_select(&p));
        if (repeat == 0)
            want = test_hash_selection(&p);
        assert_int_equal(test_hash_selection(&p), want);
    }
    test_problem_close(&p);
}

/* Values of 16-bit floats, many of them equal or close; repeated. */
static void test_16_bit_scores(void **state)
{
    (void)state;
    const int64_t lengths[] = {256, 257, 2048};
    const ckv_dtype dtypes[] = {CKV_F16, CKV_BF16};
    for (int l = 0; l < 3; l++)
        for (int t = 0; t < 2; t++) {
            int32_t heads = test_light() ? 4 : 64;
            test_problem p;
            test_tensor small;
            test_random random = test_seed((uint64_t)(60 + 2 * l + t));
            test_problem_init_select(&p, heads, lengths[l], 8);
            p.policy.alpha = (ckv_ratio){1, 1};
            assert_ok(test_problem_open(&p));
            test_tensor_new(&small, dtypes[t], 3, heads, lengths[l], 1, TEST_DENSE);
            test_randomize(&small, &random, -3, 2);
            for (int32_t h = 0; h < heads; h++)
                for (int64_t i = 0; i < lengths[l]; i++) {
                    test_put_bits(&p.attention, 0, h, i, test_bits((float)test_get(&small, h, i, 0)));
                    test_put_bits(&p.norm, 0, h, i, test_bits(1.0f));
                }
            check_selection(&p);
            uint64_t want = test_hash_selection(&p);
            for (int repeat = 0; repeat < 10; repeat++) {
                assert_ok(test_select(&p));
                assert_int_equal(test_hash_selection(&p), want);
            }
            test_tensor_free(&small);
            test_problem_close(&p);
        }
}

/* ---------------------------------------------------------------- random */

static uint32_t random_score(test_random *random, int kind)
{
    static const uint32_t special[] = {0,           0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u,
                                       1,           0x80000001u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0xff7fffffu,
                                       0x49800000u, 0x49800001u, 0x74800000u, 0x74800001u, 0x0d800000u, 0x0d7fffffu};
    switch (kind) {
    case 0:
        return test_element(random, CKV_F32, -6, 0) & 0x7fffffffu;
    case 1:
        return test_bits((float)test_between(random, -2, 2)); /* ties */
    case 2:
        return (uint32_t)(test_next(random) >> 32); /* anything at all */
    case 3:
        return special[test_between(random, 0, (int64_t)(sizeof special / sizeof special[0]) - 1)];
    default:
        return test_bits(0.25f);
    }
}

static void test_random_problems(void **state)
{
    (void)state;
    test_random random = test_seed(70);
    for (int round = 0; round < (test_light() ? 300 : 4000); round++) {
        test_problem p;
        int64_t n = test_between(&random, 1, 40);
        int32_t heads = (int32_t)test_between(&random, 1, 3);
        int kind = (int)test_between(&random, 0, 4), norm_kind = (int)test_between(&random, 0, 4);
        test_problem_init_select(&p, heads, n, test_between(&random, 0, n + 1));
        p.policy.window = (int32_t)test_between(&random, 0, 12);
        p.policy.recent = (int32_t)test_between(&random, -1, 12);
        p.policy.sinks = (int32_t)test_between(&random, 0, 5);
        p.policy.alpha = (ckv_ratio){test_between(&random, 0, 4), 4};
        p.policy.epsilon = round % 3 == 0 ? 0x1p-24f : round % 3 == 1 ? 1.0f : 1e-4f;
        assert_ok(test_problem_open(&p));
        for (int32_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < n; i++) {
                test_put_bits(&p.attention, 0, h, i, random_score(&random, kind));
                test_put_bits(&p.norm, 0, h, i, random_score(&random, norm_kind));
            }
        check_selection(&p);
        test_problem_close(&p);
    }
}

/* Scores in any layout; equal ones for all heads by a stride of 0. */
static void test_layouts(void **state)
{
    (void)state;
    test_problem p;
    test_random random = test_seed(80);
    test_problem_init_select(&p, 3, 25, 9);
    p.policy.recent = 2;
    assert_ok(test_problem_open(&p));
    test_randomize(&p.attention, &random, -4, 0);
    test_randomize(&p.norm, &random, -4, 4);
    check_selection(&p);
    uint64_t want = test_hash_selection(&p);
    for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
        test_tensor attention, norm;
        test_tensor_new(&attention, CKV_F32, 2, 1, 3, 25, (test_layout)layout);
        test_tensor_new(&norm, CKV_F32, 2, 1, 3, 25, (test_layout)((layout + 2) % TEST_LAYOUTS));
        test_copy(&attention, &p.attention);
        test_copy(&norm, &p.norm);
        assert_ok(ckv_select(p.plan, &attention.view, &norm.view, &p.selection, &p.run));
        assert_int_equal(test_hash_selection(&p), want);
        test_tensor_free(&attention);
        test_tensor_free(&norm);
    }
    ckv_tensor same = p.attention.view;
    for (int64_t h = 1; h < 3; h++)
        for (int64_t i = 0; i < 25; i++)
            test_put_bits(&p.attention, 0, h, i, test_get_bits(&p.attention, 0, 0, i));
    check_selection(&p);
    want = test_hash_selection(&p);
    same.stride[0] = 0;
    assert_ok(ckv_select(p.plan, &same, &p.norm.view, &p.selection, &p.run));
    assert_int_equal(test_hash_selection(&p), want);
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_prompt),
        cmocka_unit_test(test_ascending),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_signed_zeros),
        cmocka_unit_test(test_infinities_and_nan),
        cmocka_unit_test(test_budget_beyond),
        cmocka_unit_test(test_budget_of_none),
        cmocka_unit_test(test_force),
        cmocka_unit_test(test_two_stages),
        cmocka_unit_test(test_cut_scores),
        cmocka_unit_test(test_long_ties),
        cmocka_unit_test(test_16_bit_scores),
        cmocka_unit_test(test_random_problems),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
