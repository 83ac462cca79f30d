/* SPDX-License-Identifier: Apache-2.0 */
/* Quantising the output projection, against spec 5.1 written in doubles. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "projection.h"

#define NONE (-100000)
#define HIDDEN_MAX 1100 /* of what is checked against the doubles */

/* Both widths of weights: the last hidden size that gets 10 bits, the first that gets 7. */
static const int32_t widths[] = {1023, 1024};

static int bits_of(int32_t hidden)
{
    return hidden < 1024 ? 10 : 7;
}

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
    ckv_context_options options;
    ckv_context_options_init(&options);
    options.backend = "ref"; /* keeps the weights as the specification has them */
    assert_ok(ckv_context_create(&options, &s->context));
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

/* What spec 5.1 makes of one head. */
typedef struct expected {
    int c[HIDDEN_MAX], f[HIDDEN_MAX], e[512];
    int bottom; /* Fmin, or NONE for a head of zeros */
} expected;

static int exponent_of(double magnitude)
{
    int e;
    frexp(magnitude, &e);
    return magnitude == 0.0 ? NONE : e;
}

static double balanced(const setup *s, const expected *x, int32_t head, int32_t k, int32_t j)
{
    return x->e[k] == NONE ? 0.0 : ldexp(weight(s, head, k, j), -x->e[k]);
}

/* The least F with rne(greatest * 2^-F) < 2^B, by trying. */
static int output_exponent(double greatest, int bits)
{
    int f = 50;
    if (greatest == 0.0)
        return NONE;
    while (nearbyint(ldexp(greatest, -(f - 1))) < ldexp(1.0, bits))
        f--;
    return f;
}

static void expect(const setup *s, int32_t head, expected *x)
{
    int top = NONE;
    for (int32_t j = 0; j < s->hidden; j++) {
        double greatest = 0.0;
        for (int32_t k = 0; k < s->dim; k++)
            greatest = fmax(greatest, fabs(weight(s, head, k, j)));
        x->c[j] = exponent_of(greatest);
    }
    for (int32_t k = 0; k < s->dim; k++) {
        double greatest = 0.0;
        for (int32_t j = 0; j < s->hidden; j++)
            if (x->c[j] != NONE)
                greatest = fmax(greatest, ldexp(fabs(weight(s, head, k, j)), -x->c[j]));
        x->e[k] = exponent_of(greatest);
    }
    for (int32_t j = 0; j < s->hidden; j++) {
        double greatest = 0.0;
        for (int32_t k = 0; k < s->dim; k++)
            greatest = fmax(greatest, fabs(balanced(s, x, head, k, j)));
        x->f[j] = output_exponent(greatest, bits_of(s->hidden));
        top = x->f[j] > top ? x->f[j] : top;
    }
    x->bottom = top;
    for (int32_t j = 0; j < s->hidden && top != NONE; j++) {
        x->f[j] = x->f[j] < top - 16 ? top - 16 : x->f[j];
        x->bottom = x->f[j] < x->bottom ? x->f[j] : x->bottom;
    }
}

static int quantized(const setup *s, int32_t head, int32_t k, int32_t j)
{
    return s->projection->weights[((int64_t)head * s->dim + k) * s->hidden + j];
}

/* F_j + E_k: the weight's last place is worth two to this. */
static int place(const setup *s, int32_t head, int32_t k, int32_t j)
{
    const ckv_projection *p = s->projection;
    return p->bases[head] + p->shifts[head * s->hidden + j] + p->exponents[head * s->dim + k];
}

static void check_head(const setup *s, int32_t head)
{
    static expected x;
    const ckv_projection *p = s->projection;
    assert_true(s->hidden <= HIDDEN_MAX);
    expect(s, head, &x);
    for (int32_t k = 0; k < s->dim; k++)
        assert_int_equal(p->exponents[head * s->dim + k], x.e[k] == NONE ? CKV_CHANNEL_DROPPED : x.e[k]);
    if (x.bottom == NONE) {
        for (int32_t j = 0; j < s->hidden; j++)
            for (int32_t k = 0; k < s->dim; k++)
                assert_int_equal(quantized(s, head, k, j), 0);
        return;
    }
    assert_int_equal(p->bases[head], x.bottom);
    for (int32_t j = 0; j < s->hidden; j++) {
        assert_in_range(p->shifts[head * s->hidden + j], 0, 16);
        assert_int_equal(p->shifts[head * s->hidden + j], x.f[j] - x.bottom);
        for (int32_t k = 0; k < s->dim; k++) {
            int got = quantized(s, head, k, j);
            assert_int_equal(got, (int)nearbyint(ldexp(balanced(s, &x, head, k, j), -x.f[j])));
            assert_true(abs(got) < 1 << bits_of(s->hidden));
            /* Half a step is the most that is lost. */
            if (x.e[k] != NONE)
                assert_true(fabs(ldexp((double)got, place(s, head, k, j)) - weight(s, head, k, j)) <=
                            ldexp(0.5, place(s, head, k, j)));
        }
    }
}

static void check_all(setup *s)
{
    create(s);
    assert_int_equal(s->projection->weight_bits, bits_of(s->hidden));
    assert_int_equal(s->projection->value_bits, 22 - bits_of(s->hidden));
    for (int32_t head = 0; head < s->heads; head++)
        check_head(s, head);
}

static void test_random_weights(void **state)
{
    (void)state;
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F16, CKV_BF16};
    const int ranges[][2] = {{-4, 0}, {-12, 2}, {-45, 45}, {-126, 127}, {-39, -30}, {30, 40}};
    const int32_t hidden[] = {19, 1023, 1024};
    for (int t = 0; t < 3; t++)
        for (int r = 0; r < 6; r++)
            for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
                setup s;
                test_random random = test_seed((uint64_t)(t * 100 + r * 10 + layout));
                start(&s, 2, 5, hidden[test_light() ? 0 : (t + r + layout) % 3], dtypes[t], (test_layout)layout);
                test_randomize(&s.weight, &random, ranges[r][0], ranges[r][1]);
                check_all(&s);
                stop(&s);
            }
}

/* The same weights with one output more: the last is zero, so nothing else differs. */
static void test_bits_by_hidden(void **state)
{
    (void)state;
    const int32_t hidden[] = {1, 1022, 1023, 1024, 1025};
    for (int i = 0; i < 5; i++) {
        setup s;
        start(&s, 1, 1, hidden[i], CKV_F32, TEST_DENSE);
        test_put(&s.weight, 0, 0, 0, 0.625f);
        check_all(&s);
        assert_int_equal(quantized(&s, 0, 0, 0), hidden[i] < 1024 ? 640 : 80);
        assert_int_equal(place(&s, 0, 0, 0), hidden[i] < 1024 ? -10 : -7);
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

/* F_j is held at Fmax - 16: outputs so many binary orders below the greatest; where
 * half a step is left it goes to the even 0, and 2^-40 is zero once sanitised. */
static void test_clamp(void **state)
{
    (void)state;
    const int below[] = {0, 15, 16, 17, 22, 23, 25, 26, 59, 60};
    const int shifts[] = {16, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    const int weights[][10] = {{512, 512, 512, 256, 8, 4, 1, 0, 0, 0}, {64, 64, 64, 32, 1, 0, 0, 0, 0, 0}};
    for (int w = 0; w < 2; w++) {
        setup s;
        start(&s, 1, 1, widths[w], CKV_F32, TEST_DENSE);
        for (int32_t j = 0; j < s.hidden; j++)
            test_put(&s.weight, 0, j, 0, ldexpf(1.0f, 20 - below[j % 10]));
        check_all(&s);
        assert_int_equal(s.projection->exponents[0], 0);
        assert_int_equal(s.projection->bases[0], 21 - bits_of(s.hidden) - 16);
        for (int32_t j = 0; j < s.hidden; j++) {
            assert_int_equal(s.projection->shifts[j], shifts[j % 10]);
            assert_int_equal(quantized(&s, 0, 0, j), weights[w][j % 10]);
        }
        stop(&s);
    }
}

/* What rounds below 2^B fits; what rounds to 2^B takes the next exponent. */
static void test_greatest_of_an_output(void **state)
{
    (void)state;
    const float tops[] = {127.5f / 128.0f,   nextafterf(127.5f / 128.0f, 0.0f),   -127.0f / 128.0f,
                          1023.5f / 1024.0f, nextafterf(1023.5f / 1024.0f, 0.0f), -1023.0f / 1024.0f};
    const int next[][6] = {{0, 0, 0, 1, 0, 0}, {1, 0, 0, 1, 1, 1}};
    const int weights[][6] = {{1020, 1020, -1016, 512, 1023, -1023}, {64, 127, -127, 64, 64, -64}};
    for (int w = 0; w < 2; w++) {
        setup s;
        start(&s, 1, 2, widths[w], CKV_F32, TEST_DENSE);
        for (int32_t j = 0; j < s.hidden; j++) {
            test_put(&s.weight, 0, j, 0, tops[j % 6]);
            test_put(&s.weight, 0, j, 1, 0.5f);
        }
        check_all(&s);
        assert_int_equal(s.projection->bases[0], -bits_of(s.hidden));
        for (int32_t j = 0; j < s.hidden; j++) {
            assert_int_equal(s.projection->shifts[j], next[w][j % 6]);
            assert_int_equal(quantized(&s, 0, 0, j), weights[w][j % 6]);
            assert_int_equal(quantized(&s, 0, 1, j), 1 << (bits_of(s.hidden) - 1 - next[w][j % 6]));
        }
        stop(&s);
    }
}

/* Of every weight but those of output `except`, its own first bits are kept: at worst
 * it is an eighth of its output's greatest, and that one takes the next exponent. */
static void check_precision(const setup *s, int32_t except)
{
    for (int32_t j = 0; j < s->hidden; j++)
        for (int32_t k = 0; k < s->dim && j != except; k++) {
            double got = ldexp((double)quantized(s, 0, k, j), place(s, 0, k, j));
            assert_true(fabs(got - weight(s, 0, k, j)) <= ldexp(fabs(weight(s, 0, k, j)), 3 - bits_of(s->hidden)));
        }
}

/* An outlier channel, or an outlier output, costs the others nothing or little. */
static void test_outliers(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        setup s;
        test_random random = test_seed(9);
        start(&s, 1, 8, widths[w], CKV_F32, TEST_DENSE);
        test_randomize(&s.weight, &random, -2, 0);
        for (int32_t j = 0; j < s.hidden; j++)
            test_put_bits(&s.weight, 0, j, 3, test_element(&random, CKV_F32, 19, 19));
        check_all(&s);
        check_precision(&s, -1);
        ckv_projection_destroy(s.projection);
        for (int32_t k = 0; k < 8; k++)
            test_put_bits(&s.weight, 0, 5, k, test_element(&random, CKV_F32, 38, 39));
        check_all(&s);
        stop(&s);
    }
}

/* An output as much above the others as the clamp allows, in each channel by another
 * factor: were E_k the exponent of the channel's greatest weight, that output would
 * decide all of them, and other outputs would keep the bits of one channel. */
static void test_outlier_output(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        setup s;
        test_random random = test_seed(11);
        start(&s, 1, 7, widths[w], CKV_F32, TEST_DENSE);
        test_randomize(&s.weight, &random, -2, 0);
        for (int32_t k = 0; k < 7; k++)
            test_put(&s.weight, 0, 5, k, ldexpf(k % 2 == 0 ? 1.5f : -1.5f, 2 * k));
        check_all(&s);
        check_precision(&s, 5);
        for (int32_t k = 0; k < 7; k++) /* and the channels are as they are without it */
            assert_in_range(s.projection->exponents[k] + 1, 0, 1);
        stop(&s);
    }
}

/* Outputs times powers of two: c_j and F_j follow, E_k and the weights stay. */
static void test_scaled_outputs(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        setup s, scaled;
        test_random random = test_seed(12);
        start(&s, 2, 4, widths[w], CKV_F32, TEST_DENSE);
        start(&scaled, 2, 4, widths[w], CKV_F32, TEST_DENSE);
        test_randomize(&s.weight, &random, -4, 0);
        for (int32_t j = 0; j < s.hidden; j++)
            for (int32_t c = 0; c < 8; c++)
                test_put(&scaled.weight, 0, j, c, ldexpf((float)test_get(&s.weight, 0, j, c), j % 9));
        check_all(&s);
        check_all(&scaled);
        for (int32_t head = 0; head < 2; head++)
            for (int32_t k = 0; k < 4; k++) {
                assert_int_equal(scaled.projection->exponents[head * 4 + k], s.projection->exponents[head * 4 + k]);
                for (int32_t j = 0; j < s.hidden; j++) {
                    assert_int_equal(quantized(&scaled, head, k, j), quantized(&s, head, k, j));
                    assert_int_equal(place(&scaled, head, k, j), place(&s, head, k, j) + j % 9);
                }
            }
        stop(&s);
        stop(&scaled);
    }
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

/* From one end of the sanitised numbers to the other, in one head: 2^-39 and 2^40. */
static void test_extremes(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        setup s;
        start(&s, 1, 3, widths[w], CKV_F32, TEST_DENSE);
        test_put(&s.weight, 0, 0, 0, 0x1p40f);
        test_put(&s.weight, 0, 0, 1, -0x1p-39f); /* in an output that 2^40 leads: E_k is at its least */
        test_put(&s.weight, 0, 1, 0, 0x1p-39f);
        test_put(&s.weight, 0, 2, 2, 0x1.fffffep39f);
        check_all(&s);
        const int16_t exponents[] = {0, -79, 0};
        assert_memory_equal(s.projection->exponents, exponents, sizeof exponents);
        assert_int_equal(quantized(&s, 0, 1, 0), -(1 << (bits_of(s.hidden) - 1)));
        assert_int_equal(quantized(&s, 0, 0, 1), 0);
        stop(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_weights),
        cmocka_unit_test(test_bits_by_hidden),
        cmocka_unit_test(test_shape_of_its_own),
        cmocka_unit_test(test_dropped_channels_and_zero_heads),
        cmocka_unit_test(test_clamp),
        cmocka_unit_test(test_greatest_of_an_output),
        cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_outlier_output),
        cmocka_unit_test(test_scaled_outputs),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_widest),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
