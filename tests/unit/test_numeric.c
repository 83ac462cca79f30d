/* SPDX-License-Identifier: Apache-2.0 */
/* The number helpers, each against a statement of the same in other terms. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#include "numeric.h"

static void test_f16(void **state)
{
    (void)state;
    test_tensor one;
    test_tensor_new(&one, CKV_F16, 3, 1, 1, 1, TEST_DENSE);
    for (uint32_t h = 0; h <= 0xffff; h++) {
        uint16_t half = (uint16_t)h;
        uint32_t bits = ckv_load_bits(&half, CKV_F16);
        test_put_bits(&one, 0, 0, 0, h);
        double want = test_get(&one, 0, 0, 0); /* by the format's definition */
        assert_int_equal(bits >> 31, h >> 15);
        if (isnan(want)) {
            assert_true(ckv_is_nan_bits(bits));
            assert_int_equal(bits & 0x7fffffu, (h & 0x3ffu) << 13);
        } else {
            assert_true((double)ckv_float(bits) == want);
            assert_int_equal(bits, ckv_f16_to_f32_bits(half));
        }
    }
    test_tensor_free(&one);
}

static void test_bf16_and_f32(void **state)
{
    (void)state;
    unsigned char bytes[8] = {0};
    for (uint32_t h = 0; h <= 0xffff; h++) {
        uint16_t half = (uint16_t)h;
        memcpy(bytes + 1, &half, sizeof half);
        assert_int_equal(ckv_load_bits(bytes + 1, CKV_BF16), h << 16);
    }
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t u = i * 65537u + 12345u;
        memcpy(bytes + 3, &u, sizeof u);
        assert_int_equal(ckv_load_bits(bytes + 3, CKV_F32), u);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    const struct {
        uint32_t bits;
        int nan, nonfinite;
    } cases[] = {
        {0, 0, 0},           {0x80000000u, 0, 0}, {1, 0, 0},           {0x7f7fffffu, 0, 0},
        {0xff7fffffu, 0, 0}, {0x7f800000u, 0, 1}, {0xff800000u, 0, 1}, {0x7f800001u, 1, 1},
        {0xff800001u, 1, 1}, {0x7fc00000u, 1, 1}, {0xffffffffu, 1, 1}, {0x7fffffffu, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(!!ckv_is_nan_bits(cases[i].bits), cases[i].nan);
        assert_int_equal(!!ckv_is_nonfinite_bits(cases[i].bits), cases[i].nonfinite);
    }
}

/* Spec 3.1 in doubles. */
static double sanitised(float x)
{
    if (isnan(x))
        return 0.0;
    if (fabs((double)x) > 0x1p40)
        return x < 0.0f ? -0x1p40 : 0x1p40;
    return fabs((double)x) < 0x1p-39 ? 0.0 : (double)x;
}

static void check_sanitised(uint32_t bits)
{
    uint32_t got = ckv_sanitize_bits(bits);
    assert_true((double)test_float(got) == sanitised(test_float(bits)));
    assert_int_not_equal(got, CKV_SIGN_BIT); /* a zero is +0 */
    assert_int_equal(ckv_bits(ckv_sanitize(test_float(got))), got);
}

static void test_sanitize(void **state)
{
    (void)state;
    const uint32_t edges[] = {0,           1,           0x007fffffu, 0x00800000u, CKV_BOTTOM_BITS, CKV_TOP_BITS,
                              0x3f800000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u,     0x7fffffffu,
                              0x7fa12345u};
    assert_int_equal(ckv_bits(0x1p-39f), CKV_BOTTOM_BITS);
    assert_int_equal(ckv_bits(0x1p40f), CKV_TOP_BITS);
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        for (int step = -3; step <= 3; step++)
            for (uint32_t sign = 0; sign <= 1; sign++)
                check_sanitised(((edges[i] + (uint32_t)step) & 0x7fffffffu) | sign << 31);
    uint32_t stride = test_light() ? 99991u : 4093u;
    for (uint64_t u = 0; u <= UINT32_MAX; u += stride)
        check_sanitised((uint32_t)u);
    assert_int_equal(ckv_sanitize_bits(CKV_BOTTOM_BITS), CKV_BOTTOM_BITS);
    assert_int_equal(ckv_sanitize_bits(CKV_BOTTOM_BITS - 1), 0);
    assert_int_equal(ckv_sanitize_bits(CKV_TOP_BITS + 1), CKV_TOP_BITS);
    assert_int_equal(ckv_sanitize_bits(0xff800000u), CKV_TOP_BITS | CKV_SIGN_BIT);
}

static void test_exponent_and_scale(void **state)
{
    (void)state;
    test_random random = test_seed(1);
    for (int i = 0; i < 200000; i++) {
        float x = test_float(test_element(&random, CKV_F32, -60, 60));
        int e, by = (int)test_between(&random, -60, 60);
        frexpf(x, &e);
        assert_int_equal(ckv_exponent(x), e);
        assert_int_equal(ckv_bits(ckv_scale(x, by)), ckv_bits(ldexpf(x, by)));
    }
    assert_int_equal(ckv_bits(ckv_scale(0.0f, 50)), 0);
    assert_int_equal(ckv_bits(ckv_scale(-0.0f, -50)), CKV_SIGN_BIT);
    assert_int_equal(ckv_exponent(1.0f), 1);
    assert_int_equal(ckv_exponent(nextafterf(1.0f, 0.0f)), 0);
}

/* x * 2^e is exact in a double, and llrint rounds it as asked. */
static void check_rne(float x, int e)
{
    assert_int_equal(ckv_rne(x, e), llrint(ldexp((double)x, e)));
}

static void test_rne(void **state)
{
    (void)state;
    const float halves[] = {0.5f,     1.5f,       2.5f,       3.5f,  126.5f, 127.5f,
                            32639.5f, 8388606.5f, 4194303.5f, 0.25f, 0.75f,  1.0f};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        for (int e = -30; e <= 30; e++)
            for (int step = -2; step <= 2; step++) {
                float x = test_float(test_bits(halves[i]) + (uint32_t)step);
                check_rne(x, e);
                check_rne(-x, e);
            }
    test_random random = test_seed(2);
    for (int i = 0; i < (test_light() ? 20000 : 1000000); i++) {
        float x = test_float(test_element(&random, CKV_F32, -126, 60));
        int exponent;
        frexpf(x, &exponent);
        check_rne(x, (int)test_between(&random, -30, 61) - exponent);
        check_rne(x, (int)test_between(&random, -3, 26) - exponent);
    }
    assert_int_equal(ckv_rne(0.0f, 40), 0);
    assert_int_equal(ckv_rne(-0.0f, 40), 0);
    assert_int_equal(ckv_rne(1.0f, 40), INT64_C(1) << 40);
    assert_int_equal(ckv_rne(test_float(0x3f7fffffu), 62), INT64_C(0xffffff) << 38);
    assert_int_equal(ckv_rne(0x1p-126f, -1000), 0);
    /* Half to even on both sides. */
    assert_int_equal(ckv_rne(0.5f, 0), 0);
    assert_int_equal(ckv_rne(1.5f, 0), 2);
    assert_int_equal(ckv_rne(-2.5f, 0), -2);
    assert_int_equal(ckv_rne(-3.5f, 0), -4);
}

/* -1, 0, 1 as a ranks below, with, above b. */
static int compare(float a, float b)
{
    if (isnan(a) || isnan(b))
        return !!isnan(b) - !!isnan(a);
    return (a > b) - (a < b);
}

static void test_rank(void **state)
{
    (void)state;
    const uint32_t special[] = {0,           0x80000000u, 1,           0x80000001u, 0x00800000u, 0x80800000u,
                                0x3f800000u, 0xbf800000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u,
                                0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu, 0x007fffffu, 0x807fffffu};
    const size_t count = sizeof special / sizeof special[0];
    test_random random = test_seed(3);
    for (int i = 0; i < 200000; i++) {
        uint32_t a = special[(size_t)test_between(&random, 0, (int64_t)count - 1)];
        uint32_t b = (uint32_t)(test_next(&random) >> 32);
        if (i < (int)(count * count)) {
            a = special[(size_t)i / count];
            b = special[(size_t)i % count];
        }
        uint32_t x = ckv_rank_bits(a), y = ckv_rank_bits(b);
        assert_int_equal((x > y) - (x < y), compare(test_float(a), test_float(b)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),      cmocka_unit_test(test_bf16_and_f32),       cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_sanitize), cmocka_unit_test(test_exponent_and_scale), cmocka_unit_test(test_rne),
        cmocka_unit_test(test_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
