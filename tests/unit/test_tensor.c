/* SPDX-License-Identifier: Apache-2.0 */
/* Views: what the constructors make, and every check on what a caller hands in. */
#include "unit.h"

#include "tensor.h"

static unsigned char memory[4096];

static const ckv_tensor_rule input = {"key", 3, {2, 3, 4}, -1, CKV_DTYPES_FLOAT, 0};
static const ckv_tensor_rule output = {"attention", 3, {2, 3, 4}, -1, CKV_DTYPES_FLOAT, 1};

static ckv_tensor dense(void)
{
    ckv_tensor view;
    ckv_tensor_init_3d(&view, CKV_F32, memory, 2, 3, 4);
    return view;
}

static ckv_tensor strided(int64_t a, int64_t b, int64_t c)
{
    ckv_tensor view = dense();
    view.stride[0] = a;
    view.stride[1] = b;
    view.stride[2] = c;
    view.data = memory + 2048;
    return view;
}

static void test_dtype_sizes(void **state)
{
    (void)state;
    assert_int_equal(ckv_dtype_size(CKV_F32), 4);
    assert_int_equal(ckv_dtype_size(CKV_F16), 2);
    assert_int_equal(ckv_dtype_size(CKV_BF16), 2);
    assert_int_equal(ckv_dtype_size(CKV_BYTES), 1);
    assert_int_equal(ckv_dtype_size((ckv_dtype)0), 0);
    assert_int_equal(ckv_dtype_size((ckv_dtype)5), 0);
    assert_int_equal(ckv_dtype_size((ckv_dtype)-1), 0);
}

static void test_init(void **state)
{
    (void)state;
    ckv_tensor view;
    memset(&view, 0x77, sizeof view);
    ckv_tensor_init_3d(&view, CKV_BF16, memory, 5, 7, 3);
    assert_int_equal(view.struct_size, sizeof view);
    assert_int_equal(view.dtype, CKV_BF16);
    assert_int_equal(view.rank, 3);
    assert_ptr_equal(view.data, memory);
    assert_int_equal(view.shape[0], 5);
    assert_int_equal(view.shape[1], 7);
    assert_int_equal(view.shape[2], 3);
    assert_int_equal(view.shape[3], 0);
    assert_int_equal(view.stride[0], 42);
    assert_int_equal(view.stride[1], 6);
    assert_int_equal(view.stride[2], 2);

    memset(&view, 0x77, sizeof view);
    ckv_tensor_init_2d(&view, CKV_F32, memory, 5, 7);
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.shape[0], 5);
    assert_int_equal(view.shape[1], 7);
    assert_int_equal(view.stride[0], 28);
    assert_int_equal(view.stride[1], 4);
    assert_int_equal(view.shape[2], 0);

    /* Hostile extents are for the checks to refuse, not for these to trip over. */
    ckv_tensor_init_3d(&view, CKV_F32, memory, INT64_MAX, INT64_MAX, INT64_MAX);
    ckv_tensor_init_3d(NULL, CKV_F32, memory, 1, 1, 1);
    ckv_tensor_init_2d(NULL, CKV_F32, memory, 1, 1);
}

static void test_accepts(void **state)
{
    (void)state;
    ckv_tensor view, given = dense();
    assert_ok(ckv_tensor_read(&view, &given, &input));
    assert_ptr_equal(ckv_at(&view, 1, 2, 3), memory + 4 * (1 * 12 + 2 * 4 + 3));
    assert_ok(ckv_tensor_read(&view, &given, &output));
    const int64_t strides[][3] = {
        {16, 32, 4},    /* tokens first */
        {48, 4, 12},    /* transposed */
        {-48, -16, -4}, /* reversed */
        {57, 19, 4},    /* padded to odd rows */
        {4, 8, 24},     /* channels outermost */
    };
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        given = strided(strides[i][0], strides[i][1], strides[i][2]);
        assert_ok(ckv_tensor_read(&view, &given, &input));
        assert_ok(ckv_tensor_read(&view, &given, &output));
        assert_ptr_equal(ckv_at(&view, 1, 2, 3), memory + 2048 + strides[i][0] + 2 * strides[i][1] + 3 * strides[i][2]);
    }
    given = dense();
    given.data = memory + 1;
    assert_ok(ckv_tensor_read(&view, &given, &output));
}

/* Inputs may repeat and overlap elements, outputs may not. */
static void test_overlapping_elements(void **state)
{
    (void)state;
    const int64_t strides[][3] = {
        {0, 16, 4},  {48, 0, 4},  {48, 16, 0}, {0, 0, 0},     {48, 16, 3},
        {48, 15, 4}, {47, 16, 4}, {16, 31, 4}, {-47, -16, 4}, {48, 4, 11},
    };
    ckv_tensor view;
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        ckv_tensor given = strided(strides[i][0], strides[i][1], strides[i][2]);
        assert_ok(ckv_tensor_read(&view, &given, &input));
        assert_fails(ckv_tensor_read(&view, &given, &output), CKV_ERROR_STRIDE, "attention: strides");
    }
}

/* A stride that no element is reached by is no matter. */
static void test_unused_strides(void **state)
{
    (void)state;
    const ckv_tensor_rule rule = {"norm", 3, {1, 1, 4}, -1, CKV_DTYPES_F32, 1};
    ckv_tensor view, given;
    ckv_tensor_init_3d(&given, CKV_F32, memory, 1, 1, 4);
    given.stride[0] = INT64_MIN;
    given.stride[1] = INT64_MAX;
    given.stride[3] = INT64_MIN;
    given.shape[3] = -9;
    assert_ok(ckv_tensor_read(&view, &given, &rule));
    assert_ptr_equal(ckv_at(&view, 0, 0, 3), memory + 12);
}

static void test_refuses_dtypes(void **state)
{
    (void)state;
    const int wrong[] = {0, CKV_BYTES, 5, -1, 31, 32, 33, INT32_MAX, INT32_MIN};
    ckv_tensor view;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ckv_tensor given = dense();
        given.dtype = (ckv_dtype)wrong[i];
        assert_fails(ckv_tensor_read(&view, &given, &input), CKV_ERROR_DTYPE, "key: dtype");
        assert_detail("wanted F32, F16 or BF16");
    }
    const ckv_tensor_rule only = {"norm", 3, {2, 3, 4}, -1, CKV_DTYPES_F32, 0};
    ckv_tensor given = dense();
    given.dtype = CKV_F16;
    assert_fails(ckv_tensor_read(&view, &given, &only), CKV_ERROR_DTYPE, "norm: dtype 2 (F16), wanted F32");
}

static void test_refuses_shapes(void **state)
{
    (void)state;
    ckv_tensor view, given;
    const int32_t ranks[] = {-1, 0, 1, 2, 4, 5, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        given = dense();
        given.rank = ranks[i];
        assert_fails(ckv_tensor_read(&view, &given, &input), CKV_ERROR_SHAPE, "key: ");
    }
    for (int i = 0; i < 3; i++) {
        const int64_t extents[] = {0, -1, input.shape[i] - 1, input.shape[i] + 1, INT64_MAX, INT64_MIN};
        for (size_t j = 0; j < sizeof extents / sizeof extents[0]; j++) {
            given = dense();
            given.shape[i] = extents[j];
            assert_fails(ckv_tensor_read(&view, &given, &input), CKV_ERROR_SHAPE, "key: shape");
            assert_detail("wanted [2,3,4]");
        }
    }
    const ckv_tensor_rule more = {"to", 3, {2, 3, 4}, 1, CKV_DTYPES_ANY, 1};
    given = dense();
    given.shape[1] = 2;
    assert_fails(ckv_tensor_read(&view, &given, &more), CKV_ERROR_SHAPE, "wanted [2,>=3,4]");
    ckv_tensor_init_3d(&given, CKV_F32, memory, 2, 9, 4);
    assert_ok(ckv_tensor_read(&view, &given, &more));
    given.shape[0] = 3;
    assert_int_equal(ckv_tensor_read(&view, &given, &more), CKV_ERROR_SHAPE);
    /* The longest text of a shape fits. */
    given.rank = 4;
    for (int i = 0; i < 4; i++)
        given.shape[i] = INT64_MIN;
    assert_fails(ckv_tensor_read(&view, &given, &more), CKV_ERROR_SHAPE, "wanted [2,>=3,4]");
}

static void test_refuses_strides(void **state)
{
    (void)state;
    ckv_tensor view, given;
    for (int i = 0; i < 3; i++) {
        const int64_t wrong[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2, -(INT64_MAX / 3)};
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            given = dense();
            given.stride[i] = wrong[j];
            assert_fails(ckv_tensor_read(&view, &given, &input), CKV_ERROR_STRIDE, "key: strides");
            assert_fails(ckv_tensor_read(&view, &given, &output), CKV_ERROR_STRIDE, "attention: strides");
        }
    }
    /* Below address 0. */
    given = dense();
    given.data = (void *)(uintptr_t)64;
    given.stride[0] = -65;
    assert_int_equal(ckv_tensor_read(&view, &given, &input), CKV_ERROR_STRIDE);
    given.stride[0] = -64;
    assert_ok(ckv_tensor_read(&view, &given, &input));
    /* Past the last address. */
    given = dense();
    given.data = (void *)(UINTPTR_MAX - 96);
    assert_ok(ckv_tensor_read(&view, &given, &input));
    given.data = (void *)(UINTPTR_MAX - 95);
    assert_int_equal(ckv_tensor_read(&view, &given, &input), CKV_ERROR_STRIDE);
}

static void test_refuses_structs(void **state)
{
    (void)state;
    ckv_tensor view, given = dense();
    assert_fails(ckv_tensor_read(&view, NULL, &input), CKV_ERROR_INVALID_ARGUMENT, "key: NULL");
    given.data = NULL;
    assert_fails(ckv_tensor_read(&view, &given, &input), CKV_ERROR_INVALID_ARGUMENT, "key: data NULL");
    given = dense();
    given.struct_size = offsetof(ckv_tensor, data);
    assert_fails(ckv_tensor_read(&view, &given, &input), CKV_ERROR_INVALID_ARGUMENT, "key: struct_size");
}

static void test_overlap(void **state)
{
    (void)state;
    ckv_tensor a, b, view_a, view_b;
    const ckv_tensor_rule rule = {"x", 2, {3, 4}, -1, CKV_DTYPES_F32, 0};
    ckv_tensor_init_2d(&a, CKV_F32, memory + 1024, 3, 4); /* bytes 1024 to 1071 */
    ckv_tensor_init_2d(&b, CKV_F32, NULL, 3, 4);
    assert_ok(ckv_tensor_read(&view_a, &a, &rule));
    const struct {
        int64_t at, stride;
        int overlaps;
    } cases[] = {
        {1072, 16, 0},
        {1071, 16, 1},
        {976, 16, 0},
        {977, 16, 1},
        {1024, 16, 1},
        {1040, 16, 1},
        /* Backwards from `at`: 32 bytes before it to 15 after. */
        {1104, -16, 0},
        {1103, -16, 1},
        {1008, -16, 0},
        {1009, -16, 1},
        /* All rows in one place. */
        {1008, 0, 0},
        {1009, 0, 1},
        {1071, 0, 1},
        {1072, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        b.data = memory + cases[i].at;
        b.stride[0] = cases[i].stride;
        assert_ok(ckv_tensor_read(&view_b, &b, &rule));
        assert_int_equal(ckv_tensors_overlap(&view_a, &view_b), cases[i].overlaps);
        assert_int_equal(ckv_tensors_overlap(&view_b, &view_a), cases[i].overlaps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype_sizes),     cmocka_unit_test(test_init),
        cmocka_unit_test(test_accepts),         cmocka_unit_test(test_overlapping_elements),
        cmocka_unit_test(test_unused_strides),  cmocka_unit_test(test_refuses_dtypes),
        cmocka_unit_test(test_refuses_shapes),  cmocka_unit_test(test_refuses_strides),
        cmocka_unit_test(test_refuses_structs), cmocka_unit_test(test_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
