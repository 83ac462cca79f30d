/* SPDX-License-Identifier: Apache-2.0 */
/* Quantising the output projection, against spec 5.1 written in doubles. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "projection.h"

#define NONE (-100000)

typedef struct setup {
    int32_t heads, dim, hidden;
    ckv_context *context;
    test_tensor weight;
    ckv_projection *projection;
} setup;

static void start(setup *s, int32_t heads, int32_t dim, int32_t hidden, ckv_dtype dtype, test_layout layout)
{
    memset(s, 0, sizeof *s);
    s->heads = heads;
    s->dim = dim;
    s->hidden = hidden;
    assert_ok(ckv_context_create(NULL, &s->context));
    test_tensor_new(&s->weight, dtype, 2, 1, hidden, (int64_t)heads * dim, layout);
}

static void create(setup *s)
{
    assert_ok(ckv_projection_create(s->context, &s->weight.view, s->heads, s->dim, &s->projection));
}

static void stop(setup *s)
{
    ckv_projection_destroy(s->projection);
    ckv_context_destroy(s->context);
    test_tensor_free(&s->weight);
}

static double weight(const setup *s, int32_t head, int32_t k, int32_t j)
{
    double x = test_get(&s->weight, 0, j, (int64_t)head * s->dim + k);
    if (isnan(x))
        return 0.0;
    if (fabs(x) > 0x1p40)
        return x < 0.0 ? -0x1p40 : 0x1p40;
    return fabs(x) < 0x1p-39 ? 0.0 : x;
}

static int channel_exponent(const setup *s, int32_t head, int32_t k)
{
    double greatest = 0.0;
    int e;
    for (int32_t j = 0; j < s->hidden; j++)
        greatest = fmax(greatest, fabs(weight(s, head, k, j)));
    frexp(greatest, &e);
    return greatest == 0.0 ? NONE : e;
}

static double balanced(const setup *s, int32_t head, int32_t k, int32_t j)
{
    int e = channel_exponent(s, head, k);
    return e == NONE ? 0.0 : ldexp(weight(s, head, k, j), -e);
}

/* The least F with rne(greatest * 2^-F) <= 127, by trying. */
static int output_exponent(const setup *s, int32_t head, int32_t j)
{
    double greatest = 0.0;
    int f = 50;
    for (int32_t k = 0; k < s->dim; k++)
        greatest = fmax(greatest, fabs(balanced(s, head, k, j)));
    if (greatest == 0.0)
        return NONE;
    while (nearbyint(ldexp(greatest, -(f - 1))) <= 127.0)
        f--;
    return f;
}

static void check_head(const setup *s, int32_t head)
{
    const ckv_projection *p = s->projection;
    int f[512], top = NONE, bottom;
    for (int32_t k = 0; k < s->dim; k++) {
        int e = channel_exponent(s, head, k);
        assert_int_equal(p->exponents[head * s->dim + k], e == NONE ? CKV_CHANNEL_DROPPED : e);
    }
    for (int32_t j = 0; j < s->hidden; j++) {
        f[j] = output_exponent(s, head, j);
        top = f[j] > top ? f[j] : top;
    }
    if (top == NONE) {
        for (int32_t j = 0; j < s->hidden; j++)
            for (int32_t k = 0; k < s->dim; k++)
                assert_int_equal(p->weights[((int64_t)head * s->dim + k) * s->hidden + j], 0);
        return;
    }
    bottom = top;
    for (int32_t j = 0; j < s->hidden; j++) {
        f[j] = f[j] < top - 16 ? top - 16 : f[j];
        bottom = f[j] < bottom ? f[j] : bottom;
    }
    assert_int_equal(p->bases[head], bottom);
    for (int32_t j = 0; j < s->hidden; j++) {
        assert_in_range(p->shifts[head * s->hidden + j], 0, 16);
        assert_int_equal(p->shifts[head * s->hidden + j], f[j] - bottom);
        for (int32_t k = 0; k < s->dim; k++) {
            int got = p->weights[((int64_t)head * s->dim + k) * s->hidden + j];
            int e = channel_exponent(s, head, k);
            assert_int_equal(got, (int)nearbyint(ldexp(balanced(s, head, k, j), -f[j])));
            assert_true(abs(got) <= 127);
            /* Half a step is the most that is lost. */
            if (e != NONE)
                assert_true(fabs(ldexp((double)got, f[j] + e) - weight(s, head, k, j)) <= ldexp(0.5, f[j] + e));
        }
    }
}

static void check_all(setup *s)
{
    create(s);
    for (int32_t head = 0; head < s->heads; head++)
        check_head(s, head);
}

static void test_random_weights(void **state)
{
    (void)state;
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F16, CKV_BF16};
    const int ranges[][2] = {{-4, 0}, {-12, 2}, {-45, 45}, {-126, 127}, {-39, -30}, {30, 40}};
    for (int t = 0; t < 3; t++)
        for (int r = 0; r < 6; r++)
            for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
                setup s;
                test_random random = test_seed((uint64_t)(t * 100 + r * 10 + layout));
                start(&s, 2, 5, 19, dtypes[t], (test_layout)layout);
                test_randomize(&s.weight, &random, ranges[r][0], ranges[r][1]);
                check_all(&s);
                stop(&s);
            }
}

/* Sizes that relate to nothing: hidden 6, four heads of width 3. */
static void test_shape_of_its_own(void **state)
{
    (void)state;
    setup s;
    test_random random = test_seed(7);
    start(&s, 4, 3, 6, CKV_F32, TEST_DENSE);
    test_randomize(&s.weight, &random, -3, 0);
    check_all(&s);
    assert_int_equal(s.projection->query_heads, 4);
    assert_int_equal(s.projection->value_dim, 3);
    assert_int_equal(s.projection->hidden, 6);
    stop(&s);
}

static void test_dropped_channels_and_zero_heads(void **state)
{
    (void)state;
    setup s;
    test_random random = test_seed(8);
    start(&s, 3, 4, 9, CKV_F32, TEST_DENSE);
    test_randomize(&s.weight, &random, -3, 0);
    for (int32_t j = 0; j < 9; j++) {
        test_put(&s.weight, 0, j, 2, 0.0f);                          /* head 0, channel 2 */
        test_put(&s.weight, 0, j, 0, j == 4 ? 0x1p-40f : -0x1p-41f); /* zero once sanitised */
        for (int32_t k = 0; k < 4; k++)
            test_put(&s.weight, 0, j, 4 + k, 0.0f); /* head 1 */
    }
    for (int32_t c = 8; c < 12; c++)
        test_put(&s.weight, 0, 5, c, -0.0f); /* head 2, output 5 */
    check_all(&s);
    assert_int_equal(s.projection->exponents[2], CKV_CHANNEL_DROPPED);
    assert_int_equal(s.projection->exponents[0], CKV_CHANNEL_DROPPED);
    assert_int_not_equal(s.projection->exponents[1], CKV_CHANNEL_DROPPED);
    for (int32_t k = 4; k < 8; k++)
        assert_int_equal(s.projection->exponents[k], CKV_CHANNEL_DROPPED);
    assert_int_equal(s.projection->shifts[2 * 9 + 5], 0);
    assert_true(s.projection->shifts[2 * 9 + 4] > 0);
    stop(&s);
}

/* F_j is held at Fmax - 16: outputs 15, 16, 17 and 40 binary orders below the greatest. */
static void test_clamp(void **state)
{
    (void)state;
    setup s;
    const int below[] = {0, 15, 16, 17, 24, 60};
    start(&s, 1, 1, 6, CKV_F32, TEST_DENSE);
    for (int32_t j = 0; j < 6; j++)
        test_put(&s.weight, 0, j, 0, ldexpf(1.0f, 20 - below[j]));
    check_all(&s);
    const uint8_t shifts[] = {16, 1, 0, 0, 0, 0};
    const int8_t weights[] = {64, 64, 64, 32, 0, 0};
    assert_memory_equal(s.projection->shifts, shifts, sizeof shifts);
    assert_memory_equal(s.projection->weights, weights, sizeof weights);
    assert_int_equal(s.projection->exponents[0], 21);
    assert_int_equal(s.projection->bases[0], -7 - 16);
    stop(&s);
}

/* 127.49 of 128 fits in 7 bits, 127.5 rounds to 128 and takes the next exponent. */
static void test_greatest_of_an_output(void **state)
{
    (void)state;
    setup s;
    start(&s, 1, 2, 3, CKV_F32, TEST_DENSE);
    test_put(&s.weight, 0, 0, 0, 127.5f / 128.0f);
    test_put(&s.weight, 0, 1, 0, nextafterf(127.5f / 128.0f, 0.0f));
    test_put(&s.weight, 0, 2, 0, -127.0f / 128.0f);
    test_put(&s.weight, 0, 0, 1, 0.5f);
    check_all(&s);
    const uint8_t shifts[] = {1, 0, 0};
    const int8_t weights[] = {64, 127, -127, 32, 0, 0};
    assert_memory_equal(s.projection->shifts, shifts, sizeof shifts);
    assert_memory_equal(s.projection->weights, weights, sizeof weights);
    stop(&s);
}

/* An outlier channel, or an outlier output, costs the others nothing or little. */
static void test_outliers(void **state)
{
    (void)state;
    setup s;
    test_random random = test_seed(9);
    start(&s, 1, 8, 12, CKV_F32, TEST_DENSE);
    test_randomize(&s.weight, &random, -2, 0);
    for (int32_t j = 0; j < 12; j++)
        test_put_bits(&s.weight, 0, j, 3, test_element(&random, CKV_F32, 18, 20));
    check_all(&s);
    for (int32_t j = 0; j < 12; j++)
        for (int32_t k = 0; k < 8; k++) {
            int step = s.projection->bases[0] + s.projection->shifts[j] + s.projection->exponents[k];
            double got = ldexp((double)s.projection->weights[k * 12 + j], step);
            assert_true(fabs(got - weight(&s, 0, k, j)) <= 0.04 * fabs(weight(&s, 0, k, j)));
        }
    ckv_projection_destroy(s.projection);
    for (int32_t k = 0; k < 8; k++)
        test_put_bits(&s.weight, 0, 5, k, test_element(&random, CKV_F32, 38, 39));
    check_all(&s);
    stop(&s);
}

static void test_flags(void **state)
{
    (void)state;
    const float wrong[] = {NAN, INFINITY, -INFINITY};
    setup s;
    start(&s, 2, 2, 3, CKV_F32, TEST_DENSE);
    test_fill(&s.weight, 1.0f);
    check_all(&s);
    assert_int_equal(ckv_projection_flags(s.projection), 0);
    for (int32_t j = 0; j < 3; j++)
        for (int32_t c = 0; c < 4; c++)
            for (int i = 0; i < 3; i++) {
                ckv_projection_destroy(s.projection);
                test_fill(&s.weight, 0x1p41f); /* large, but a number */
                test_put_bits(&s.weight, 0, j, c, test_bits(wrong[i]));
                check_all(&s);
                assert_int_equal(ckv_projection_flags(s.projection), CKV_NONFINITE_WEIGHT);
            }
    assert_int_equal(ckv_projection_flags(NULL), 0);
    ckv_projection_destroy(NULL);
    stop(&s);
}

static ckv_status try_create(const setup *s, const ckv_tensor *view, int32_t heads, int32_t dim)
{
    ckv_projection *projection = (ckv_projection *)(uintptr_t)&s->heads;
    ckv_status status = ckv_projection_create(s->context, view, heads, dim, &projection);
    if (status != CKV_OK)
        assert_null(projection);
    ckv_projection_destroy(projection);
    return status;
}

static void test_errors(void **state)
{
    (void)state;
    setup s;
    ckv_tensor view;
    ckv_projection *projection;
    start(&s, 4, 3, 6, CKV_F32, TEST_DENSE);
    view = s.weight.view;
    test_buffer_remember(&s.weight.buffer);
    assert_ok(try_create(&s, &view, 4, 3));
    assert_ok(try_create(&s, &view, 3, 4));
    assert_fails(try_create(&s, &view, 4, 4), CKV_ERROR_SHAPE, "weight: shape [6,12], wanted [>=1,16]");
    assert_fails(try_create(&s, &view, 2, 3), CKV_ERROR_SHAPE, "weight: shape");
    assert_fails(try_create(&s, &view, 0, 3), CKV_ERROR_INVALID_ARGUMENT, "query_heads: 0");
    assert_fails(try_create(&s, &view, -1, 3), CKV_ERROR_INVALID_ARGUMENT, "query_heads: -1");
    assert_fails(try_create(&s, &view, 4, 0), CKV_ERROR_INVALID_ARGUMENT, "value_dim: 0");
    assert_fails(try_create(&s, &view, 4, -3), CKV_ERROR_INVALID_ARGUMENT, "value_dim: -3");
    assert_fails(try_create(&s, &view, 4, 513), CKV_ERROR_LIMIT, "value_dim: 513");
    assert_fails(try_create(&s, &view, INT32_MAX, 512), CKV_ERROR_SHAPE, "weight: shape");
    assert_fails(try_create(&s, NULL, 4, 3), CKV_ERROR_INVALID_ARGUMENT, "weight: NULL");
    assert_fails(ckv_projection_create(NULL, &view, 4, 3, &projection), CKV_ERROR_INVALID_ARGUMENT, "context: NULL");
    assert_null(projection);
    assert_fails(ckv_projection_create(s.context, &view, 4, 3, NULL), CKV_ERROR_INVALID_ARGUMENT, "projection: NULL");
    view.shape[0] = 0;
    assert_fails(try_create(&s, &view, 4, 3), CKV_ERROR_SHAPE, "weight: shape [0,12]");
    view = s.weight.view;
    view.dtype = CKV_BYTES;
    assert_fails(try_create(&s, &view, 4, 3), CKV_ERROR_DTYPE, "weight: dtype");
    view = s.weight.view;
    view.rank = 3;
    assert_fails(try_create(&s, &view, 4, 3), CKV_ERROR_SHAPE, "weight: ");
    view = s.weight.view;
    view.stride[0] = INT64_MAX;
    assert_fails(try_create(&s, &view, 4, 3), CKV_ERROR_STRIDE, "weight: strides");
    view = s.weight.view;
    view.stride[0] = 0; /* every output alike: repeated input is no error */
    assert_ok(try_create(&s, &view, 4, 3));
    view.shape[0] = (1 << 15) + 1;
    assert_fails(try_create(&s, &view, 4, 3), CKV_ERROR_LIMIT, "weight: 32769 rows");
    view.shape[0] = 1 << 15;
    assert_ok(try_create(&s, &view, 4, 3));
    assert_true(test_buffer_unchanged(&s.weight.buffer));
    stop(&s);
}

/* The greatest width, and a weight that is read and then not needed. */
static void test_widest(void **state)
{
    (void)state;
    setup s;
    test_random random = test_seed(10);
    start(&s, 1, 512, 3, CKV_BF16, TEST_TRANSPOSED);
    test_randomize(&s.weight, &random, -6, 0);
    check_all(&s);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_shape_of_its_own),
        cmocka_unit_test(test_dropped_channels_and_zero_heads),
        cmocka_unit_test(test_clamp),
        cmocka_unit_test(test_greatest_of_an_output),
        cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_widest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
