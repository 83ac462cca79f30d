/* SPDX-License-Identifier: Apache-2.0 */
/* Norms that are left out: what is kept stays the same, bit for bit, because the bounds
 * hold; and norms are left out. */
#include "unit.h"

#include <stdlib.h>

#include "backends/cpu/bounds.h"
#include "backends/cpu/evict.h"

/* ---------------------------------------------------------------- problems */

static const uint32_t nan_and_infinity[4][2] = {
    {0}, {0x7fc00001u, 0xff800000u}, {0x7e01u, 0xfc00u}, {0x7fc1u, 0xff80u}};

/* Moves an element's exponent as far as its dtype goes. */
static void scale_cell(const test_tensor *t, int64_t h, int64_t i, int64_t c, int by)
{
    uint32_t bits = test_get_bits(t, h, i, c);
    int shift = t->cells.dtype == CKV_F32 ? 23 : t->cells.dtype == CKV_F16 ? 10 : 7;
    int most = t->cells.dtype == CKV_F16 ? 30 : 254;
    int field = (int)(bits >> shift) & (t->cells.dtype == CKV_F16 ? 31 : 255);
    int moved = field + by < 1 ? 1 : field + by > most ? most : field + by;
    if (field != 0)
        test_put_bits(t, h, i, c, bits + ((uint32_t)(moved - field) << shift));
}

static void spoil_values(const test_problem *p, test_random *r)
{
    const test_tensor *v = &p->tensor[TEST_VALUE];
    int64_t dim = p->shape.value_dim, outlier = test_between(r, 0, dim - 1);
    int kinds = (int)test_between(r, 0, 31), by = test_between(r, 0, 1) == 0 ? 20 : -20;
    for (int64_t h = 0; h < p->shape.kv_heads; h++)
        for (int64_t i = 0; i < p->shape.tokens; i++) {
            int64_t model = test_between(r, 0, 3), what = test_between(r, 0, 7);
            for (int64_t c = 0; c < dim; c++) {
                if ((kinds & 1) != 0 && c == outlier)
                    scale_cell(v, h, i, c, by);
                if ((kinds & 2) != 0 && what == 0)
                    test_put_bits(v, h, i, c, 0);
                if ((kinds & 4) != 0 && what == 1)
                    test_put_bits(v, h, i, c, test_get_bits(v, h, i, 0));
                if ((kinds & 8) != 0 && i > model) /* a few rows, over and over */
                    test_put_bits(v, h, i, c, test_get_bits(v, 0, model, c));
            }
            if ((kinds & 16) != 0 && what == 2)
                test_put_bits(v, h, i, test_between(r, 0, dim - 1), nan_and_infinity[v->cells.dtype][model % 2]);
        }
}

static void spoil_weights(const test_problem *p, test_random *r)
{
    const test_tensor *w = &p->tensor[TEST_WEIGHT];
    int64_t columns = (int64_t)p->shape.query_heads * p->shape.value_dim, zero_head = test_between(r, 0, 1);
    int kinds = (int)test_between(r, 0, 63);
    int64_t column = test_between(r, 0, columns - 1), row = test_between(r, 0, p->shape.hidden - 1);
    for (int64_t j = 0; j < p->shape.hidden; j++)
        for (int64_t c = 0; c < columns; c++) {
            if ((kinds & 1) != 0 && c == column)
                scale_cell(w, 0, j, c, 20);
            if ((kinds & 2) != 0 && j % 7 == row % 7)
                scale_cell(w, 0, j, c, 18);
            if ((kinds & 4) != 0 && c % 5 == column % 5)
                test_put_bits(w, 0, j, c, 0);
            if ((kinds & 32) != 0 && c % 3 == column % 3)
                scale_cell(w, 0, j, c, -78);
            if ((kinds & 8) != 0 && c / p->shape.value_dim == zero_head)
                test_put_bits(w, 0, j, c, 0);
            if ((kinds & 16) != 0 && j % 3 == row % 3)
                test_put_bits(w, 0, j, c, 0);
        }
}

/* The same for every instruction set. */
static void draw(test_problem *p, int number)
{
    static const int ranges[][2] = {{-4, 1}, {-4, 1}, {-2, -2}, {-12, 3}, {-39, 40}, {-126, 127}};
    static const int32_t hidden[] = {1, 2, 7, 17, 40, 64, 64, 100, 150, 150, 300, 1023, 1024, 1100};
    test_random r = test_seed((uint64_t)number * 104729 + 5);
    int32_t outputs = hidden[test_between(&r, 0, 13)], light = outputs > 1000 ? 4 : 1;
    test_problem_init(p, (int32_t)test_between(&r, 1, 3), (int32_t)test_between(&r, 1, 8 / light),
                      test_between(&r, 2, 150 / light), test_between(&r, 1, 8), (int32_t)test_between(&r, 1, 8),
                      (int32_t)test_between(&r, 1, 70 / light), outputs);
    for (int t = 0; t < TEST_TENSORS; t++) {
        const int *range = ranges[test_between(&r, 0, 5)];
        p->dtype[t] = (ckv_dtype)test_between(&r, CKV_F32, CKV_BF16);
        p->layout[t] = (test_layout)test_between(&r, 0, TEST_LAYOUTS - 1);
        p->low[t] = range[0];
        p->high[t] = range[1];
    }
    p->policy.budget = test_between(&r, 1, p->shape.tokens - 1);
    p->policy.alpha = (ckv_ratio){test_between(&r, 0, 4) * test_between(&r, 0, 1), 4};
    p->policy.recent = (int32_t)test_between(&r, -1, 10);
    p->policy.sinks = (int32_t)test_between(&r, 0, 5);
    if (test_between(&r, 0, 3) == 0)
        p->policy.epsilon = 0x1p-24f;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    if (test_between(&r, 0, 2) == 0)
        test_fill(&p->tensor[TEST_QUERY], 0.0f); /* the same attention for all */
    spoil_values(p, &r);
    spoil_weights(p, &r);
}

/* ---------------------------------------------------------------- by hand */

/* Memory for the steps below, whether or not they would pay. */
static void *new_workspace(const ckv_plan *plan)
{
    ckv_cpu_sizes sizes[3];
    size_t total = 0, workers = (size_t)plan->context->threads;
    void *memory = NULL;
    assert_true(ckv_cpu_bound_sizes(plan, &sizes[0]) && ckv_cpu_norm_sizes(plan, &sizes[1]) &&
                ckv_cpu_select_sizes(plan, &sizes[2]));
    for (int i = 0; i < 3; i++) {
        size_t stage = sizes[i].shared + sizes[i].worker * (workers < sizes[i].items ? workers : sizes[i].items);
        total = stage > total ? stage : total;
    }
    assert_true(ckv_cpu_skip_sizes(plan, &total));
    assert_int_equal(posix_memalign(&memory, 64, total), 0);
    memset(memory, 0xa5, total);
    return memory;
}

typedef struct outcome {
    uint64_t kept;
    uint32_t flags;
    int64_t exact;
} outcome;

/* From the attention that is there; the norm is overwritten. */
static outcome select_skipping(test_problem *p, double scale)
{
    ckv_kept kept = {p->selection.positions, p->selection.offsets, p->selection.stages, NULL};
    void *workspace = new_workspace(p->plan);
    outcome o;
    memset(p->positions.data, 0x77, p->positions.size);
    memset(p->norm.buffer.data, 0xff, p->norm.buffer.size);
    o.flags = ckv_cpu_select_skipping(p->plan, &p->attention.view, &p->tensor[TEST_VALUE].view, p->projection,
                                      &p->norm.view, scale, &kept, workspace, &o.exact);
    o.kept = test_hash_selection(p);
    free(workspace);
    return o;
}

/* Norms first, in `want`; then bounds in their place, times `scale`.  How many are too low. */
static int64_t low_bounds(test_problem *p, double scale, float *want, double *ratios)
{
    int64_t n = p->shape.tokens, low = 0;
    void *workspace = new_workspace(p->plan);
    assert_ok(test_norm(p));
    for (int64_t i = 0; i < p->shape.kv_heads * n; i++)
        want[i] = test_norm_at(p, i / n, i % n);
    ckv_cpu_bound_norms(p->plan, &p->tensor[TEST_VALUE].view, p->projection, &p->norm.view, scale, workspace);
    for (int64_t i = 0; i < p->shape.kv_heads * n; i++) {
        float upper = test_norm_at(p, i / n, i % n);
        low += !(upper >= want[i] && upper <= 0x1p106f);
        if (ratios != NULL)
            ratios[i] = upper > 0.0f ? (double)want[i] / (double)upper : 1.0;
    }
    free(workspace);
    return low;
}

/* Bounds from the sums of some parts and of the rest, after each part but the last: how many
 * are below the norms in `want`. */
static int64_t low_rests(test_problem *p, double scale, const float *want)
{
    const ckv_plan *plan = p->plan;
    int64_t n = p->shape.tokens, cells = p->shape.kv_heads * n, low = 0;
    int32_t parts = ckv_cpu_bound_parts(plan);
    int32_t *rows = malloc((size_t)cells * sizeof *rows);
    int64_t *starts = malloc((size_t)(p->shape.kv_heads * (parts + 1)) * sizeof *starts);
    float *sums = malloc((size_t)cells * sizeof *sums);
    const ckv_cpu_lists lists = {parts, rows, starts, sums};
    void *bounds = new_workspace(plan), *workspace = new_workspace(plan);
    assert_true(rows != NULL && starts != NULL && sums != NULL);
    ckv_cpu_bound_norms(plan, &p->tensor[TEST_VALUE].view, p->projection, &p->norm.view, scale, bounds);
    for (int64_t i = 0; i < cells; i++)
        rows[i] = (int32_t)(n - 1 - i % n);
    for (int32_t part = 0; part + 1 < parts; part++) {
        for (int64_t i = 0; i < p->shape.kv_heads * (parts + 1); i++)
            starts[i] = i % (parts + 1) <= part ? 0 : n;
        ckv_cpu_norm_of(plan, &p->tensor[TEST_VALUE].view, p->projection, &p->norm.view, &lists, workspace);
        ckv_cpu_bound_rest(plan, &p->tensor[TEST_VALUE].view, &p->norm.view, scale, &lists, bounds);
        for (int64_t i = 0; i < cells; i++)
            low += !(test_norm_at(p, i / n, i % n) >= want[i] && test_norm_at(p, i / n, i % n) <= 0x1p106f);
    }
    free(rows);
    free(starts);
    free(sums);
    free(bounds);
    free(workspace);
    return low;
}

/* Workers in turn, last first. */
static void backwards(void *pool, int32_t tasks, void (*task)(void *argument, int32_t index), void *argument)
{
    (void)pool;
    for (int32_t i = tasks - 1; i >= 0; i--)
        task(argument, i);
}

static ckv_status open_with(test_problem *p, const char *isa, int32_t threads)
{
    ckv_status status;
    p->options.backend = "cpu";
    p->options.threads = threads;
    setenv("CKV_CPU_ISA", isa, 1);
    status = test_problem_open(p);
    unsetenv("CKV_CPU_ISA");
    return status;
}

/* ---------------------------------------------------------------- the kept set */

static void check_problem(int number, const char *isa, int32_t threads)
{
    test_problem p;
    uint64_t kept;
    uint32_t flags;
    int64_t low, cells;
    float *norms;
    outcome o;
    draw(&p, number);
    if (number % 20 != 0) /* OpenMP's threads wait for long where there are fewer processors */
        p.options.parallel_for = backwards;
    assert_ok(open_with(&p, isa, threads));
    assert_ok(test_stages(&p));
    kept = test_hash_selection(&p);
    flags = p.run.flags;
    cells = p.shape.kv_heads * p.shape.tokens;
    o = select_skipping(&p, 1.0);
    o.flags |= flags & (CKV_NONFINITE_QUERY | CKV_NONFINITE_KEY | CKV_NONFINITE_WEIGHT);
    if (o.kept != kept || o.flags != flags || o.exact > cells)
        fail_msg("problem %d, %s: kept %d, flags %x wanted %x, %lld norms of %lld rows", number, isa, o.kept == kept,
                 o.flags, flags, (long long)o.exact, (long long)cells);
    norms = malloc((size_t)cells * sizeof *norms);
    assert_non_null(norms);
    low = low_bounds(&p, 1.0, norms, NULL);
    if (low != 0)
        fail_msg("problem %d, %s: %lld bounds below the norm", number, isa, (long long)low);
    low = low_rests(&p, 1.0, norms);
    if (low != 0)
        fail_msg("problem %d, %s: %lld bounds of parts below the norm", number, isa, (long long)low);
    assert_ok(test_evict(&p)); /* whichever way it goes */
    assert_int_equal(test_hash_selection(&p), kept);
    assert_int_equal(p.run.flags, flags);
    assert_true(test_all_intact(&p));
    free(norms);
    test_problem_close(&p);
}

static void test_hostile_problems(void **state)
{
    static const int32_t threads[] = {1, 2, 3, 7};
    int problems = test_light() ? 40 : 1200;
    (void)state;
    for (int number = 0; number < problems; number++)
        for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++)
            if (ckv_cpu_kernels_list[i]->usable())
                check_problem(number, ckv_cpu_kernels_list[i]->isa, threads[(number + i) % 4]);
}

/* ---------------------------------------------------------------- that it can fail */

/* Half of the outputs see one channel, half the other: the bound is exact for rows that are
 * alike in both and a factor of 1.4 too high for rows that are 0 in one; all norms are close. */
static void draw_uneven(test_problem *p, int number, int32_t hidden)
{
    test_random r = test_seed((uint64_t)number + 77);
    test_problem_init(p, 2, 2, 200, 4, 4, 2, hidden);
    p->policy.budget = 60;
    p->policy.recent = 0;
    p->policy.alpha = (ckv_ratio){0, 1};
    test_problem_build(p);
    for (int64_t j = 0; j < hidden; j++)
        for (int64_t c = 0; c < 8; c++)
            test_put(&p->tensor[TEST_WEIGHT], 0, j, c, j % 2 == c % 2 ? 1.0f : 0.0f);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < 200; i++) {
            float x = 1.0f + (float)test_between(&r, 0, 100) / 1024.0f;
            int alike = test_between(&r, 0, 1) == 0;
            test_put(&p->tensor[TEST_VALUE], h, i, 0, alike ? x : 2.0f * x);
            test_put(&p->tensor[TEST_VALUE], h, i, 1, alike ? x : 0.0f);
        }
}

/* Bounds that are a tenth too low are found out, in the kept set and by themselves. */
static void test_low_bounds_are_found_out(void **state)
{
    int problems = 20, wrong = 0, low = 0;
    (void)state;
    for (int number = 0; number < problems; number++) {
        test_problem p;
        float norms[400];
        uint64_t kept;
        draw_uneven(&p, number, 64);
        p.options.backend = "cpu";
        assert_ok(test_problem_open(&p));
        assert_ok(test_stages(&p));
        kept = test_hash_selection(&p);
        assert_int_equal(select_skipping(&p, 1.0).kept, kept);
        wrong += select_skipping(&p, 0.9).kept != kept;
        assert_int_equal(low_bounds(&p, 1.0, norms, NULL), 0);
        low += low_bounds(&p, 0.9, norms, NULL) > 0;
        test_problem_close(&p);
    }
    assert_int_equal(low, problems);
    assert_int_equal(wrong, problems);
}

/* So are those that take the place of the query heads not known yet. */
static void test_low_rests_are_found_out(void **state)
{
    (void)state;
    for (int number = 0; number < 5; number++) {
        test_problem p;
        float norms[400];
        draw_uneven(&p, number, 1000);
        p.options.backend = "cpu";
        assert_ok(test_problem_open(&p));
        assert_int_equal(ckv_cpu_bound_parts(p.plan), 2);
        assert_int_equal(low_bounds(&p, 1.0, norms, NULL), 0);
        assert_int_equal(low_rests(&p, 1.0, norms), 0);
        assert_true(low_rests(&p, 0.95, norms) > 0);
        test_problem_close(&p);
    }
}

/* With one channel and equal weights nothing is lost but what the rounding of q needs, which
 * is half of a unit, of twice the size where R grows: for every value near those where the
 * norm is rounded up the most. */
static void test_rounding_of_values(void **state)
{
    (void)state;
    for (int32_t hidden = 600; hidden <= 1200; hidden += 600) {
        test_problem p;
        float norms[8192];
        test_problem_init(&p, 1, 1, 8192, 1, 1, 1, hidden);
        p.options.backend = "cpu";
        test_problem_build(&p);
        test_fill(&p.tensor[TEST_WEIGHT], 1.0f);
        for (int64_t i = 0; i < 8192; i++)
            test_put(&p.tensor[TEST_VALUE], 0, i, 0,
                     i < 4096 ? 2.0f - (float)(i + 1) * 0x1p-18f : 1.0f + (float)(i - 4095) * 0x1p-18f);
        assert_ok(test_problem_open(&p));
        assert_int_equal(low_bounds(&p, 1.0, norms, NULL), 0);
        assert_true(low_bounds(&p, 0.9999, norms, NULL) > 0);
        test_problem_close(&p);
    }
}

/* ---------------------------------------------------------------- that it is of use */

/* Values near a normal distribution, attention far from flat. */
static void draw_plain(test_problem *p, int32_t group, int64_t tokens, int32_t hidden)
{
    test_random r = test_seed(3);
    test_problem_init(p, 2, group, tokens, 16, 16, 32, hidden);
    p->low[TEST_QUERY] = p->high[TEST_QUERY] = 1;
    test_problem_build(p);
    test_problem_randomize(p, 1);
    for (int t = TEST_VALUE; t <= TEST_WEIGHT; t++) {
        const int64_t *shape = p->tensor[t].cells.shape;
        for (int64_t h = 0; h < shape[0]; h++)
            for (int64_t i = 0; i < shape[1]; i++)
                for (int64_t c = 0; c < shape[2]; c++) {
                    int64_t sum = 0;
                    for (int term = 0; term < 6; term++)
                        sum += test_between(&r, -1000, 1000);
                    test_put_bits(&p->tensor[t], h, i, c, test_bits((float)sum));
                }
    }
}

/* V in proportion, every third element 0. */
static void thin_values(const test_problem *p, float by)
{
    const int64_t *shape = p->tensor[TEST_VALUE].cells.shape;
    for (int64_t h = 0; h < shape[0]; h++)
        for (int64_t i = 0; i < shape[1]; i++)
            for (int64_t c = 0; c < shape[2]; c++) {
                float x = (float)test_get(&p->tensor[TEST_VALUE], h, i, c);
                test_put(&p->tensor[TEST_VALUE], h, i, c, c % 3 == 0 ? 0.0f : x * by);
            }
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void test_bounds_are_close(void **state)
{
    (void)state;
    for (int32_t hidden = 600; hidden <= 1200; hidden += 600) { /* weights of 10 bits, and of 7 */
        test_problem p;
        float norms[2 * 300];
        double ratios[2 * 300];
        draw_plain(&p, 3, 300, hidden);
        if (hidden > 600)
            thin_values(&p, 0x1p-30f);
        p.options.backend = "cpu";
        assert_ok(test_problem_open(&p));
        assert_int_equal(low_bounds(&p, 1.0, norms, ratios), 0);
        qsort(ratios, 600, sizeof *ratios, ascending);
        if (!(ratios[300] > 0.7 && ratios[599] < 1.0))
            fail_msg("norm / bound: median %g, greatest %g", ratios[300], ratios[599]);
        test_problem_close(&p);
    }
}

static void test_norms_are_left_out(void **state)
{
    (void)state;
    uint64_t kept = 0;
    for (int which = 0; which < 3; which++) {
        test_problem p;
        draw_plain(&p, 4, 600, 1024);
        p.options.backend = which == 2 ? "ref" : "cpu";
        p.policy.skip = which == 0 ? 0 : 1;
        assert_ok(test_problem_open(&p));
        p.run.exact_norms = 77;
        assert_ok(test_evict(&p));
        if (which == 0)
            kept = test_hash_selection(&p);
        assert_int_equal(test_hash_selection(&p), kept);
        if (which == 1) {
            printf("# %d of 1200 norms\n", (int)p.run.exact_norms);
            assert_in_range(p.run.exact_norms, 1, 1200 * 6 / 10);
        } else {
            assert_int_equal(p.run.exact_norms, 1200);
        }
        /* A caller that was built before there was such a field. */
        p.run.exact_norms = 77;
        p.run.struct_size = offsetof(ckv_run, exact_norms);
        assert_ok(test_evict(&p));
        assert_int_equal(p.run.exact_norms, 77);
        test_problem_close(&p);
    }
}

/* Where they would not save time, bounds are not used. */
static void test_small_layers_are_dense(void **state)
{
    (void)state;
    test_problem p;
    draw_plain(&p, 1, 300, 8);
    p.options.backend = "cpu";
    assert_ok(test_problem_open(&p));
    assert_false(ckv_cpu_skip_pays(p.plan));
    assert_ok(test_evict(&p));
    assert_int_equal(p.run.exact_norms, 600);
    test_problem_close(&p);
}

/* Stage 1 alone: no norm, but what V holds is still told. */
static void test_no_norm_at_all(void **state)
{
    (void)state;
    for (int bad = 0; bad < 2; bad++) {
        test_problem p;
        draw_plain(&p, 4, 300, 1024);
        p.options.backend = "cpu";
        p.policy.alpha = (ckv_ratio){1, 1};
        if (bad != 0)
            test_put_bits(&p.tensor[TEST_VALUE], 1, 299, 31, 0x7fc00001u);
        assert_ok(test_problem_open(&p));
        assert_ok(test_stages(&p));
        uint64_t kept = test_hash_selection(&p);
        assert_int_equal(p.run.exact_norms, 0); /* of select */
        assert_ok(test_evict(&p));
        assert_int_equal(test_hash_selection(&p), kept);
        assert_int_equal(p.run.exact_norms, 0);
        assert_int_equal(p.run.flags, bad != 0 ? CKV_NONFINITE_VALUE : 0);
        test_problem_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_problems),        cmocka_unit_test(test_low_bounds_are_found_out),
        cmocka_unit_test(test_low_rests_are_found_out), cmocka_unit_test(test_rounding_of_values),
        cmocka_unit_test(test_bounds_are_close),        cmocka_unit_test(test_norms_are_left_out),
        cmocka_unit_test(test_small_layers_are_dense),  cmocka_unit_test(test_no_norm_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
