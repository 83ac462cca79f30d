/* SPDX-License-Identifier: Apache-2.0 */
/* Compaction: rows move byte for byte, apart or in place, whatever their layout. */
#include "unit.h"

/* A plan with `budget` of `tokens` kept, and positions chosen at random. */
static void open_rows(test_problem *p, int32_t heads, int64_t tokens, int64_t budget, uint64_t seed)
{
    test_random random = test_seed(seed);
    int64_t at = 0;
    test_problem_init_select(p, heads, tokens, budget);
    assert_ok(test_problem_open(p));
    for (int32_t h = 0; h < heads; h++) {
        int64_t left = budget;
        p->selection.offsets[h] = (int32_t)at;
        for (int64_t i = 0; i < tokens; i++)
            if (test_between(&random, 1, tokens - i) <= left) {
                p->selection.positions[at++] = (int32_t)i;
                left--;
            }
    }
    p->selection.offsets[heads] = (int32_t)at;
}

static void fill_bytes(const test_buffer *buffer, uint64_t seed)
{
    test_random random = test_seed(seed);
    for (size_t i = 0; i < buffer->size; i++)
        buffer->data[i] = (unsigned char)(test_next(&random) >> 56);
}

static int same_cell(const test_tensor *a, int64_t row_a, const test_tensor *b, int64_t row_b, int64_t head, int64_t c)
{
    return memcmp(test_cell(a, head, row_a, c), test_cell(b, head, row_b, c), ckv_dtype_size(a->cells.dtype)) == 0;
}

/* Rows of `to` against those of `from`; rows past the kept ones against `before`. */
static void check_rows(const test_problem *p, const test_tensor *from, const test_tensor *to, const test_tensor *before)
{
    int64_t budget = p->info.budget;
    for (int64_t h = 0; h < p->shape.kv_heads; h++)
        for (int64_t i = 0; i < to->cells.shape[1]; i++)
            for (int64_t c = 0; c < to->cells.shape[2]; c++) {
                if (i < budget)
                    assert_true(same_cell(to, i, from, test_positions(p)[h * budget + i], h, c));
                else
                    assert_true(same_cell(to, i, before, i, h, c));
            }
    assert_true(test_buffer_intact(&to->buffer));
}

static void check_apart_and_in_place(test_problem *p, ckv_dtype dtype, int64_t width, test_layout from_layout,
                                     test_layout to_layout, int64_t spare)
{
    test_tensor from, to, before;
    int32_t heads = p->shape.kv_heads;
    int64_t tokens = p->info.tokens, rows = p->info.budget + spare;
    test_tensor_new(&from, dtype, 3, heads, tokens, width, from_layout);
    test_tensor_new(&to, dtype, 3, heads, rows, width, to_layout);
    test_tensor_new(&before, dtype, 3, heads, rows, width, TEST_DENSE);
    fill_bytes(&from.buffer, 1);
    fill_bytes(&to.buffer, 2);
    test_copy(&before, &to);
    test_buffer_remember(&from.buffer);
    test_remember(p);
    assert_ok(ckv_compact(p->plan, &from.view, &p->selection, &to.view, &p->run));
    assert_int_equal(p->run.flags, 0);
    check_rows(p, &from, &to, &before);
    assert_true(test_buffer_unchanged(&from.buffer));
    assert_true(test_buffer_unchanged(&p->positions));
    assert_true(test_buffer_unchanged(&p->offsets));
    test_tensor_free(&to);
    test_tensor_free(&before);

    /* In place: a copy tells what the rows were. */
    test_tensor_new(&before, dtype, 3, heads, tokens, width, TEST_DENSE);
    test_copy(&before, &from);
    assert_ok(ckv_compact(p->plan, &from.view, &p->selection, &from.view, &p->run));
    check_rows(p, &before, &from, &before);
    test_tensor_free(&from);
    test_tensor_free(&before);
}

static void test_layouts_and_dtypes(void **state)
{
    (void)state;
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F16, CKV_BF16, CKV_BYTES};
    for (int layout = 0; layout < TEST_LAYOUTS * TEST_LAYOUTS; layout++) {
        test_problem p;
        open_rows(&p, 3, 23, 9, (uint64_t)layout);
        check_apart_and_in_place(&p, dtypes[layout % 4], 1 + layout % 7, (test_layout)(layout / TEST_LAYOUTS),
                                 (test_layout)(layout % TEST_LAYOUTS), layout % 3);
        test_problem_close(&p);
    }
}

/* Blocks of 32 values and a scale, 34 bytes: two of them a row of 64 values. */
static void test_quantised_rows(void **state)
{
    (void)state;
    const int64_t widths[] = {2 * 34, 8 * 10, 34}; /* groups of 32 and of 8 */
    for (int w = 0; w < 3; w++) {
        test_problem p;
        open_rows(&p, 2, 6, 3, 1);
        const int32_t kept[] = {0, 3, 5, 0, 3, 5};
        memcpy(p.selection.positions, kept, sizeof kept);
        check_apart_and_in_place(&p, CKV_BYTES, widths[w], TEST_DENSE, TEST_TOKENS_FIRST, 0);
        test_problem_close(&p);
    }
}

static void test_counts(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 6; n++)
        for (int64_t budget = 1; budget <= n; budget++) {
            test_problem p;
            open_rows(&p, 2, n, budget, (uint64_t)(n * 10 + budget));
            check_apart_and_in_place(&p, CKV_F16, 3, TEST_DENSE, TEST_REVERSED, 0);
            test_problem_close(&p);
        }
}

/* All kept: nothing changes.  300 rows, 128 kept: the next position is 300. */
static void test_positions_are_not_rows(void **state)
{
    (void)state;
    test_problem p;
    test_tensor from;
    open_rows(&p, 1, 100, 128, 3);
    assert_int_equal(p.info.budget, 100);
    test_tensor_new(&from, CKV_F16, 3, 1, 100, 8, TEST_DENSE);
    fill_bytes(&from.buffer, 4);
    test_buffer_remember(&from.buffer);
    assert_ok(ckv_select(p.plan, &p.attention.view, &p.norm.view, &p.selection, &p.run));
    assert_ok(ckv_compact(p.plan, &from.view, &p.selection, &from.view, &p.run));
    assert_true(test_buffer_unchanged(&from.buffer));
    test_tensor_free(&from);
    test_problem_close(&p);

    open_rows(&p, 1, 300, 128, 5);
    assert_int_equal(p.info.next_position, 300);
    assert_int_equal(p.info.budget, 128);
    check_apart_and_in_place(&p, CKV_BF16, 16, TEST_DENSE, TEST_DENSE, 2);
    test_problem_close(&p);
}

/* In place with a view of fewer rows, and with the strides of extents of 1 left free. */
static void test_in_place_views(void **state)
{
    (void)state;
    test_problem p;
    test_tensor from, before;
    open_rows(&p, 1, 9, 4, 6);
    test_tensor_new(&from, CKV_F32, 3, 1, 9, 2, TEST_ODD);
    test_tensor_new(&before, CKV_F32, 3, 1, 9, 2, TEST_DENSE);
    fill_bytes(&from.buffer, 7);
    test_copy(&before, &from);
    ckv_tensor to = from.view;
    to.shape[1] = 4;
    to.stride[0] = 12345;
    assert_ok(ckv_compact(p.plan, &from.view, &p.selection, &to, &p.run));
    check_rows(&p, &before, &from, &before);
    test_tensor_free(&from);
    test_tensor_free(&before);
    test_problem_close(&p);
}

/* Neither apart nor the same rows: refused, and nothing has moved. */
static void test_refuses_overlap(void **state)
{
    (void)state;
    test_problem p;
    test_tensor from;
    open_rows(&p, 2, 10, 5, 8);
    test_tensor_new(&from, CKV_F32, 3, 2, 10, 4, TEST_DENSE);
    fill_bytes(&from.buffer, 9);
    test_buffer_remember(&from.buffer);
    test_remember(&p);
    for (int kind = 0; kind < 6; kind++) {
        ckv_tensor to = from.view;
        to.shape[1] = 5;
        if (kind == 0)
            to.data = (char *)to.data + 4; /* one element on */
        else if (kind == 1)
            to.stride[0] = 80; /* heads close up */
        else if (kind == 2)
            to.stride[1] = 32;
        else if (kind == 3)
            to.data = (char *)to.data + 16; /* one row on */
        else if (kind == 4) {
            to.data = (char *)to.data + 9 * 16;
            to.stride[1] = -16;
        } else {
            to.data = (char *)to.data + 12;
            to.stride[2] = -4;
        }
        assert_fails(ckv_compact(p.plan, &from.view, &p.selection, &to, &p.run), CKV_ERROR_STRIDE, "to: overlaps from");
        assert_true(test_buffer_unchanged(&from.buffer));
        assert_true(test_all_unchanged(&p));
    }
    /* The last byte of one beside the first of the other is apart. */
    test_tensor half;
    test_tensor_new(&half, CKV_F32, 3, 1, 30, 4, TEST_DENSE);
    ckv_tensor first, second;
    ckv_tensor_init_3d(&first, CKV_F32, half.view.data, 2, 10, 4);
    ckv_tensor_init_3d(&second, CKV_F32, (char *)half.view.data + 2 * 10 * 4 * 4, 2, 5, 4);
    assert_ok(ckv_compact(p.plan, &first, &p.selection, &second, &p.run));
    assert_true(test_buffer_intact(&half.buffer));
    test_tensor_free(&half);
    test_tensor_free(&from);
    test_problem_close(&p);
}

static ckv_status compact(test_problem *p, const test_tensor *from)
{
    return ckv_compact(p->plan, &from->view, &p->selection, &from->view, &p->run);
}

/* A selection that select would not have written is refused before any row moves. */
static void test_refuses_selections(void **state)
{
    (void)state;
    test_problem p;
    test_tensor from;
    open_rows(&p, 2, 10, 4, 8);
    const int32_t good[] = {0, 3, 5, 9, 1, 2, 3, 4};
    memcpy(p.selection.positions, good, sizeof good);
    test_tensor_new(&from, CKV_F32, 3, 2, 10, 4, TEST_DENSE);
    fill_bytes(&from.buffer, 9);
    test_buffer_remember(&from.buffer);
    const struct {
        int at;
        int32_t value;
    } wrong[] = {{0, -1}, {1, 0}, {1, 5}, {2, 3},  {3, 10},       {3, INT32_MAX},
                 {4, -2}, {5, 1}, {7, 3}, {7, 10}, {0, INT32_MIN}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(p.selection.positions, good, sizeof good);
        p.selection.positions[wrong[i].at] = wrong[i].value;
        test_remember(&p);
        assert_fails(compact(&p, &from), CKV_ERROR_MISMATCH, "selection: positions[");
        assert_true(test_buffer_unchanged(&from.buffer));
        assert_true(test_all_unchanged(&p));
    }
    memcpy(p.selection.positions, good, sizeof good);
    for (int h = 0; h < 3; h++)
        for (int step = -1; step <= 1; step += 2) {
            p.selection.offsets[h] += step;
            assert_fails(compact(&p, &from), CKV_ERROR_MISMATCH, "selection: offsets[");
            assert_true(test_buffer_unchanged(&from.buffer));
            p.selection.offsets[h] -= step;
        }
    assert_ok(compact(&p, &from));
    test_tensor_free(&from);
    test_problem_close(&p);
}

static void test_refuses_views(void **state)
{
    (void)state;
    test_problem p;
    test_tensor from, to;
    open_rows(&p, 2, 10, 4, 8);
    test_tensor_new(&from, CKV_F32, 3, 2, 10, 4, TEST_DENSE);
    test_tensor_new(&to, CKV_F32, 3, 2, 4, 4, TEST_DENSE);
    test_buffer_remember(&to.buffer);
    ckv_tensor view = to.view;
    view.dtype = CKV_F16;
    assert_fails(ckv_compact(p.plan, &from.view, &p.selection, &view, &p.run), CKV_ERROR_DTYPE,
                 "to: dtype 2 (F16), wanted F32");
    for (int i = 0; i < 3; i++) {
        view = to.view;
        view.shape[i]--;
        assert_fails(ckv_compact(p.plan, &from.view, &p.selection, &view, &p.run), CKV_ERROR_SHAPE, "to: shape");
        view = from.view;
        view.shape[i]--;
        if (i < 2)
            assert_fails(ckv_compact(p.plan, &view, &p.selection, &to.view, &p.run), CKV_ERROR_SHAPE, "from: shape");
        view = to.view;
        view.stride[i] = 0;
        assert_fails(ckv_compact(p.plan, &from.view, &p.selection, &view, &p.run), CKV_ERROR_STRIDE, "to: strides");
    }
    view = from.view;
    view.shape[2] = 0;
    assert_fails(ckv_compact(p.plan, &view, &p.selection, &to.view, &p.run), CKV_ERROR_SHAPE, "from: shape");
    assert_fails(ckv_compact(p.plan, NULL, &p.selection, &to.view, &p.run), CKV_ERROR_INVALID_ARGUMENT, "from: NULL");
    assert_fails(ckv_compact(p.plan, &from.view, &p.selection, NULL, &p.run), CKV_ERROR_INVALID_ARGUMENT, "to: NULL");
    assert_true(test_buffer_unchanged(&to.buffer));
    assert_true(test_buffer_intact(&from.buffer));
    test_tensor_free(&from);
    test_tensor_free(&to);
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_and_dtypes),
        cmocka_unit_test(test_quantised_rows),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_positions_are_not_rows),
        cmocka_unit_test(test_in_place_views),
        cmocka_unit_test(test_refuses_overlap),
        cmocka_unit_test(test_refuses_selections),
        cmocka_unit_test(test_refuses_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
