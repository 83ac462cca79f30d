/* SPDX-License-Identifier: Apache-2.0 */
/* Scoring by the reference: the exponential, the reciprocal, masks, pools, groups. */
#include "unit.h"

#include "numeric.h"

#include <math.h>
#include <stdlib.h>

#include "backends/ref/ref.h"

/* ---------------------------------------------------------------- exponential */

/* Error of ckv_ref_exp at x, in units of the last place of the true value. */
static double exp_error(float x)
{
    long double want = expl((long double)x);
    int e;
    frexpl(want, &e);
    return (double)(fabsl((long double)ckv_ref_exp(x) - want) / ldexpl(1.0L, e - 24));
}

/* Arguments at which other exponentials were seen to differ from machine to machine. */
static void test_exp_bits(void **state)
{
    (void)state;
    const struct {
        float x;
        uint32_t bits;
    } cases[] = {
        {-1e-3f, 0x3f7fbe7f},     {-1e-4f, 0x3f7ff972}, {-1e-5f, 0x3f7fff58},    {-1e-6f, 0x3f7fffef},
        {-1e-7f, 0x3f7ffffe},     {0.0f, 0x3f800000},   {-0.0f, 0x3f800000},     {-1.0f, 0x3ebc5ab2},
        {-7.773141f, 0x39dcaacb}, {-60.0f, 0x142d70c9}, {-0x1p-26f, 0x3f800000}, {-0x1p-24f, 0x3f7fffff},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t got = test_bits(ckv_ref_exp(cases[i].x));
        if (got != cases[i].bits)
            fail_msg("exp(%a) has bits %08x, wanted %08x", (double)cases[i].x, (unsigned)got, (unsigned)cases[i].bits);
        assert_true(exp_error(cases[i].x) <= 0.69);
    }
}

/* Bits of -2^-30 to -60 in steps; with `dense` steps of 1 around `centre`. */
static void sweep(uint32_t first, uint32_t last, uint32_t step, double *worst)
{
    float before = 2.0f;
    for (uint32_t u = first; u <= last; u += step) {
        float y = ckv_ref_exp(test_float(u));
        double error = exp_error(test_float(u));
        if (error > *worst)
            *worst = error;
        assert_true(y <= before);
        before = y;
    }
}

static void test_exp_error_and_order(void **state)
{
    (void)state;
    const uint32_t nearest = test_bits(-0x1p-30f), farthest = test_bits(-60.0f);
    const uint32_t around = test_light() ? 20 : 1500;
    double worst = 0.0;
    sweep(nearest, farthest, test_light() ? 100003 : 211, &worst);
    for (int n = 0; n <= 173; n++) { /* where the multiple of ln 2 changes, and where the rest is least */
        uint32_t u = test_bits((float)(-0.34657359027997264 * n));
        uint32_t first = u < nearest + around ? nearest : u - around,
                 last = u + around > farthest ? farthest : u + around;
        sweep(first, last, 1, &worst);
    }
    for (int e = -30; e <= 5; e++)
        sweep(test_bits(ldexpf(-1.0f, e)) - 5, test_bits(ldexpf(-1.0f, e)) + 5, 1, &worst);
    printf("# worst error %.4f ulp\n", worst);
    assert_true(worst <= 0.69);
    assert_true(worst > 0.5); /* the measure itself can tell */
}

/* ---------------------------------------------------------------- reciprocal */

/* A quotient of two 24-bit numbers that is rounded to a double rounds to the same float. */
static void check_inverse(int64_t denominator)
{
    float want = (float)(0x1p40 / (double)(float)denominator);
    assert_int_equal(test_bits(ckv_inverse(denominator)), test_bits(want));
}

static void test_inverse(void **state)
{
    (void)state;
    const int64_t one = INT64_C(1) << 40;
    test_random random = test_seed(11);
    assert_int_equal(test_bits(ckv_inverse(one)), test_bits(1.0f));
    assert_int_equal(test_bits(ckv_inverse(INT64_C(1) << 62)), test_bits(0x1p-22f));
    for (int64_t n = 1; n <= 5000; n++)
        check_inverse(n * one);
    for (int shift = 0; shift < 22; shift++)
        for (int64_t step = -40; step <= 40; step++) {
            check_inverse((one << shift) + llabs(step));
            check_inverse((one << (shift + 1)) + step);
            check_inverse((one << shift) + (one >> 23 << shift) * llabs(step));
        }
    for (int i = 0; i < (test_light() ? 10000 : 500000); i++)
        check_inverse(test_between(&random, one, one << test_between(&random, 1, 22)));
}

/* ---------------------------------------------------------------- masks */

static void open_flat(test_problem *p, int64_t tokens, int64_t queries, int32_t window)
{
    test_problem_init(p, 1, 1, tokens, queries, 4, 0, 0);
    p->policy.window = window;
    p->policy.pool = CKV_POOL_NONE;
    test_problem_build(p);
    test_fill(&p->tensor[TEST_KEY], 1.0f); /* queries stay 0: every visible key alike */
    assert_ok(test_problem_open(p));
    assert_ok(test_score(p));
}

/* The mask is aligned to the end of the keys: row j of w sees n - w + j + 1 of them. */
static void test_mask(void **state)
{
    (void)state;
    const struct {
        int64_t tokens, queries;
        int32_t window;
    } cases[] = {{4, 4, 2}, {8, 2, 2}, {8, 2, 32}, {100, 7, 5}, {33, 1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_problem p;
        double want = 0.0;
        open_flat(&p, cases[c].tokens, cases[c].queries, cases[c].window);
        int64_t n = p.info.tokens, w = p.info.window;
        for (int64_t j = 0; j < w; j++)
            want += 1.0 / (double)(n - w + j + 1) / (double)w;
        for (int64_t i = 0; i < n - w; i++)
            assert_true(fabs((double)test_attention(&p, 0, i) - want) <= want * 0x1p-22);
        for (int64_t i = n - w; i < n; i++)
            assert_int_equal(test_bits(test_attention(&p, 0, i)), 0);
        test_problem_close(&p);
    }
    test_problem p;
    open_flat(&p, 4, 4, 2);
    assert_true(fabs((double)test_attention(&p, 0, 0) - 7.0 / 24.0) < 1e-7); /* without a mask: 1/4 */
    assert_int_equal(test_bits(test_attention(&p, 0, 0)), test_bits(1.0f / 3.0f * 0.5f + 0.125f));
    test_problem_close(&p);
}

/* A window of all tokens leaves no prefix, so nothing receives attention. */
static void test_window_of_everything(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 8; n++) {
        test_problem p;
        test_problem_init(&p, 2, 2, n, 9, 3, 0, 0);
        test_problem_build(&p);
        test_problem_randomize(&p, (uint64_t)n);
        assert_ok(test_problem_open(&p));
        assert_ok(test_score(&p));
        for (int64_t i = 0; i < 2 * n; i++)
            assert_int_equal(test_bits(test_attention(&p, i / n, i % n)), 0);
        test_problem_close(&p);
    }
}

/* Query rows before the window count for nothing, not even for the flags. */
static void test_rows_before_the_window(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 1, 3, 40, 9, 5, 0, 0);
    p.policy.window = 4;
    test_problem_build(&p);
    test_problem_randomize(&p, 21);
    assert_ok(test_problem_open(&p));
    assert_ok(test_score(&p));
    uint64_t want = test_hash_attention(&p);
    for (int64_t h = 0; h < 3; h++)
        for (int64_t j = 0; j < 5; j++)
            for (int64_t c = 0; c < 5; c++)
                test_put_bits(&p.tensor[TEST_QUERY], h, j, c, 0x7fc00000u);
    assert_ok(test_score(&p));
    assert_int_equal(test_hash_attention(&p), want);
    assert_int_equal(p.run.flags, 0);
    test_put_bits(&p.tensor[TEST_QUERY], 2, 5, 4, 0x7f800000u);
    assert_ok(test_score(&p));
    assert_int_equal(p.run.flags, CKV_NONFINITE_QUERY);
    test_put_bits(&p.tensor[TEST_KEY], 0, 39, 4, 0xff800000u);
    assert_ok(test_score(&p));
    assert_int_equal(p.run.flags, CKV_NONFINITE_QUERY | CKV_NONFINITE_KEY);
    test_problem_close(&p);
}

/* ---------------------------------------------------------------- pools */

/* One query per head that looks at a key of its own: A_h is 1 at `peak[h]`, 0 elsewhere. */
static void open_peaks(test_problem *p, int32_t group, int64_t tokens, const int64_t *peak, ckv_pool pool,
                       int32_t width)
{
    test_problem_init(p, 1, group, tokens, 1, (int32_t)tokens, 0, 0);
    p->policy.scale = 1.0f;
    p->policy.pool = pool;
    p->policy.pool_width = width;
    test_problem_build(p);
    for (int64_t i = 0; i < tokens; i++)
        test_put(&p->tensor[TEST_KEY], 0, i, i, 1.0f);
    for (int32_t h = 0; h < group; h++)
        test_put(&p->tensor[TEST_QUERY], h, 0, peak[h], 100.0f);
    assert_ok(test_problem_open(p));
    assert_ok(test_score(p));
}

static void check_peaks(int32_t group, const int64_t *peak, ckv_pool pool, int32_t width, int64_t tokens,
                        const float *want)
{
    test_problem p;
    open_peaks(&p, group, tokens, peak, pool, width);
    for (int64_t i = 0; i < tokens - 1; i++)
        if (test_bits(test_attention(&p, 0, i)) != test_bits(want[i]))
            fail_msg("pool %d of width %d: attention[%d] is %g, wanted %g", (int)pool, (int)width, (int)i,
                     (double)test_attention(&p, 0, i), (double)want[i]);
    assert_int_equal(test_bits(test_attention(&p, 0, tokens - 1)), 0);
    test_problem_close(&p);
}

#define PEAKS(...) ((const int64_t[]){__VA_ARGS__})
#define WANT(...) ((const float[]){__VA_ARGS__})

static void test_pools(void **state)
{
    (void)state;
    /* Pooled first, averaged over the group then; the other order gives .5 .5 .5. */
    check_peaks(2, PEAKS(0, 2), CKV_POOL_MAX, 3, 4, WANT(0.5f, 1.0f, 0.5f));
    check_peaks(2, PEAKS(0, 2), CKV_POOL_NONE, 3, 4, WANT(0.5f, 0.0f, 0.5f));
    /* What lies outside the prefix counts as zero: the divisor is the width. */
    check_peaks(1, PEAKS(0), CKV_POOL_AVERAGE, 5, 7, WANT(0.2f, 0.2f, 0.2f, 0, 0, 0));
    check_peaks(1, PEAKS(5), CKV_POOL_AVERAGE, 5, 7, WANT(0, 0, 0, 0.2f, 0.2f, 0.2f));
    check_peaks(1, PEAKS(2), CKV_POOL_AVERAGE, 4, 7, WANT(0, 0.25f, 0.25f, 0.25f, 0.25f, 0));
    check_peaks(1, PEAKS(3), CKV_POOL_MAX, 3, 8, WANT(0, 0, 1, 1, 1, 0, 0));
    /* Even widths reach one further to the left: i - 2 to i + 1. */
    check_peaks(1, PEAKS(3), CKV_POOL_MAX, 4, 8, WANT(0, 0, 1, 1, 1, 1, 0));
    check_peaks(1, PEAKS(3), CKV_POOL_MAX, 2, 8, WANT(0, 0, 0, 1, 1, 0, 0));
    check_peaks(1, PEAKS(3), CKV_POOL_MAX, 1, 8, WANT(0, 0, 0, 1, 0, 0, 0));
    /* Wider than the prefix. */
    check_peaks(1, PEAKS(1), CKV_POOL_MAX, 99, 4, WANT(1, 1, 1));
    check_peaks(1, PEAKS(1), CKV_POOL_AVERAGE, 8, 4, WANT(0.125f, 0.125f, 0.125f));
    /* A pool does not look into the window. */
    check_peaks(1, PEAKS(3), CKV_POOL_MAX, 7, 4, WANT(0, 0, 0));
    check_peaks(1, PEAKS(3), CKV_POOL_AVERAGE, 7, 4, WANT(0, 0, 0));
}

/* ---------------------------------------------------------------- against doubles */

static double clean(double x)
{
    return isnan(x) || fabs(x) < 0x1p-39 ? 0.0 : x > 0x1p40 ? 0x1p40 : x < -0x1p40 ? -0x1p40 : x;
}

/* Spec 4 with exp, / and sums in doubles. */
static void score_in_doubles(const test_problem *p, double scale, double *attention)
{
    int64_t n = p->info.tokens, w = p->info.window, skip = p->shape.queries - w, prefix = n - w;
    int32_t group = p->shape.query_heads / p->shape.kv_heads, width = p->policy.pool_width;
    double *row = calloc((size_t)n, sizeof *row), *mean = calloc((size_t)n, sizeof *mean);
    assert_non_null(row);
    assert_non_null(mean);
    for (int64_t i = 0; i < n * p->shape.kv_heads; i++)
        attention[i] = 0.0;
    for (int64_t h = 0; h < p->shape.query_heads; h++) {
        double *out = attention + h / group * n;
        for (int64_t i = 0; i < n; i++)
            mean[i] = 0.0;
        for (int64_t j = 0; j < w; j++) {
            double top = -(double)INFINITY, sum = 0.0;
            for (int64_t i = 0; i <= prefix + j; i++) {
                row[i] = 0.0;
                for (int64_t c = 0; c < p->shape.head_dim; c++)
                    row[i] += clean(test_get(&p->tensor[TEST_QUERY], h, skip + j, c) * scale) *
                              clean(test_get(&p->tensor[TEST_KEY], h / group, i, c));
                top = fmax(top, row[i]);
            }
            for (int64_t i = 0; i <= prefix + j; i++)
                sum += row[i] = exp(row[i] - top);
            for (int64_t i = 0; i <= prefix + j; i++)
                mean[i] += row[i] / sum / (double)w;
        }
        for (int64_t i = 0; i < prefix; i++) {
            double pooled = p->policy.pool == CKV_POOL_NONE ? mean[i] : 0.0;
            for (int64_t o = 0; o < width; o++) {
                int64_t at = i - width / 2 + o;
                if (at < 0 || at >= prefix)
                    continue;
                if (p->policy.pool == CKV_POOL_MAX)
                    pooled = fmax(pooled, mean[at]);
                else if (p->policy.pool == CKV_POOL_AVERAGE)
                    pooled += mean[at] / width;
            }
            out[i] += pooled / group;
        }
    }
    free(row);
    free(mean);
}

static void check_against_doubles(test_problem *p, uint64_t seed)
{
    double *want;
    test_problem_build(p);
    test_problem_randomize(p, seed);
    assert_ok(test_problem_open(p));
    assert_ok(test_score(p));
    int64_t n = p->info.tokens;
    want = calloc((size_t)(n * p->shape.kv_heads), sizeof *want);
    assert_non_null(want);
    score_in_doubles(p, p->policy.scale == 0.0f ? 1.0 / sqrt((double)p->shape.head_dim) : (double)p->policy.scale,
                     want);
    for (int64_t i = 0; i < n * p->shape.kv_heads; i++) {
        double got = (double)test_attention(p, i / n, i % n);
        if (fabs(got - want[i]) > 1e-4 * want[i] + 1e-24)
            fail_msg("attention[%d] is %.9g, wanted %.9g", (int)i, got, want[i]);
    }
    assert_true(test_all_intact(p));
    free(want);
    test_problem_close(p);
}

static void test_sizes_groups_and_dtypes(void **state)
{
    (void)state;
    const int32_t widths[] = {1, 2, 59, 80, 96, 192};
    const int32_t groups[] = {1, 2, 3, 5, 7, 8};
    const ckv_dtype dtypes[] = {CKV_F32, CKV_F16, CKV_BF16};
    test_problem p;
    for (int i = 0; i < 6; i++)
        for (int t = 0; t < 3; t++) {
            test_problem_init(&p, 2, groups[(i + t) % 6], 7 + 11 * i, 5, widths[i], 0, 0);
            p.dtype[TEST_QUERY] = dtypes[t];
            p.dtype[TEST_KEY] = dtypes[(t + i) % 3];
            p.policy.window = 1 + 2 * t;
            p.policy.pool = (ckv_pool)((i + t) % 3);
            p.policy.pool_width = 3 + i;
            check_against_doubles(&p, (uint64_t)(100 + 10 * i + t));
        }
    test_problem_init(&p, 1, 4, 70, 40, 16, 0, 0);
    p.low[TEST_QUERY] = p.low[TEST_KEY] = -2;
    p.high[TEST_QUERY] = p.high[TEST_KEY] = 3; /* peaked */
    check_against_doubles(&p, 5);
    test_problem_init(&p, 1, 1, 30, 3, 4, 0, 0);
    p.policy.scale = 3.0f;
    check_against_doubles(&p, 6);
}

/* Logits that 16 bits cannot hold stay finite. */
static void test_large_logits(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 1, 1, 20, 2, 128, 0, 0);
    p.dtype[TEST_QUERY] = p.dtype[TEST_KEY] = CKV_F16;
    p.policy.window = 2;
    p.policy.pool = CKV_POOL_NONE;
    test_problem_build(&p);
    test_fill(&p.tensor[TEST_QUERY], 256.0f);
    test_fill(&p.tensor[TEST_KEY], 256.0f); /* logit 741455 */
    assert_ok(test_problem_open(&p));
    assert_ok(test_score(&p));
    for (int64_t i = 0; i < 18; i++)
        assert_true(fabs((double)test_attention(&p, 0, i) - (1.0 / 19 + 1.0 / 20) / 2) < 1e-8);
    assert_int_equal(p.run.flags, 0);
    test_problem_close(&p);
}

/* ---------------------------------------------------------------- exact steps */

/* n logits, given as keys, of one query of 1; attention of the prefix is e * r. */
static void open_logits(test_problem *p, const float *keys, int64_t tokens)
{
    test_problem_init(p, 1, 1, tokens, 1, 1, 0, 0);
    p->policy.scale = 1.0f;
    p->policy.pool = CKV_POOL_NONE;
    test_problem_build(p);
    test_put(&p->tensor[TEST_QUERY], 0, 0, 0, 1.0f);
    for (int64_t i = 0; i < tokens; i++)
        test_put(&p->tensor[TEST_KEY], 0, i, 0, keys[i]);
    assert_ok(test_problem_open(p));
    assert_ok(test_score(p));
}

/* Below -60 nothing is left, at -60 something is. */
static void test_cut_of_weights(void **state)
{
    (void)state;
    const float past = nextafterf(-60.0f, -100.0f);
    const float keys[] = {0.0f, -60.0f, past, -61.0f, -0x1p40f, -0x1p-39f, -60.0f};
    test_problem p;
    open_logits(&p, keys, 7);
    float r = ckv_inverse((INT64_C(1) << 40) * 2); /* the two keys at 0; exp(-60) * 2^40 rounds to 0 */
    assert_int_equal(test_bits(test_attention(&p, 0, 0)), test_bits(r));
    assert_int_equal(test_bits(test_attention(&p, 0, 1)), test_bits(ckv_ref_exp(-60.0f) * r));
    assert_int_equal(test_bits(test_attention(&p, 0, 2)), 0);
    assert_int_equal(test_bits(test_attention(&p, 0, 3)), 0);
    assert_int_equal(test_bits(test_attention(&p, 0, 4)), 0);
    assert_int_equal(test_bits(test_attention(&p, 0, 5)), test_bits(r)); /* -2^-39 is closer than 2^-26 */
    test_problem_close(&p);
}

/* Weights are counted to 2^-40, ties to even, before the reciprocal. */
static void test_denominator(void **state)
{
    (void)state;
    float keys[12];
    double sum = 0.0;
    test_problem p;
    for (int i = 0; i < 12; i++) {
        keys[i] = -(float)i * 2.25f;
        sum += nearbyint(ldexp((double)ckv_ref_exp(keys[i]), 40));
    }
    open_logits(&p, keys, 12);
    float r = (float)(0x1p40 / (double)(float)sum);
    for (int i = 0; i < 11; i++)
        assert_int_equal(test_bits(test_attention(&p, 0, i)), test_bits(ckv_ref_exp(keys[i]) * r));
    test_problem_close(&p);
}

/* Logits are fused: (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which exp can tell from 0. */
static void test_fused_logits(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 1, 1, 3, 1, 2, 0, 0);
    p.policy.scale = 1.0f;
    p.policy.pool = CKV_POOL_NONE;
    test_problem_build(&p);
    test_put(&p.tensor[TEST_QUERY], 0, 0, 0, 1.0f);
    test_put(&p.tensor[TEST_QUERY], 0, 0, 1, 1.0f + 0x1p-12f);
    test_put(&p.tensor[TEST_KEY], 0, 0, 0, -1.0f - 0x1p-11f);
    test_put(&p.tensor[TEST_KEY], 0, 0, 1, 1.0f + 0x1p-12f);
    assert_ok(test_problem_open(&p));
    assert_ok(test_score(&p));
    assert_true(test_attention(&p, 0, 0) > test_attention(&p, 0, 1));
    test_problem_close(&p);
}

/* The compiler keeps what is written apart apart. */
static void test_no_contraction(void **state)
{
    (void)state;
    volatile float a = 1.0f + 0x1p-12f, c = -1.0f - 0x1p-11f;
    volatile float terms[] = {1e8f, 1.0f, -1e8f, 1.0f};
    float x = a, y = c, sum = 0.0f;
    assert_true(x * x + y == 0.0f);
    for (int i = 0; i < 4; i++)
        sum += terms[i];
    assert_true(sum == 1.0f);
}

/* Sanitising comes after the scale: 2^39 * 4 is cut to 2^40, 2^-40 * 4 is not zero. */
static void test_scaled_queries(void **state)
{
    (void)state;
    test_problem p;
    test_problem_init(&p, 1, 1, 3, 1, 1, 0, 0);
    p.policy.scale = 4.0f;
    p.policy.pool = CKV_POOL_NONE;
    test_problem_build(&p);
    test_put(&p.tensor[TEST_QUERY], 0, 0, 0, 0x1p-40f);
    test_put(&p.tensor[TEST_KEY], 0, 1, 0, -0x1p38f); /* logit -1 */
    assert_ok(test_problem_open(&p));
    assert_ok(test_score(&p));
    assert_int_equal(test_bits(test_attention(&p, 0, 1)), test_bits(ckv_ref_exp(-1.0f) * test_attention(&p, 0, 0)));
    test_put(&p.tensor[TEST_QUERY], 0, 0, 0, 0x1p39f);
    test_put(&p.tensor[TEST_KEY], 0, 1, 0, -0x1p-39f); /* cut: logit -2; else -4 */
    assert_ok(test_score(&p));
    assert_int_equal(test_bits(test_attention(&p, 0, 1)), test_bits(ckv_ref_exp(-2.0f) * test_attention(&p, 0, 0)));
    const uint32_t odd[] = {0x7fc00000u, 0x7f800001u, 0x00000001u, 0x807fffffu};
    for (int i = 0; i < 4; i++) { /* NaN and subnormals: +0 */
        test_put_bits(&p.tensor[TEST_QUERY], 0, 0, 0, odd[i]);
        assert_ok(test_score(&p));
        assert_int_equal(test_bits(test_attention(&p, 0, 1)), test_bits(test_attention(&p, 0, 0)));
        assert_int_equal(p.run.flags, i < 2 ? CKV_NONFINITE_QUERY : 0);
    }
    test_put_bits(&p.tensor[TEST_QUERY], 0, 0, 0, 0x7f800000u); /* infinity: 2^40 */
    assert_ok(test_score(&p));
    assert_int_equal(test_bits(test_attention(&p, 0, 1)), test_bits(ckv_ref_exp(-2.0f) * test_attention(&p, 0, 0)));
    test_problem_close(&p);
}

/* Keys are cut on their own: NaN and below 2^-39 to 0, beyond 2^40 to 2^40. */
static void test_cut_keys(void **state)
{
    (void)state;
    const struct {
        uint32_t key;
        float logit, query;
    } cases[] = {{0x7fc00000u, 0.0f, 1.0f},      {0xffc00000u, 0.0f, 1.0f},      {0x00000001u, 0.0f, 0x1p40f},
                 {0xab800000u, 0.0f, 0x1p40f},   {0xabffffffu, 0.0f, 0x1p40f},   {0xac000000u, -2.0f, 0x1p40f},
                 {0xd3800000u, -2.0f, 0x1p-39f}, {0xd3800001u, -2.0f, 0x1p-39f}, {0xff7fffffu, -2.0f, 0x1p-39f},
                 {0xff800000u, -2.0f, 0x1p-39f}};
    test_problem p;
    test_problem_init(&p, 1, 1, 3, 1, 1, 0, 0);
    p.policy.scale = 1.0f;
    p.policy.pool = CKV_POOL_NONE;
    test_problem_build(&p);
    assert_ok(test_problem_open(&p));
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_put(&p.tensor[TEST_QUERY], 0, 0, 0, cases[c].query);
        test_put_bits(&p.tensor[TEST_KEY], 0, 1, 0, cases[c].key);
        assert_ok(test_score(&p));
        assert_int_equal(test_bits(test_attention(&p, 0, 1)),
                         test_bits(ckv_ref_exp(cases[c].logit) * test_attention(&p, 0, 0)));
    }
    test_problem_close(&p);
}

/* The longest prompt; the shortest weights that it can give are normal numbers. */
static void test_longest(void **state)
{
    (void)state;
    test_problem p;
    if (test_light())
        skip_because("CKV_TEST_LIGHT");
    test_problem_init(&p, 1, 1, 1 << 22, 1, 1, 0, 0);
    p.policy.scale = 1.0f;
    p.policy.pool = CKV_POOL_NONE;
    test_problem_build(&p);
    test_put(&p.tensor[TEST_QUERY], 0, 0, 0, 1.0f);
    test_put(&p.tensor[TEST_KEY], 0, 5, 0, -60.0f);
    assert_ok(test_problem_open(&p));
    assert_ok(test_score(&p));
    float inverse = ckv_inverse(((INT64_C(1) << 22) - 1) << 40);
    assert_int_equal(test_bits(test_attention(&p, 0, 0)), test_bits(inverse));
    assert_int_equal(test_bits(test_attention(&p, 0, 5)), test_bits(ckv_ref_exp(-60.0f) * inverse));
    test_problem_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_bits),
        cmocka_unit_test(test_exp_error_and_order),
        cmocka_unit_test(test_inverse),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_window_of_everything),
        cmocka_unit_test(test_rows_before_the_window),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_sizes_groups_and_dtypes),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_cut_of_weights),
        cmocka_unit_test(test_denominator),
        cmocka_unit_test(test_fused_logits),
        cmocka_unit_test(test_no_contraction),
        cmocka_unit_test(test_scaled_queries),
        cmocka_unit_test(test_cut_keys),
        cmocka_unit_test(test_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
