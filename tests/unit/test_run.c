/* SPDX-License-Identifier: Apache-2.0 */
/* Run calls: each wrong argument is an error that names it, before anything of the
 * caller's is written; right ones write their outputs and nothing else. */
#include "unit.h"

#include <stdlib.h>

#include "backend.h"
#include "plan.h"
#include "projection.h"

enum call { SCORE, NORM, SELECT, COMPACT, EVICT, CALLS };

/* Everything that a call takes, as values that a test may spoil. */
typedef struct arguments {
    const ckv_plan *plan;
    const ckv_projection *projection;
    ckv_tensor query, key, value, attention, norm;
    ckv_selection selection;
    ckv_run run;
    unsigned char later[16]; /* after run, for a struct that is too large */
    const void *null;        /* this one of them is handed over as NULL */
} arguments;

static test_problem problem;
static arguments good;

static int open_problem(void **state)
{
    (void)state;
    test_problem *p = &problem;
    test_problem_init(p, 2, 3, 20, 6, 5, 4, 7);
    p->policy.window = 4;
    test_problem_build(p);
    test_problem_randomize(p, 90);
    if (test_problem_open(p) != CKV_OK || test_stages(p) != CKV_OK)
        return -1;
    memset(&good, 0, sizeof good);
    good.plan = p->plan;
    good.projection = p->projection;
    good.query = p->tensor[TEST_QUERY].view;
    good.key = p->tensor[TEST_KEY].view;
    good.value = p->tensor[TEST_VALUE].view;
    good.attention = p->attention.view;
    good.norm = p->norm.view;
    good.selection = p->selection;
    good.run = p->run;
    return 0;
}

static int close_problem(void **state)
{
    (void)state;
    test_problem_close(&problem);
    return 0;
}

#define PASS(a, field) ((a)->null == (const void *)&(a)->field ? NULL : &(a)->field)

static ckv_status call(enum call which, arguments *a)
{
    const ckv_tensor *query = PASS(a, query), *key = PASS(a, key), *value = PASS(a, value);
    const ckv_tensor *attention = PASS(a, attention), *norm = PASS(a, norm);
    const ckv_selection *selection = PASS(a, selection);
    ckv_run *run = PASS(a, run);
    switch (which) {
    case SCORE:
        return ckv_score(a->plan, query, key, attention, run);
    case NORM:
        return ckv_norm(a->plan, value, a->projection, norm, run);
    case SELECT:
        return ckv_select(a->plan, attention, norm, selection, run);
    case COMPACT:
        return ckv_compact(a->plan, value, selection, value, run);
    default:
        return ckv_evict(a->plan, query, key, value, a->projection, selection, run);
    }
}

/* `which` with `a` fails so, and every byte of the caller's is as it was. */
static void check_refused(enum call which, arguments *a, ckv_status status, const char *part)
{
    a->run.flags = 77;
    test_remember(&problem);
    assert_fails(call(which, a), status, part);
    assert_true(test_all_unchanged(&problem));
}

static void check_works(enum call which, arguments *a)
{
    a->run.flags = 77;
    test_remember(&problem);
    assert_ok(call(which, a));
    assert_int_equal(a->run.flags, 0);
    assert_true(test_all_intact(&problem));
    if (which != COMPACT)
        assert_true(test_inputs_unchanged(&problem));
}

static void test_right_arguments(void **state)
{
    (void)state;
    for (int which = SCORE; which < CALLS; which++) {
        arguments a = good;
        if (which == COMPACT) {
            test_tensor value;
            test_tensor_new(&value, CKV_F32, 3, 2, 20, 4, TEST_DENSE);
            a.value = value.view;
            check_works(COMPACT, &a);
            test_tensor_free(&value);
        } else {
            check_works((enum call)which, &a);
        }
    }
}

/* ---------------------------------------------------------------- run and plan */

static void test_run_struct(void **state)
{
    (void)state;
    for (int which = SCORE; which < CALLS; which++) {
        arguments a = good;
        a.null = &a.run;
        check_refused((enum call)which, &a, CKV_ERROR_INVALID_ARGUMENT, "run: NULL");
        a = good;
        a.run.struct_size = offsetof(ckv_run, flags);
        check_refused((enum call)which, &a, CKV_ERROR_INVALID_ARGUMENT, "run: struct_size");
        assert_int_equal(a.run.flags, 77);
        a = good;
        a.run.struct_size = sizeof(ckv_run) + sizeof a.later;
        a.later[15] = 1;
        check_refused((enum call)which, &a, CKV_ERROR_INVALID_ARGUMENT, "run: byte");
        a = good;
        a.run.workspace = NULL;
        check_refused((enum call)which, &a, CKV_ERROR_INVALID_ARGUMENT, "run: workspace: NULL");
        assert_int_equal(a.run.flags, 0);
        a = good;
        a.run.workspace_size = problem.info.workspace - 1;
        check_refused((enum call)which, &a, CKV_ERROR_CAPACITY, "run: workspace_size");
        assert_int_equal(a.run.flags, 0);
        a = good;
        a.plan = NULL;
        check_refused((enum call)which, &a, CKV_ERROR_INVALID_ARGUMENT, "plan: NULL");
        a = good;
        a.run.struct_size = sizeof(ckv_run) + sizeof a.later; /* a newer caller's zeros */
        if (which != COMPACT)
            check_works((enum call)which, &a);
    }
    ckv_run_init(NULL, NULL, 0);
    ckv_selection_init(NULL, NULL, 0, NULL);
}

/* The workspace may start anywhere; its size is enough for any start, and is kept to. */
static void test_workspace(void **state)
{
    (void)state;
    test_problem *p = &problem;
    assert_ok(test_evict(p));
    uint64_t want = test_hash_selection(p);
    for (size_t offset = 0; offset < 64; offset++) {
        test_buffer memory;
        arguments a = good;
        test_buffer_new(&memory, p->info.workspace, offset);
        a.run.workspace = memory.data;
        a.run.workspace_size = memory.size;
        assert_ok(call(EVICT, &a));
        assert_int_equal(test_hash_selection(p), want);
        for (int which = SCORE; which <= SELECT; which++)
            assert_ok(call((enum call)which, &a));
        assert_int_equal(test_hash_selection(p), want);
        assert_true(test_buffer_intact(&memory));
        test_buffer_free(&memory);
    }
}

static uintptr_t seen_workspace;

static uint32_t spy_score(const ckv_plan *plan, const ckv_tensor *query, const ckv_tensor *key,
                          const ckv_tensor *attention, void *workspace)
{
    (void)plan;
    (void)query;
    (void)key;
    (void)attention;
    seen_workspace = (uintptr_t)workspace;
    return CKV_NONFINITE_KEY;
}

/* What a backend is given starts on its boundary and lies in what the caller gave. */
static void test_backend_workspace(void **state)
{
    (void)state;
    ckv_backend spy = ckv_backend_ref;
    ckv_plan plan = *good.plan;
    spy.score = spy_score;
    plan.backend = &spy;
    for (size_t offset = 0; offset < 64; offset++) {
        test_buffer memory;
        arguments a = good;
        test_buffer_new(&memory, problem.info.workspace, offset);
        a.plan = &plan;
        a.run.workspace = memory.data;
        a.run.workspace_size = memory.size;
        assert_ok(call(SCORE, &a));
        assert_int_equal(a.run.flags, CKV_NONFINITE_KEY);
        assert_int_equal(seen_workspace % 64, 0);
        assert_true(seen_workspace >= (uintptr_t)memory.data);
        assert_true(seen_workspace + plan.workspace <= (uintptr_t)memory.data + memory.size);
        test_buffer_free(&memory);
    }
}

/* ---------------------------------------------------------------- tensors */

static const struct {
    size_t offset;
    const char *name;
    unsigned calls;   /* bits of those that take it */
    unsigned outputs; /* bits of those for which it is an output */
} tensors[] = {
    {offsetof(arguments, query), "query: ", 1u << SCORE | 1u << EVICT, 0},
    {offsetof(arguments, key), "key: ", 1u << SCORE | 1u << EVICT, 0},
    {offsetof(arguments, value), "value: ", 1u << NORM | 1u << EVICT, 0},
    {offsetof(arguments, attention), "attention: ", 1u << SCORE | 1u << SELECT, 1u << SCORE},
    {offsetof(arguments, norm), "norm: ", 1u << NORM | 1u << SELECT, 1u << NORM},
};

static ckv_tensor *tensor_of(arguments *a, size_t which)
{
    return (ckv_tensor *)(void *)((char *)a + tensors[which].offset);
}

static void check_tensor(enum call which, size_t t)
{
    const char *name = tensors[t].name;
    arguments a = good;
    a.null = tensor_of(&a, t);
    check_refused(which, &a, CKV_ERROR_INVALID_ARGUMENT, name);
    a = good;
    tensor_of(&a, t)->struct_size = offsetof(ckv_tensor, data);
    check_refused(which, &a, CKV_ERROR_INVALID_ARGUMENT, name);
    a = good;
    tensor_of(&a, t)->data = NULL;
    check_refused(which, &a, CKV_ERROR_INVALID_ARGUMENT, name);
    a = good;
    tensor_of(&a, t)->dtype = CKV_BYTES;
    check_refused(which, &a, CKV_ERROR_DTYPE, name);
    a = good;
    tensor_of(&a, t)->dtype = (ckv_dtype)9;
    check_refused(which, &a, CKV_ERROR_DTYPE, name);
    for (int32_t i = 0; i < tensor_of(&good, t)->rank; i++) {
        for (int step = -1; step <= 1; step += 2) {
            a = good;
            tensor_of(&a, t)->shape[i] += step;
            check_refused(which, &a, CKV_ERROR_SHAPE, name);
            a = good;
            tensor_of(&a, t)->rank += step;
            check_refused(which, &a, CKV_ERROR_SHAPE, name);
        }
        a = good;
        tensor_of(&a, t)->stride[i] = INT64_MIN;
        check_refused(which, &a, CKV_ERROR_STRIDE, name);
        a = good;
        tensor_of(&a, t)->stride[i] = 0; /* repeats elements: an error for outputs alone */
        if ((tensors[t].outputs >> which & 1u) != 0)
            check_refused(which, &a, CKV_ERROR_STRIDE, name);
        else
            check_works(which, &a);
    }
}

static void test_tensor_arguments(void **state)
{
    (void)state;
    for (int which = SCORE; which < CALLS; which++)
        for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++)
            if ((tensors[t].calls >> which & 1u) != 0)
                check_tensor((enum call)which, t);
}

/* Attention and norm are F32; 16-bit floats are for what comes from the model. */
static void test_dtypes_of_scores(void **state)
{
    (void)state;
    for (ckv_dtype dtype = CKV_F16; dtype <= CKV_BF16; dtype++) {
        arguments a = good;
        a.attention.dtype = dtype;
        check_refused(SCORE, &a, CKV_ERROR_DTYPE, "attention: dtype");
        check_refused(SELECT, &a, CKV_ERROR_DTYPE, "attention: dtype");
        a = good;
        a.norm.dtype = dtype;
        check_refused(NORM, &a, CKV_ERROR_DTYPE, "norm: dtype");
        check_refused(SELECT, &a, CKV_ERROR_DTYPE, "norm: dtype");
    }
}

/* An output that shares its first or last byte with an input. */
static void test_overlap(void **state)
{
    (void)state;
    const struct {
        enum call call;
        size_t output, input;
        const char *name;
    } pairs[] = {{SCORE, offsetof(arguments, attention), offsetof(arguments, query), "attention: overlaps query"},
                 {SCORE, offsetof(arguments, attention), offsetof(arguments, key), "attention: overlaps key"},
                 {NORM, offsetof(arguments, norm), offsetof(arguments, value), "norm: overlaps value"}};
    for (size_t i = 0; i < 3; i++) {
        arguments a = good;
        ckv_tensor *output = (ckv_tensor *)(void *)((char *)&a + pairs[i].output);
        const ckv_tensor *input = (const ckv_tensor *)(void *)((char *)&a + pairs[i].input);
        char *start = input->data;
        int64_t bytes = input->shape[0] * input->stride[0], own = output->shape[0] * output->stride[0];
        output->data = start;
        check_refused(pairs[i].call, &a, CKV_ERROR_STRIDE, pairs[i].name);
        output->data = start + bytes - 1;
        check_refused(pairs[i].call, &a, CKV_ERROR_STRIDE, pairs[i].name);
        output->data = start - own + 1;
        check_refused(pairs[i].call, &a, CKV_ERROR_STRIDE, pairs[i].name);
    }
}

/* ---------------------------------------------------------------- projection and selection */

static void test_projection_argument(void **state)
{
    (void)state;
    const enum call calls[] = {NORM, EVICT};
    for (int i = 0; i < 2; i++) {
        arguments a = good;
        a.projection = NULL;
        check_refused(calls[i], &a, CKV_ERROR_INVALID_ARGUMENT, "projection: NULL");
        for (int field = 0; field < 3; field++) {
            ckv_projection other = *good.projection;
            other.query_heads += field == 0;
            other.value_dim += field == 1;
            other.hidden += field == 2;
            a = good;
            a.projection = &other;
            check_refused(calls[i], &a, CKV_ERROR_MISMATCH, "projection: query_heads");
        }
    }
}

static void test_selection_argument(void **state)
{
    (void)state;
    const enum call calls[] = {SELECT, COMPACT, EVICT};
    for (int i = 0; i < 3; i++) {
        arguments a = good;
        a.null = &a.selection;
        check_refused(calls[i], &a, CKV_ERROR_INVALID_ARGUMENT, "selection: NULL");
        a = good;
        a.selection.struct_size = offsetof(ckv_selection, stages);
        check_refused(calls[i], &a, CKV_ERROR_INVALID_ARGUMENT, "selection: struct_size");
        a = good;
        a.selection.positions = NULL;
        check_refused(calls[i], &a, CKV_ERROR_INVALID_ARGUMENT, "selection: positions: NULL");
        a = good;
        a.selection.offsets = NULL;
        check_refused(calls[i], &a, CKV_ERROR_INVALID_ARGUMENT, "selection: offsets: NULL");
        a = good;
        a.selection.capacity = problem.info.positions - 1;
        check_refused(calls[i], &a, CKV_ERROR_CAPACITY, "selection: capacity");
        a.selection.capacity = -1;
        check_refused(calls[i], &a, CKV_ERROR_CAPACITY, "selection: capacity -1");
    }
}

/* ---------------------------------------------------------------- plans without some sizes */

static ckv_status with_plan(enum call which, void (*change)(ckv_shape *shape, ckv_policy *policy))
{
    arguments a = good;
    ckv_shape shape = problem.shape;
    ckv_policy policy = problem.policy;
    ckv_plan *plan;
    test_buffer workspace;
    ckv_plan_info info = {.struct_size = sizeof info};
    change(&shape, &policy);
    assert_ok(ckv_plan_create(problem.context, &shape, &policy, &plan));
    assert_ok(ckv_plan_query(plan, &info));
    test_buffer_new(&workspace, info.workspace, 0);
    a.plan = plan;
    a.run.workspace = workspace.data;
    a.run.workspace_size = workspace.size;
    test_remember(&problem);
    ckv_status status = call(which, &a);
    if (status != CKV_OK)
        assert_true(test_all_unchanged(&problem));
    assert_true(test_buffer_intact(&workspace));
    test_buffer_free(&workspace);
    ckv_plan_destroy(plan);
    return status;
}

static void no_query_heads(ckv_shape *s, ckv_policy *p)
{
    (void)p;
    s->query_heads = 0;
}
static void no_queries(ckv_shape *s, ckv_policy *p)
{
    (void)p;
    s->queries = 0;
}
static void no_head_dim(ckv_shape *s, ckv_policy *p)
{
    (void)p;
    s->head_dim = 0;
}
static void no_value_dim(ckv_shape *s, ckv_policy *p)
{
    (void)p;
    s->value_dim = 0;
}
static void no_hidden(ckv_shape *s, ckv_policy *p)
{
    (void)p;
    s->hidden = 0;
}
static void no_window(ckv_shape *s, ckv_policy *p)
{
    (void)s;
    p->window = 0;
}

static void test_missing_sizes(void **state)
{
    (void)state;
    const struct {
        void (*change)(ckv_shape *shape, ckv_policy *policy);
        const char *name;
        unsigned needed;
    } cases[] = {
        {no_query_heads, "plan: query_heads 0", 1u << SCORE | 1u << NORM | 1u << EVICT},
        {no_queries, "plan: queries 0", 1u << SCORE | 1u << EVICT},
        {no_head_dim, "plan: head_dim 0", 1u << SCORE | 1u << EVICT},
        {no_value_dim, "plan: value_dim 0", 1u << NORM | 1u << EVICT},
        {no_hidden, "plan: hidden 0", 1u << NORM | 1u << EVICT},
        {no_window, "plan: window 0", 1u << SCORE | 1u << EVICT},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int which = SCORE; which < CALLS; which++) {
            if (which == COMPACT)
                continue;
            ckv_status status = with_plan((enum call)which, cases[c].change);
            if ((cases[c].needed >> which & 1u) != 0) {
                assert_int_equal(status, CKV_ERROR_INVALID_ARGUMENT);
                assert_detail(cases[c].name);
            } else {
                assert_int_equal(status, CKV_OK);
            }
        }
}

/* ---------------------------------------------------------------- budgets that rank nothing */

static void keep_all(ckv_shape *s, ckv_policy *p)
{
    (void)s;
    p->budget = 20;
}
static void keep_none(ckv_shape *s, ckv_policy *p)
{
    (void)s;
    p->keep = (ckv_ratio){0, 1};
}

/* No tensor is read: NaN in each of them goes unseen; wrong views are still refused. */
static void test_trivial_budgets(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        test_problem p;
        test_problem_init(&p, 2, 3, 20, 6, 5, 4, 7);
        (all ? keep_all : keep_none)(&p.shape, &p.policy);
        test_problem_build(&p);
        assert_ok(test_problem_open(&p));
        for (int t = 0; t < TEST_WEIGHT; t++)
            memset(p.tensor[t].buffer.data, 0xff, p.tensor[t].buffer.size);
        memset(p.attention.buffer.data, 0xff, p.attention.buffer.size);
        for (int select = 0; select < 2; select++) {
            memset(p.positions.data, 0x5a, p.positions.size);
            p.run.flags = 77;
            test_remember(&p);
            assert_ok(select ? test_select(&p) : test_evict(&p));
            assert_int_equal(p.run.flags, 0);
            assert_true(test_inputs_unchanged(&p));
            assert_true(test_buffer_unchanged(&p.workspace));
            assert_true(test_all_intact(&p));
            for (int32_t h = 0; h <= 2; h++)
                assert_int_equal(test_offsets(&p)[h], all ? 20 * h : 0);
            for (int32_t i = 0; i < (all ? 40 : 0); i++) {
                assert_int_equal(test_positions(&p)[i], i % 20);
                assert_int_equal(test_stage_codes(&p)[i], CKV_KEPT_ALL);
            }
        }
        p.tensor[TEST_KEY].view.shape[1]++;
        assert_fails(test_evict(&p), CKV_ERROR_SHAPE, "key: shape");
        test_problem_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_arguments),
        cmocka_unit_test(test_run_struct),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_backend_workspace),
        cmocka_unit_test(test_tensor_arguments),
        cmocka_unit_test(test_dtypes_of_scores),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_projection_argument),
        cmocka_unit_test(test_selection_argument),
        cmocka_unit_test(test_missing_sizes),
        cmocka_unit_test(test_trivial_budgets),
    };
    return cmocka_run_group_tests(tests, open_problem, close_problem);
}
