/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: budget arithmetic, windows, limits, and what a plan reports. */
#include "unit.h"

#include <math.h>

#include "plan.h"

static ckv_context *context;

static int open_context(void **state)
{
    (void)state;
    ckv_context_options options;
    ckv_context_options_init(&options);
    options.backend = "ref";
    return ckv_context_create(&options, &context) == CKV_OK ? 0 : -1;
}

static int close_context(void **state)
{
    (void)state;
    ckv_context_destroy(context);
    return 0;
}

typedef struct setup {
    ckv_shape shape;
    ckv_policy policy;
} setup;

static setup start(int32_t kv_heads, int64_t tokens)
{
    setup s;
    memset(&s, 0x77, sizeof s);
    ckv_shape_init(&s.shape);
    ckv_policy_init(&s.policy);
    s.shape.kv_heads = kv_heads;
    s.shape.tokens = tokens;
    return s;
}

static ckv_status create(const setup *s)
{
    ckv_plan *plan = (ckv_plan *)(uintptr_t)s;
    ckv_status status = ckv_plan_create(context, &s->shape, &s->policy, &plan);
    if (status != CKV_OK)
        assert_null(plan);
    ckv_plan_destroy(plan);
    return status;
}

static ckv_plan_info query(const setup *s)
{
    ckv_plan *plan;
    ckv_plan_info info;
    memset(&info, 0x77, sizeof info);
    info.struct_size = sizeof info;
    assert_ok(ckv_plan_create(context, &s->shape, &s->policy, &plan));
    assert_ok(ckv_plan_query(plan, &info));
    ckv_plan_destroy(plan);
    return info;
}

/* By itself, since the plan rounds ratios through policies. */
static ckv_plan inside(const setup *s)
{
    ckv_plan *plan, copy;
    assert_ok(ckv_plan_create(context, &s->shape, &s->policy, &plan));
    copy = *plan;
    ckv_plan_destroy(plan);
    return copy;
}

static int64_t budget(int64_t tokens, int64_t numerator, int64_t denominator)
{
    setup s = start(1, tokens);
    s.policy.keep = (ckv_ratio){numerator, denominator};
    return query(&s).budget;
}

static void test_budgets(void **state)
{
    (void)state;
    assert_int_equal(budget(500, 93, 100), 465); /* doubles give 464 or 465, as they are written */
    assert_int_equal(budget(10, 1, 10), 1);
    assert_int_equal(budget(2, 2, 5), 1);
    assert_int_equal(budget(10, 0, 1), 0);
    assert_int_equal(budget(1, 1, 1000), 1);
    assert_int_equal(budget(10, 1, 1), 10);
    assert_int_equal(budget((int64_t)1 << 22, ((int64_t)1 << 40) - 1, (int64_t)1 << 40), ((int64_t)1 << 22) - 1);

    setup s = start(3, 100);
    s.policy.budget = 128;
    assert_int_equal(query(&s).budget, 100);
    assert_int_equal(query(&s).positions, 300);
    s.policy.budget = INT64_MAX;
    assert_int_equal(query(&s).budget, 100);
    s.policy.budget = 0;
    assert_int_equal(query(&s).budget, 0);
    assert_int_equal(query(&s).positions, 0);
    s.policy.budget = 37;
    s.policy.keep = (ckv_ratio){1, 1};
    assert_int_equal(query(&s).budget, 37);
}

static void test_stage1(void **state)
{
    (void)state;
    const struct {
        int64_t budget, numerator, denominator, want;
    } cases[] = {{1, 1, 2, 1}, {3, 1, 2, 1}, {4, 1, 2, 2}, {5, 1, 2, 2},    {100, 1, 4, 25},
                 {7, 0, 1, 0}, {7, 1, 1, 7}, {0, 1, 2, 0}, {7, 1, 1000, 1}, {50, 99, 100, 49}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = start(1, 200);
        s.policy.budget = cases[i].budget;
        s.policy.alpha = (ckv_ratio){cases[i].numerator, cases[i].denominator};
        assert_int_equal(query(&s).stage1, cases[i].want);
    }
}

static void test_windows(void **state)
{
    (void)state;
    const struct {
        int64_t tokens, queries;
        int32_t window;
        int64_t want;
    } cases[] = {{100, 40, 32, 32}, {100, 32, 32, 32}, {100, 1, 32, 1}, {100, 31, 32, 31},    {8, 40, 32, 8},
                 {100, 0, 32, 32},  {5, 0, 32, 5},     {100, 40, 0, 0}, {100, 200, 100, 100}, {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = start(1, cases[i].tokens);
        s.shape.queries = cases[i].queries;
        s.policy.window = cases[i].window;
        assert_int_equal(query(&s).window, cases[i].want);
        ckv_plan plan = inside(&s);
        assert_int_equal(plan.recent, cases[i].want);
        float inverse = cases[i].want == 0 ? 0.0f : 1.0f / (float)cases[i].want;
        assert_int_equal(test_bits(plan.window_inverse), test_bits(inverse));
    }
}

static void test_forced(void **state)
{
    (void)state;
    const struct {
        int32_t recent, sinks;
        int64_t budget, want_recent, want_sinks, want_forced;
    } cases[] = {
        {0, 0, 10, 0, 0, 0},
        {-1, 0, 40, 32, 0, 32},
        {5, 3, 10, 5, 3, 8},
        {5, 3, 7, 5, 3, 7},
        {200, 7, 10, 100, 0, 10},
        {90, 20, 100, 90, 10, 100},
        {INT32_MAX, INT32_MAX, 50, 100, 0, 50},
        {0, 4, 2, 0, 4, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s = start(1, 100);
        s.policy.recent = cases[i].recent;
        s.policy.sinks = cases[i].sinks;
        s.policy.budget = cases[i].budget;
        ckv_plan plan = inside(&s);
        assert_int_equal(plan.recent, cases[i].want_recent);
        assert_int_equal(plan.sinks, cases[i].want_sinks);
        assert_int_equal(plan.forced, cases[i].want_forced);
    }
}

static void test_pools_and_inverses(void **state)
{
    (void)state;
    setup s = start(2, 100);
    s.shape.query_heads = 14;
    s.policy.pool = CKV_POOL_AVERAGE;
    s.policy.pool_width = 5;
    ckv_plan plan = inside(&s);
    assert_int_equal(plan.group, 7);
    assert_int_equal(plan.pool, CKV_POOL_AVERAGE);
    assert_int_equal(test_bits(plan.pool_inverse), test_bits(0.2f));
    assert_int_equal(test_bits(plan.group_inverse), test_bits(1.0f / 7.0f));
    s.policy.pool_width = 1;
    assert_int_equal(inside(&s).pool, CKV_POOL_NONE);
    s.policy.pool = CKV_POOL_NONE;
    s.policy.pool_width = INT32_MAX; /* not looked at */
    assert_int_equal(inside(&s).pool_width, 1);
}

/* 1/sqrt(d) as spec 3.2 words it, and that it is the nearest float to the true value. */
static void test_default_scale(void **state)
{
    (void)state;
    setup s = start(1, 10);
    for (int32_t d = 1; d <= 1 << 15; d += d < 600 || !test_light() ? 1 : 61) {
        s.shape.head_dim = d;
        float scale = inside(&s).scale;
        double nearest = 1.0 / sqrt((double)d);
        assert_int_equal(test_bits(scale), test_bits((float)nearest));
        /* (scale +- half a step)^2 * d around 1; the halves have 25 bits, their squares 50. */
        double below = ((double)scale + (double)nextafterf(scale, 0.0f)) / 2;
        double above = ((double)scale + (double)nextafterf(scale, 2.0f)) / 2;
        assert_true(fma(below * below, (double)d, -1.0) <= 0.0);
        assert_true(fma(above * above, (double)d, -1.0) >= 0.0);
    }
    s.policy.scale = 0.3f;
    assert_int_equal(test_bits(inside(&s).scale), test_bits(0.3f));
}

static void test_reports(void **state)
{
    (void)state;
    setup s = start(4, 300);
    s.policy.budget = 128;
    ckv_plan_info info = query(&s);
    assert_int_equal(info.struct_size, sizeof info);
    assert_int_equal(info.tokens, 300);
    assert_int_equal(info.budget, 128);
    assert_int_equal(info.positions, 512);
    assert_int_equal(info.next_position, 300); /* not 128: rows are not positions */
    assert_string_equal(info.backend, "ref");
    assert_string_equal(info.device, "scalar reference");
    assert_string_equal(info.variant, "scalar");
    ckv_plan *plan;
    assert_ok(ckv_plan_create(context, &s.shape, NULL, &plan));
    assert_fails(ckv_plan_query(NULL, &info), CKV_ERROR_INVALID_ARGUMENT, "plan: NULL");
    assert_fails(ckv_plan_query(plan, NULL), CKV_ERROR_INVALID_ARGUMENT, "info: NULL");
    info.struct_size = 8;
    info.tokens = -5;
    assert_fails(ckv_plan_query(plan, &info), CKV_ERROR_INVALID_ARGUMENT, "info: struct_size");
    assert_int_equal(info.tokens, -5);
    info.struct_size = sizeof info;
    assert_ok(ckv_plan_query(plan, &info));
    assert_int_equal(info.budget, 120); /* NULL policy: keep 2/5 */
    assert_int_equal(info.stage1, 60);
    ckv_plan_destroy(plan);
    ckv_plan_destroy(NULL);
}

/* Each field one beyond its limit and at it. */
static void test_limits(void **state)
{
    (void)state;
    setup s = start(1, 1);
    assert_ok(create(&s));
    s.shape.tokens = 1 << 22;
    assert_ok(create(&s));
    s.shape.tokens++;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "tokens 4194305");
    s.shape.tokens = INT64_MAX;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "tokens");
    s.shape.tokens = 0;
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "tokens 0");
    s.shape.tokens = INT64_MIN;
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "tokens");

    const struct {
        const char *name;
        size_t offset;
        int32_t most;
    } fields[] = {{"head_dim", offsetof(ckv_shape, head_dim), 1 << 15},
                  {"value_dim", offsetof(ckv_shape, value_dim), 512},
                  {"hidden", offsetof(ckv_shape, hidden), 1 << 15}};
    for (int i = 0; i < 3; i++) {
        const int32_t values[] = {0, fields[i].most, fields[i].most + 1, INT32_MAX, -1, INT32_MIN};
        for (int j = 0; j < 6; j++) {
            s = start(1, 10);
            memcpy((char *)&s.shape + fields[i].offset, &values[j], sizeof values[j]);
            if (j < 2)
                assert_ok(create(&s));
            else
                assert_fails(create(&s), j < 4 ? CKV_ERROR_LIMIT : CKV_ERROR_INVALID_ARGUMENT, fields[i].name);
        }
    }
    s = start(0, 10);
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "kv_heads 0");
    s = start(-1, 10);
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "kv_heads -1");
    s = start(3, 10);
    s.shape.query_heads = -3;
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "query_heads -3");
    s.shape.query_heads = 7;
    assert_fails(create(&s), CKV_ERROR_SHAPE, "query_heads 7");
    s.shape.query_heads = 2;
    assert_fails(create(&s), CKV_ERROR_SHAPE, "query_heads 2");
    s.shape.query_heads = 9;
    assert_ok(create(&s));
    s.shape.queries = -1;
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "queries -1");
    s.shape.queries = INT64_MAX;
    assert_ok(create(&s));
}

/* window * group * width is at most 2^17, width 1 without a pool. */
static void test_mean_limit(void **state)
{
    (void)state;
    setup s = start(1, 1 << 10);
    s.shape.query_heads = 1 << 4;
    s.policy.window = 1 << 10;
    s.policy.pool_width = 8;
    assert_ok(create(&s));
    s.policy.pool_width = 9;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "window 1024 * group 16 * pool_width 9");
    s.policy.pool = CKV_POOL_NONE;
    assert_ok(create(&s));
    s.policy.pool = CKV_POOL_AVERAGE;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "pool_width 9");
    s.shape.queries = 512; /* the effective window counts */
    assert_ok(create(&s));
    s = start(1, 10);
    s.shape.queries = 1;
    s.policy.pool_width = 1 << 17;
    assert_ok(create(&s));
    s.policy.pool_width = (1 << 17) + 1;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "pool_width");
    s.policy.pool_width = INT32_MAX;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "pool_width");
    s.policy.pool_width = 1;
    s.shape.query_heads = 1 << 17;
    assert_ok(create(&s));
    s.shape.query_heads = (1 << 17) + 1;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "group");
    s.shape.query_heads = INT32_MAX;
    s.policy.pool_width = INT32_MAX;
    s.shape.queries = 0;
    s.shape.tokens = 1 << 22;
    s.policy.window = INT32_MAX;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "group");
    /* Nothing scored: the group and width alone still hold. */
    s = start(1, 10);
    s.policy.window = 0;
    s.shape.query_heads = 1 << 15;
    s.policy.pool_width = 4;
    assert_ok(create(&s));
    s.policy.pool_width = 5;
    assert_fails(create(&s), CKV_ERROR_LIMIT, "window 0");
}

static void test_overflow(void **state)
{
    (void)state;
    setup s = start(INT32_MAX, 1);
    assert_ok(create(&s));
    s.shape.tokens = 2;
    s.policy.budget = 2;
    assert_fails(create(&s), CKV_ERROR_OVERFLOW, "kv_heads 2147483647 * budget 2");
    s = start(1 << 10, 1 << 22);
    s.policy.budget = (1 << 21) - 1;
    assert_ok(create(&s));
    s.policy.budget = 1 << 21; /* 2^31 entries, one too many */
    assert_fails(create(&s), CKV_ERROR_OVERFLOW, "budget 2097152");
}

static void test_errors(void **state)
{
    (void)state;
    struct {
        ckv_shape shape;
        unsigned char later[24];
    } given;
    setup s = start(1, 10);
    ckv_plan *plan;
    ckv_shape_init(NULL);
    assert_fails(ckv_plan_create(context, &s.shape, &s.policy, NULL), CKV_ERROR_INVALID_ARGUMENT, "plan: NULL");
    plan = (ckv_plan *)(void *)&s;
    assert_fails(ckv_plan_create(NULL, &s.shape, &s.policy, &plan), CKV_ERROR_INVALID_ARGUMENT, "context: NULL");
    assert_null(plan);
    assert_fails(ckv_plan_create(context, NULL, &s.policy, &plan), CKV_ERROR_INVALID_ARGUMENT, "shape: NULL");
    s.policy.window = -1;
    assert_fails(create(&s), CKV_ERROR_INVALID_ARGUMENT, "policy: window -1");
    memset(&given, 0, sizeof given);
    given.shape = start(1, 10).shape;
    given.shape.struct_size = sizeof given;
    assert_ok(ckv_plan_create(context, &given.shape, NULL, &plan));
    ckv_plan_destroy(plan);
    given.later[23] = 4;
    assert_fails(ckv_plan_create(context, &given.shape, NULL, &plan), CKV_ERROR_INVALID_ARGUMENT, "shape: byte");
    given.shape.struct_size = offsetof(ckv_shape, hidden);
    assert_fails(ckv_plan_create(context, &given.shape, NULL, &plan), CKV_ERROR_INVALID_ARGUMENT, "shape: struct_size");
}

/* Workspace grows with kv_heads * tokens and hidden, never with queries or query heads. */
static void test_workspace(void **state)
{
    (void)state;
    setup s = start(8, 131072);
    s.shape.query_heads = 32;
    s.shape.queries = 32;
    s.shape.head_dim = s.shape.value_dim = 128;
    s.shape.hidden = 4096;
    size_t base = query(&s).workspace, cells = (size_t)8 * 131072 * sizeof(float);
    assert_true(base >= 2 * cells);
    assert_true(base <= 3 * cells);
    s.shape.query_heads = 256;
    assert_int_equal(query(&s).workspace, base);
    s.shape.queries = 131072;
    assert_int_equal(query(&s).workspace, base);
    s.shape.head_dim = 1 << 15;
    assert_int_equal(query(&s).workspace, base);
    s.shape.tokens = 262144;
    assert_true(query(&s).workspace <= 2 * base);
    s.shape.tokens = 1;
    s.shape.hidden = 1 << 15;
    assert_true(query(&s).workspace >= ((size_t)1 << 15) * sizeof(int32_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_stage1),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_pools_and_inverses),
        cmocka_unit_test(test_default_scale),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_mean_limit),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_workspace),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
