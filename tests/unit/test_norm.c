/* SPDX-License-Identifier: Apache-2.0 */
/* Row norms by the reference, against spec 5.2 to 5.4 written in doubles. */
#include "unit.h"

#include <math.h>

#include "projection.h"

#define NONE (-100000)

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
    int32_t dim = w->value_dim, top = NONE;
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
            q[k] = dropped ? 0.0 : nearbyint(ldexp(value(p, g, i, k), 15 - top + w->exponents[h * dim + k]));
            greatest = fmax(greatest, fabs(q[k]));
        }
        if (greatest <= 32639.0)
            break;
    }
    for (int32_t j = 0; j < w->hidden; j++) {
        double t = 0.0;
        for (int32_t k = 0; k < dim; k++)
            t += q[k] * w->weights[(h * dim + k) * w->hidden + j];
        sum += ldexp(fabs(t), w->shifts[h * w->hidden + j]); /* exact: below 2^53 in these tests */
    }
    assert_true(sum < 0x1p53);
    float norm = ldexpf((float)sum, top - 15 + w->bases[h]);
    return norm < 0x1p-100f ? 0.0f : norm;
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
    for (int i = 0; i < 5; i++)
        for (int t = 0; t < 3; t++) {
            test_problem p;
            start(&p, 2, groups[(i + t) % 5], 9, dims[i], 7 + 13 * i);
            p.dtype[TEST_VALUE] = dtypes[t];
            p.dtype[TEST_WEIGHT] = dtypes[(t + i) % 3];
            p.layout[TEST_VALUE] = (test_layout)((i + t) % TEST_LAYOUTS);
            p.low[TEST_VALUE] = -5;
            test_problem_build(&p);
            test_problem_randomize(&p, (uint64_t)(10 * i + t));
            assert_ok(test_problem_open(&p));
            check(&p, 0.02);
            test_problem_close(&p);
        }
}

/* Ranges from one edge of what is not cut to the other. */
static void test_hostile_rows(void **state)
{
    (void)state;
    const int ranges[][2] = {{-126, 127}, {-39, -38}, {39, 40}, {-45, -33}, {-39, 40}, {-20, 20}};
    for (int v = 0; v < 6; v++)
        for (int w = 0; w < 6; w++) {
            test_problem p;
            start(&p, 1, 2, 12, 4, 5);
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
    for (int t = 0; t < 3; t++) {
        test_problem p;
        start(&p, 1, 1, 3, 64, 4096);
        p.dtype[TEST_VALUE] = p.dtype[TEST_WEIGHT] = dtypes[t];
        test_problem_build(&p);
        test_fill(&p.tensor[TEST_VALUE], 1.0f);
        test_fill(&p.tensor[TEST_WEIGHT], 0.25f);
        assert_ok(test_problem_open(&p));
        assert_ok(test_norm(&p));
        for (int64_t i = 0; i < 3; i++)
            assert_true(test_norm_at(&p, 0, i) == 65536.0f);
        assert_int_equal(p.run.flags, 0);
        test_problem_close(&p);
    }
}

/* A mean of norms: heads whose projections cancel do not give 0. */
static void test_mean_of_norms(void **state)
{
    (void)state;
    test_problem p;
    test_random random = test_seed(31);
    start(&p, 1, 2, 4, 6, 5);
    test_problem_build(&p);
    test_randomize(&p.tensor[TEST_VALUE], &random, -2, 1);
    for (int64_t j = 0; j < 5; j++)
        for (int64_t k = 0; k < 6; k++) {
            uint32_t bits = test_element(&random, CKV_F32, -2, 0);
            test_put_bits(&p.tensor[TEST_WEIGHT], 0, j, k, bits);
            test_put_bits(&p.tensor[TEST_WEIGHT], 0, j, 6 + k, bits ^ 0x80000000u);
        }
    assert_ok(test_problem_open(&p));
    check(&p, 0.02);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(test_bits(test_norm_at(&p, 0, i)), test_bits(head_norm(&p, 0, 0, i)));
    test_problem_close(&p);
}

/* 32639 is the greatest that is kept; from 32640 on the row takes one exponent more. */
static void test_greatest_of_a_row(void **state)
{
    (void)state;
    const struct {
        float top;
        int32_t q[2]; /* of the top and of 1/32768 */
        int exponent;
    } cases[] = {{32639.0f, {32639, 1}, 0},  {32639.49f, {32639, 1}, 0}, {32639.5f, {16320, 0}, 1},
                 {32640.0f, {16320, 0}, 1},  {32767.9f, {16384, 0}, 1},  {-32639.0f, {-32639, 1}, 0},
                 {-32640.0f, {-16320, 0}, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_problem p;
        start(&p, 1, 1, 1, 2, 2);
        test_problem_build(&p);
        test_put(&p.tensor[TEST_VALUE], 0, 0, 0, cases[c].top / 32768.0f);
        test_put(&p.tensor[TEST_VALUE], 0, 0, 1, 1.0f / 32768.0f);
        test_put(&p.tensor[TEST_WEIGHT], 0, 0, 0, 0.5f);
        test_put(&p.tensor[TEST_WEIGHT], 0, 1, 1, 0.5f);
        assert_ok(test_problem_open(&p));
        check(&p, 0.0);
        double want = (fabs((double)cases[c].q[0]) + cases[c].q[1]) * ldexp(0.5, cases[c].exponent - 15);
        assert_true((double)test_norm_at(&p, 0, 0) == want);
        test_problem_close(&p);
    }
}

static void test_nothing(void **state)
{
    (void)state;
    test_problem p;
    test_random random = test_seed(33);
    start(&p, 2, 2, 4, 3, 5);
    test_problem_build(&p);
    test_problem_randomize(&p, 33);
    for (int64_t k = 0; k < 3; k++) {
        test_put(&p.tensor[TEST_VALUE], 0, 1, k, k == 0 ? 0x1p-40f : -0.0f);
        for (int64_t j = 0; j < 5; j++) {
            test_put(&p.tensor[TEST_WEIGHT], 0, j, 2 * 3 + k, 0.0f); /* query heads 2 and 3: all zero */
            test_put(&p.tensor[TEST_WEIGHT], 0, j, 3 * 3 + k, 0.0f);
        }
    }
    for (int64_t j = 0; j < 5; j++)
        test_put(&p.tensor[TEST_WEIGHT], 0, j, 0, 0.0f); /* head 0 drops channel 0 */
    test_put(&p.tensor[TEST_VALUE], 0, 2, 1, 0.0f);
    test_put(&p.tensor[TEST_VALUE], 0, 2, 2, 0.0f); /* row 2: only what head 0 drops */
    test_put_bits(&p.tensor[TEST_VALUE], 0, 2, 0, test_element(&random, CKV_F32, 3, 5));
    assert_ok(test_problem_open(&p));
    check(&p, 0.02);
    assert_int_equal(test_bits(test_norm_at(&p, 0, 1)), 0);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(test_bits(test_norm_at(&p, 1, i)), 0);
    assert_int_equal(test_bits(head_norm(&p, 0, 0, 2)), 0);
    assert_true(test_norm_at(&p, 0, 2) > 0.0f);
    test_problem_close(&p);
}

/* 16385 * 65 - 16641 * 64 = 1: with `grow` 1 the least norm there is, 2^-98, of one head in `group`. */
static void open_least(test_problem *p, int32_t group, float grow)
{
    start(p, 1, group, 1, 2, 1);
    p->policy.pool = CKV_POOL_NONE; /* for the limit of large groups */
    test_problem_build(p);
    test_put(&p->tensor[TEST_VALUE], 0, 0, 0, 16385.0f * 0x1p-53f * grow);
    test_put(&p->tensor[TEST_VALUE], 0, 0, 1, 16641.0f * 0x1p-53f * grow);
    test_put(&p->tensor[TEST_WEIGHT], 0, 0, 0, 65.0f * 0x1p-45f);
    test_put(&p->tensor[TEST_WEIGHT], 0, 0, 1, -64.0f * 0x1p-45f);
    assert_ok(test_problem_open(p));
}

/* The group's mean is cut below 2^-100. */
static void test_least(void **state)
{
    (void)state;
    const struct {
        int32_t group;
        float grow, want;
    } cases[] = {{1, 1.0f, 0x1p-98f}, {2, 1.0f, 0x1p-99f},  {4, 1.0f, 0x1p-100f},    {5, 1.0f, 0.0f},
                 {8, 1.0f, 0.0f},     {8, 2.0f, 0x1p-100f}, {1 << 17, 0x1p8f, 0.0f}, {1 << 17, 0x1p15f, 0x1p-100f}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_problem p;
        if (cases[c].group > 100 && test_light())
            continue;
        open_least(&p, cases[c].group, cases[c].grow);
        check(&p, 0.0);
        assert_int_equal(test_bits(test_norm_at(&p, 0, 0)), test_bits(cases[c].want));
        test_problem_close(&p);
    }
}

/* The widest and largest numbers that are not refused: 32-bit sums hold. */
static void test_greatest(void **state)
{
    (void)state;
    test_problem p;
    int32_t hidden = test_light() ? 64 : 1 << 15;
    start(&p, 1, 1, 2, 512, hidden);
    test_problem_build(&p);
    test_fill(&p.tensor[TEST_VALUE], 32639.0f / 32768.0f * 0x1p40f);
    test_fill(&p.tensor[TEST_WEIGHT], 127.0f / 128.0f * 0x1p40f);
    assert_ok(test_problem_open(&p));
    assert_ok(test_norm(&p));
    float want = (float)(512.0 * 32639.0 * 127.0) * (float)hidden;
    want = ldexpf(want, 25 + 33); /* (2^40 / 2^15) * (2^40 / 2^7) */
    assert_int_equal(test_bits(test_norm_at(&p, 0, 0)), test_bits(want));
    test_fill(&p.tensor[TEST_VALUE], 0x1p127f); /* beyond 2^40 all are 2^40 */
    test_put_bits(&p.tensor[TEST_VALUE], 0, 1, 7, 0x7f800000u);
    assert_ok(test_norm(&p));
    assert_int_equal(test_bits(test_norm_at(&p, 0, 0)), test_bits(test_norm_at(&p, 0, 1)));
    assert_int_equal(p.run.flags, CKV_NONFINITE_VALUE);
    test_problem_close(&p);
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
        cmocka_unit_test(test_random_rows),
        cmocka_unit_test(test_hostile_rows),
        cmocka_unit_test(test_beyond_16_bits),
        cmocka_unit_test(test_mean_of_norms),
        cmocka_unit_test(test_greatest_of_a_row),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_greatest),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
