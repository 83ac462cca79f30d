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

/* In place, with a source whose rows share memory: there is no order to move them in. */
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
    assert_fails(ckv_compact(p.plan, &from, &p.selection, &to, &p.run), CKV_ERROR_STRIDE, "to: ");
    assert_true(rows[0] == 10.0f && rows[1] == 20.0f && rows[2] == 30.0f);
    test_problem_close(&p);
}

/* ---------------------------------------------------------------- what overlaps what */

enum part { WORKSPACE, QUERY, KEY, VALUE, ATTENTION, NORM, FROM, TO, POSITIONS, OFFSETS, STAGES, PARTS };
enum call { SCORE, NORMS, SELECT, COMPACT, EVICT, CALLS };

static const char *const names[PARTS] = {"run: workspace",
                                         "query",
                                         "key",
                                         "value",
                                         "attention",
                                         "norm",
                                         "from",
                                         "to",
                                         "selection: positions",
                                         "selection: offsets",
                                         "selection: stages"};

/* What a call is given, and what of it the call may write. */
static const struct {
    int reads, writes;
} uses[CALLS] = {
    [SCORE] = {1 << QUERY | 1 << KEY, 1 << WORKSPACE | 1 << ATTENTION},
    [NORMS] = {1 << VALUE, 1 << WORKSPACE | 1 << NORM},
    [SELECT] = {1 << ATTENTION | 1 << NORM, 1 << WORKSPACE | 1 << POSITIONS | 1 << OFFSETS | 1 << STAGES},
    [COMPACT] = {1 << FROM | 1 << POSITIONS | 1 << OFFSETS, 1 << WORKSPACE | 1 << TO},
    [EVICT] = {1 << QUERY | 1 << KEY | 1 << VALUE, 1 << WORKSPACE | 1 << POSITIONS | 1 << OFFSETS | 1 << STAGES},
};

/* One problem whose memory is all in one block, each part in the middle of a slot that
 * has room for any other before and after it. */
typedef struct field {
    test_problem p;
    ckv_tensor from, to;
    test_buffer memory;
    size_t size[PARTS], home[PARTS];
} field;

static void put(field *f, int part, size_t at)
{
    void *const data = f->memory.data + at;
    ckv_tensor *const views[PARTS] = {
        [QUERY] = &f->p.tensor[TEST_QUERY].view,
        [KEY] = &f->p.tensor[TEST_KEY].view,
        [VALUE] = &f->p.tensor[TEST_VALUE].view,
        [ATTENTION] = &f->p.attention.view,
        [NORM] = &f->p.norm.view,
        [FROM] = &f->from,
        [TO] = &f->to,
    };
    if (views[part] != NULL)
        views[part]->data = data;
    else if (part == WORKSPACE)
        f->p.run.workspace = data;
    else if (part == POSITIONS)
        f->p.selection.positions = data;
    else if (part == OFFSETS)
        f->p.selection.offsets = data;
    else
        f->p.selection.stages = data;
}

static ckv_status make(field *f, int call)
{
    switch (call) {
    case SCORE:
        return test_score(&f->p);
    case NORMS:
        return test_norm(&f->p);
    case SELECT:
        return test_select(&f->p);
    case COMPACT:
        return ckv_compact(f->p.plan, &f->from, &f->p.selection, &f->to, &f->p.run);
    default:
        return test_evict(&f->p);
    }
}

static void open_field(field *f)
{
    const int64_t n = 12, budget = 5;
    size_t slot = 0;
    test_problem *p = &f->p;
    test_problem_init(p, 2, 2, n, 3, 4, 4, 6);
    p->policy.budget = budget;
    p->policy.window = 3;
    test_problem_build(p);
    test_problem_randomize(p, 1);
    assert_ok(test_problem_open(p));
    ckv_tensor_init_3d(&f->from, CKV_F32, NULL, 2, n, 4);
    ckv_tensor_init_3d(&f->to, CKV_F32, NULL, 2, budget, 4);
    const size_t sizes[PARTS] = {
        [WORKSPACE] = p->info.workspace,
        [QUERY] = p->tensor[TEST_QUERY].buffer.size,
        [KEY] = p->tensor[TEST_KEY].buffer.size,
        [VALUE] = p->tensor[TEST_VALUE].buffer.size,
        [ATTENTION] = p->attention.buffer.size,
        [NORM] = p->norm.buffer.size,
        [FROM] = (size_t)(2 * n * 4) * sizeof(float),
        [TO] = (size_t)(2 * budget * 4) * sizeof(float),
        [POSITIONS] = p->positions.size,
        [OFFSETS] = p->offsets.size,
        [STAGES] = p->stages.size,
    };
    memcpy(f->size, sizes, sizeof sizes);
    for (int part = 0; part < PARTS; part++)
        slot = sizes[part] > slot ? sizes[part] : slot;
    slot = (slot + 67) / 64 * 64;
    test_buffer_new(&f->memory, 3 * slot * PARTS, 0);
    for (int part = 0; part < PARTS; part++) {
        f->home[part] = (3 * (size_t)part + 1) * slot;
        put(f, part, f->home[part]);
    }
    for (int t = TEST_QUERY; t <= TEST_VALUE; t++)
        memcpy(p->tensor[t].view.data, p->tensor[t].buffer.data, p->tensor[t].buffer.size);
}

static void close_field(field *f)
{
    test_problem_close(&f->p);
    test_buffer_free(&f->memory);
}

/* Every output, beside and over an end of every other part of its call: beside is fine,
 * over is refused by both names before a byte is written. */
static void test_shared_memory(void **state)
{
    (void)state;
    field f;
    open_field(&f);
    for (int call = SCORE; call < CALLS; call++)
        assert_ok(make(&f, call));
    for (int call = SCORE; call < CALLS; call++)
        for (int a = 0; a < PARTS; a++)
            for (int b = 0; b < PARTS; b++) {
                if (a == b || !(uses[call].writes >> a & 1) || !((uses[call].writes | uses[call].reads) >> b & 1))
                    continue;
                /* Rounded so that positions stay aligned: one to four bytes are shared, or none. */
                const size_t end = f.home[b] + f.size[b];
                const size_t over[] = {(end - 1) & ~(size_t)3, (f.home[b] - f.size[a] + 4) & ~(size_t)3, f.home[b]};
                const size_t beside[] = {(end + 3) & ~(size_t)3, (f.home[b] - f.size[a]) & ~(size_t)3};
                for (int i = 0; i < 3; i++) {
                    put(&f, a, over[i]);
                    test_buffer_remember(&f.memory);
                    assert_fails(make(&f, call), CKV_ERROR_STRIDE, names[a]);
                    assert_detail(names[b]);
                    assert_detail(": overlaps ");
                    assert_true(test_buffer_unchanged(&f.memory));
                }
                for (int i = 0; i < 2; i++) {
                    put(&f, a, beside[i]);
                    assert_ok(make(&f, call));
                }
                put(&f, a, f.home[a]);
                assert_ok(make(&f, call));
            }
    assert_true(test_buffer_intact(&f.memory));
    close_field(&f);
}

/* What is only read may share memory: keys with values, scores with norms. */
static void test_shared_inputs(void **state)
{
    (void)state;
    field f;
    open_field(&f);
    put(&f, VALUE, f.home[KEY]);
    assert_ok(test_score(&f.p));
    assert_ok(test_norm(&f.p));
    assert_ok(test_evict(&f.p));
    put(&f, NORM, f.home[ATTENTION]);
    assert_ok(test_select(&f.p));
    close_field(&f);
}

/* In place the rows are the call's own, and nothing else may be there. */
static void test_shared_in_place(void **state)
{
    (void)state;
    field f;
    open_field(&f);
    assert_ok(test_stages(&f.p));
    f.to.stride[0] = f.from.stride[0];
    put(&f, TO, f.home[FROM]);
    assert_ok(make(&f, COMPACT));
    put(&f, WORKSPACE, f.home[FROM]);
    assert_fails(make(&f, COMPACT), CKV_ERROR_STRIDE, "run: workspace: overlaps to");
    put(&f, WORKSPACE, f.home[WORKSPACE]);
    put(&f, POSITIONS, f.home[FROM]);
    assert_fails(make(&f, COMPACT), CKV_ERROR_STRIDE, "to: overlaps selection: positions");
    put(&f, POSITIONS, f.home[POSITIONS]);
    put(&f, STAGES, f.home[FROM]); /* compaction does not look at them */
    assert_ok(make(&f, COMPACT));
    put(&f, TO, f.home[FROM] + 16);
    assert_fails(make(&f, COMPACT), CKV_ERROR_STRIDE, "to: overlaps from");
    close_field(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_rows),         cmocka_unit_test(test_source_that_overlaps_itself),
        cmocka_unit_test(test_shared_memory),   cmocka_unit_test(test_shared_inputs),
        cmocka_unit_test(test_shared_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
