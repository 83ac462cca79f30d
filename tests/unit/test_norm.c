/* SPDX-License-Identifier: Apache-2.0 */
/* Row norms by the reference, against spec 5.2 to 5.4 written in doubles. */
#include "unit.h"

#include <math.h>

#include "projection.h"

#define NONE (-100000)

/* Both divisions of the 22 bits: the last hidden size whose weights get 10, the first
 * whose weights get 7. */
static const int32_t widths[] = {1023, 1024};

static int weight_bits(int32_t hidden)
{
    return hidden < 1024 ? 10 : 7;
}

static double clean(double x)
{
    return isnan(x) || fabs(x) < 0x1p-39 ? 0.0 : x > 0x1p40 ? 0x1p40 : x < -0x1p40 ? -0x1p40 : x;
}

static double value(const test_problem *p, int64_t g, int64_t i, int32_t k)
{
    return clean(test_get(&p->tensor[TEST_VALUE], g, i, k));
}

static double weight(const test_problem *p, int64_t h, int32_t k, int32_t j)
{
    return clean(test_get(&p->tensor[TEST_WEIGHT], 0, j, h * p->shape.value_dim + k));
}

/* From the quantised weights on; those are test_projection's. */
static float head_norm(const test_problem *p, int64_t h, int64_t g, int64_t i)
{
    const ckv_projection *w = p->projection;
    int32_t dim = w->value_dim, top = NONE, value_bits = 22 - weight_bits(w->hidden);
    double q[512], greatest = 0.0, sum = 0.0;
    for (int32_t k = 0; k < dim; k++) {
        int e;
        frexp(value(p, g, i, k), &e);
        if (value(p, g, i, k) != 0.0 && w->exponents[h * dim + k] != CKV_CHANNEL_DROPPED &&
            e + w->exponents[h * dim + k] > top)
            top = e + w->exponents[h * dim + k];
    }
    if (top == NONE)
        return 0.0f;
    for (int pass = 0; pass < 2; pass++, top++) {
        greatest = 0.0;
        for (int32_t k = 0; k < dim; k++) {
            int dropped = w->exponents[h * dim + k] == CKV_CHANNEL_DROPPED;
            q[k] = dropped ? 0.0 : nearbyint(ldexp(value(p, g, i, k), value_bits - top + w->exponents[h * dim + k]));
            greatest = fmax(greatest, fabs(q[k]));
        }
        if (greatest <= 32639.0)
            break;
    }
    assert_true(greatest <= (w->hidden < 1024 ? 4096.0 : 32639.0));
    for (int32_t j = 0; j < w->hidden; j++) {
        double t = 0.0;
        for (int32_t k = 0; k < dim; k++)
            t += q[k] * w->weights[(h * dim + k) * w->hidden + j];
        assert_true(fabs(t) < 0x1p31);
        sum += ldexp(fabs(t), w->shifts[h * w->hidden + j]); /* exact: below 2^53 in these tests */
    }
    assert_true(sum < 0x1p53);
    return ldexpf((float)sum, top - value_bits + w->bases[h]);
}

static float row_norm(const test_problem *p, int64_t g, int64_t i)
{
    int32_t group = p->shape.query_heads / p->shape.kv_heads;
    float sum = 0.0f;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        sum = sum + head_norm(p, h, g, i);
    sum = sum * (1.0f / (float)group);
    return sum < 0x1p-100f ? 0.0f : sum;
}

/* The true norm, unquantised. */
static double true_norm(const test_problem *p, int64_t g, int64_t i)
{
    int32_t group = p->shape.query_heads / p->shape.kv_heads;
    double norm = 0.0;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int32_t j = 0; j < p->shape.hidden; j++) {
            double y = 0.0;
            for (int32_t k = 0; k < p->shape.value_dim; k++)
                y += value(p, g, i, k) * weight(p, h, k, j);
            norm += fabs(y) / group;
        }
    return norm;
}

static void check(test_problem *p, double tolerance)
{
    assert_ok(test_norm(p));
    assert_true(test_all_intact(p));
    for (int64_t g = 0; g < p->shape.kv_heads; g++)
        for (int64_t i = 0; i < p->shape.tokens; i++) {
            float got = test_norm_at(p, g, i), want = row_norm(p, g, i);
            if (test_bits(got) != test_bits(want))
                fail_msg("norm[%d,%d] is %a, wanted %a", (int)g, (int)i, (double)got, (double)want);
            if (tolerance > 0.0)
                assert_true(fabs((double)got - true_norm(p, g, i)) <= tolerance * true_norm(p, g, i));
        }
}

static void start(test_problem *p, int32_t kv_heads, int32_t group, int64_t tokens, int32_t dim, int32_t hidden)
{
    test_problem_init(p, kv_heads, group, tokens, 0, 0, dim, hidden);
    p->policy.window = 0;
}

static void test_random_rows(void **state)
{
    (void)state;
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F16, CKV_BF16};
    const int32_t dims[] = {1, 3, 16, 59, 128}, groups[] = {1, 2, 3, 5, 7};
    const int32_t hidden[][5] = {{7, 20, 33, 46, 59}, {1023, 1024, 1030, 1024, 1025}};
    for (int i = 0; i < 5; i++)
        for (int t = 0; t < 3; t++)
            for (int wide = 0; wide < (test_light() ? 1 : 2); wide++) {
                test_problem p;
                start(&p, 2, groups[(i + t) % 5], wide ? 3 : 9, dims[i], hidden[wide][i]);
                p.dtype[TEST_VALUE] = dtypes[t];
                p.dtype[TEST_WEIGHT] = dtypes[(t + i) % 3];
                p.layout[TEST_VALUE] = (test_layout)((i + t) % TEST_LAYOUTS);
                p.low[TEST_VALUE] = -5;
                test_problem_build(&p);
                test_problem_randomize(&p, (uint64_t)(10 * i + t));
                assert_ok(test_problem_open(&p));
                check(&p, 0.003);
                test_problem_close(&p);
            }
}

/* Ranges from one edge of what is not cut to the other. */
static void test_hostile_rows(void **state)
{
    (void)state;
    const int ranges[][2] = {{-126, 127}, {-39, -38}, {39, 40}, {-45, -33}, {-39, 40}, {-20, 20}};
    const int32_t hidden[] = {5, 1023, 1024};
    for (int v = 0; v < 6; v++)
        for (int w = 0; w < 6; w++)
            for (int i = 0; i < (test_light() ? 1 : 3); i++) {
                test_problem p;
                start(&p, 1, 2, 12, 4, hidden[i]);
                p.low[TEST_VALUE] = ranges[v][0];
                p.high[TEST_VALUE] = ranges[v][1];
                p.low[TEST_WEIGHT] = ranges[w][0];
                p.high[TEST_WEIGHT] = ranges[w][1];
                test_problem_build(&p);
                test_problem_randomize(&p, (uint64_t)(v * 6 + w));
                assert_ok(test_problem_open(&p));
                check(&p, 0.0);
                test_problem_close(&p);
            }
}

/* More than a 16-bit float holds, and exact. */
static void test_beyond_16_bits(void **state)
{
    (void)state;
    const ckv_dtype dtypes[] = {CKV_F16, CKV_BF16, CKV_F32};
    const struct {
        int32_t hidden;
        float weight; /* times 64 channels and the outputs: 2^16 */
    } sizes[] = {{512, 2.0f}, {1024, 1.0f}, {4096, 0.25f}};
    for (int t = 0; t < 3; t++)
        for (int z = 0; z < 3; z++) {
            test_problem p;
            start(&p, 1, 1, 3, 64, sizes[z].hidden);
            p.dtype[TEST_VALUE] = p.dtype[TEST_WEIGHT] = dtypes[t];
            test_problem_build(&p);
            test_fill(&p.tensor[TEST_VALUE], 1.0f);
            test_fill(&p.tensor[TEST_WEIGHT], sizes[z].weight);
            assert_ok(test_problem_open(&p));
            assert_ok(test_norm(&p));
            for (int64_t i = 0; i < 3; i++)
                assert_true(test_norm_at(&p, 0, i) == 65536.0f);
            assert_int_equal(p.run.flags, 0);
            test_problem_close(&p);
        }
}

/* Two channels whose outlier weights cancel in the row at hand: what is left is from
 * all the other outputs, and it is right though the outlier was there. */
static void test_outlier_output(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        test_problem p;
        start(&p, 1, 1, 4, 4, widths[w]);
        test_problem_build(&p);
        test_problem_randomize(&p, 34);
        for (int64_t i = 0; i < 4; i++)
            for (int64_t k = 0; k < 2; k++)
                test_put(&p.tensor[TEST_VALUE], 0, i, k, 1.0f);
        for (int64_t k = 0; k < 4; k++)
            test_put(&p.tensor[TEST_WEIGHT], 0, 3, k, k == 0 ? 256.0f : k == 1 ? -256.0f : 0.0f);
        assert_ok(test_problem_open(&p));
        check(&p, 0.003);
        test_problem_close(&p);
    }
}

/* A mean of norms: heads whose projections cancel do not give 0. */
static void test_mean_of_norms(void **state)
{
    (void)state;
    for (int w = 0; w < 2; w++) {
        test_problem p;
        test_random random = test_seed(31);
        start(&p, 1, 2, 4, 6, widths[w]);
        test_problem_build(&p);
        test_randomize(&p.tensor[TEST_VALUE], &random, -2, 1);
        for (int64_t j = 0; j < widths[w]; j++)
            for (int64_t k = 0; k < 6; k++) {
                uint32_t bits = test_element(&random, CKV_F32, -2, 0);
                test_put_bits(&p.tensor[TEST_WEIGHT], 0, j, k, bits);
                test_put_bits(&p.tensor[TEST_WEIGHT], 0, j, 6 + k, bits ^ 0x80000000u);
            }
        assert_ok(test_problem_open(&p));
        check(&p, 0.003);
        for (int64_t i = 0; i < 4; i++)
            assert_int_equal(test_bits(test_norm_at(&p, 0, i)), test_bits(head_norm(&p, 0, 0, i)));
        test_problem_close(&p);
    }
}

/* With 15 bits 32639 is the greatest that is kept; from 32640 on the row takes one
 * exponent more.  With 12 bits all that can be is kept, 4096 too. */
static void test_greatest_of_a_row(void **state)
{
    (void)state;
    const struct {
        int32_t hidden;
        float top;
        int32_t q[2]; /* of the top and of one unit */
        int exponent;
    } cases[] = {{1024, 32639.0f, {32639, 1}, 0},   {1024, 32639.49f, {32639, 1}, 0}, {1024, 32639.5f, {16320, 0}, 1},
                 {1024, 32640.0f, {16320, 0}, 1},   {1024, 32767.9f, {16384, 0}, 1},  {1024, -32639.0f, {-32639, 1}, 0},
                 {1024, -32640.0f, {-16320, 0}, 1}, {1023, 4095.0f, {4095, 1}, 0},    {1023, 4095.49f, {4095, 1}, 0},
                 {1023, 4095.5f, {4096, 1}, 0},     {1023, -4095.9f, {-4096, 1}, 0},  {2, 4095.9f, {4096, 1}, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_problem p;
        int value_bits = 22 - weight_bits(cases[c].hidden);
        start(&p, 1, 1, 1, 2, cases[c].hidden);
        test_problem_build(&p);
        test_put(&p.tensor[TEST_VALUE], 0, 0, 0, ldexpf(cases[c].top, -value_bits));
        test_put(&p.tensor[TEST_VALUE], 0, 0, 1, ldexpf(1.0f, -value_bits));
        test_put(&p.tensor[TEST_WEIGHT], 0, 0, 0, 0.5f);
        test_put(&p.tensor[TEST_WEIGHT], 0, 1, 1, 0.5f);
        assert_ok(test_problem_open(&p));
        check(&p, 0.0);
        double want = (fabs((double)cases[c].q[0]) + cases[c].q[1]) * ldexp(0.5, cases[c].exponent - value_bits);
        assert_true((double)test_norm_at(&p, 0, 0) == want);
        test_problem_close(&p);
    }
}

static void check_nothing(int32_t hidden)
{
    test_problem p;
    test_random random = test_seed(33);
    start(&p, 2, 2, 4, 3, hidden);
    test_problem_build(&p);
    test_problem_randomize(&p, 33);
    for (int64_t k = 0; k < 3; k++) {
        test_put(&p.tensor[TEST_VALUE], 0, 1, k, k == 0 ? 0x1p-40f : -0.0f);
        for (int64_t j = 0; j < hidden; j++) {
            test_put(&p.tensor[TEST_WEIGHT], 0, j, 2 * 3 + k, 0.0f); /* query heads 2 and 3: all zero */
            test_put(&p.tensor[TEST_WEIGHT], 0, j, 3 * 3 + k, 0.0f);
        }
    }
    for (int64_t j = 0; j < hidden; j++)
        test_put(&p.tensor[TEST_WEIGHT], 0, j, 0, 0.0f); /* head 0 drops channel 0 */
    test_put(&p.tensor[TEST_VALUE], 0, 2, 1, 0.0f);
    test_put(&p.tensor[TEST_VALUE], 0, 2, 2, 0.0f); /* row 2: only what head 0 drops */
    test_put_bits(&p.tensor[TEST_VALUE], 0, 2, 0, test_element(&random, CKV_F32, 3, 5));
    assert_ok(test_problem_open(&p));
    check(&p, 0.003);
    assert_int_equal(test_bits(test_norm_at(&p, 0, 1)), 0);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(test_bits(test_norm_at(&p, 1, i)), 0);
    assert_int_equal(test_bits(head_norm(&p, 0, 0, 2)), 0);
    assert_true(test_norm_at(&p, 0, 2) > 0.0f);
    test_problem_close(&p);
}

static void test_nothing(void **state)
{
    (void)state;
    check_nothing(5);
    check_nothing(widths[0]);
    check_nothing(widths[1]);
}

/* With `grow` 1 the least norm there is, 2^-98, of one head in `group`: the last places
 * of both factors at their least, and sums that differ by 1.
 *   16385 * 65 - 16641 * 64 = 1, of 15 and 7 bits;  2049 * 513 - 2053 * 512 = 1, of 12 and 10. */
static void open_least(test_problem *p, int32_t hidden, int32_t group, float grow)
{
    start(p, 1, group, 1, 2, hidden);
    p->policy.pool = CKV_POOL_NONE; /* for the limit of large groups */
    test_problem_build(p);
    test_put(&p->tensor[TEST_VALUE], 0, 0, 0, (hidden < 1024 ? 2049.0f * 0x1p-50f : 16385.0f * 0x1p-53f) * grow);
    test_put(&p->tensor[TEST_VALUE], 0, 0, 1, (hidden < 1024 ? 2053.0f * 0x1p-50f : 16641.0f * 0x1p-53f) * grow);
    test_put(&p->tensor[TEST_WEIGHT], 0, 0, 0, hidden < 1024 ? 513.0f * 0x1p-48f : 65.0f * 0x1p-45f);
    test_put(&p->tensor[TEST_WEIGHT], 0, 0, 1, hidden < 1024 ? -512.0f * 0x1p-48f : -64.0f * 0x1p-45f);
    assert_ok(test_problem_open(p));
}

/* The group's mean is cut below 2^-100.  Of more than one output the others are zero,
 * so that the factor of the sum is 2^16 less, 2^-114 at the least. */
static void test_least(void **state)
{
    (void)state;
    const struct {
        int32_t hidden, group;
        float grow, want;
    } cases[] = {
        {1, 1, 1.0f, 0x1p-98f},
        {1, 2, 1.0f, 0x1p-99f},
        {1, 4, 1.0f, 0x1p-100f},
        {1, 5, 1.0f, 0.0f},
        {1, 8, 1.0f, 0.0f},
        {1, 8, 2.0f, 0x1p-100f},
        {1, 1 << 17, 0x1p8f, 0.0f},
        {1, 1 << 17, 0x1p15f, 0x1p-100f},
        {1023, 1, 1.0f, 0x1p-98f},
        {1023, 4, 1.0f, 0x1p-100f},
        {1023, 5, 1.0f, 0.0f},
        {1023, 256, 0x1p5f, 0.0f},
        {1023, 256, 0x1p6f, 0x1p-100f},
        {1024, 1, 1.0f, 0x1p-98f},
        {1024, 2, 1.0f, 0x1p-99f},
        {1024, 4, 1.0f, 0x1p-100f},
        {1024, 5, 1.0f, 0.0f},
        {1024, 8, 1.0f, 0.0f},
        {1024, 8, 2.0f, 0x1p-100f},
        {1024, 256, 0x1p5f, 0.0f},
        {1024, 256, 0x1p6f, 0x1p-100f},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_problem p;
        if (cases[c].group > 100 && test_light())
            continue;
        open_least(&p, cases[c].hidden, cases[c].group, cases[c].grow);
        check(&p, 0.0);
        assert_int_equal(test_bits(test_norm_at(&p, 0, 0)), test_bits(cases[c].want));
        test_problem_close(&p);
    }
}

/* The widest and largest numbers that are not refused: 32-bit sums hold.  `q` and `w`
 * are the greatest there are. */
static void check_greatest(int32_t hidden, float q, float w)
{
    test_problem p;
    int bits = weight_bits(hidden);
    start(&p, 1, 1, 2, 512, hidden);
    test_problem_build(&p);
    /* 4096 comes of rounding: a value of 2^40 itself is 2048 steps of twice that. */
    test_fill(&p.tensor[TEST_VALUE], ldexpf(bits == 7 ? q : q - 0.25f, 40 - (22 - bits)));
    test_fill(&p.tensor[TEST_WEIGHT], ldexpf(w, 40 - bits));
    assert_ok(test_problem_open(&p));
    assert_ok(test_norm(&p));
    double sum = 512.0 * (double)q * (double)w;
    assert_true(sum < 0x1p31);
    float want = ldexpf((float)(sum * hidden), 40 - (22 - bits) + 40 - bits);
    assert_int_equal(test_bits(test_norm_at(&p, 0, 0)), test_bits(want));
    test_fill(&p.tensor[TEST_VALUE], 0x1p127f); /* beyond 2^40 all are 2^40 */
    test_put_bits(&p.tensor[TEST_VALUE], 0, 1, 7, 0x7f800000u);
    assert_ok(test_norm(&p));
    want = ldexpf((float)(512.0 * (double)w * hidden), 40 + 40 - bits);
    assert_int_equal(test_bits(test_norm_at(&p, 0, 0)), test_bits(want));
    assert_int_equal(test_bits(test_norm_at(&p, 0, 1)), test_bits(want));
    assert_int_equal(p.run.flags, CKV_NONFINITE_VALUE);
    test_problem_close(&p);
}

static void test_greatest(void **state)
{
    (void)state;
    check_greatest(test_light() ? 64 : 1023, 4096.0f, 1023.0f);
    check_greatest(test_light() ? 1024 : 1 << 15, 32639.0f, 127.0f);
}

static void test_flags(void **state)
{
    (void)state;
    test_problem p;
    start(&p, 2, 1, 3, 2, 2);
    test_problem_build(&p);
    test_problem_randomize(&p, 40);
    test_put_bits(&p.tensor[TEST_WEIGHT], 0, 1, 3, 0x7fc00000u);
    assert_ok(test_problem_open(&p));
    check(&p, 0.0);
    assert_int_equal(p.run.flags, CKV_NONFINITE_WEIGHT);
    for (int64_t at = 0; at < 12; at++) {
        const uint32_t wrong[] = {0x7fc00000u, 0x7f800000u, 0xff800000u};
        uint32_t before = test_get_bits(&p.tensor[TEST_VALUE], at / 6, at / 2 % 3, at % 2);
        test_put_bits(&p.tensor[TEST_VALUE], at / 6, at / 2 % 3, at % 2, wrong[at % 3]);
        check(&p, 0.0);
        assert_int_equal(p.run.flags, CKV_NONFINITE_WEIGHT | CKV_NONFINITE_VALUE);
        test_put_bits(&p.tensor[TEST_VALUE], at / 6, at / 2 % 3, at % 2, before);
    }
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_rows),    cmocka_unit_test(test_hostile_rows),
        cmocka_unit_test(test_beyond_16_bits), cmocka_unit_test(test_outlier_output),
        cmocka_unit_test(test_mean_of_norms),  cmocka_unit_test(test_greatest_of_a_row),
        cmocka_unit_test(test_nothing),        cmocka_unit_test(test_least),
        cmocka_unit_test(test_greatest),       cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
