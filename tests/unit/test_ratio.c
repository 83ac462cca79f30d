/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ratios: reading decimals, and shares of a count. */
#include "unit.h"

#include "policy.h"

#define LIMIT ((int64_t)1 << 40)

static void test_parses(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t numerator, denominator;
    } cases[] = {
        {"0", 0, 1},
        {"1", 1, 1},
        {"0.4", 2, 5},
        {".25", 1, 4},
        {"0.93", 93, 100},
        {"0.07", 7, 100},
        {"1.", 1, 1},
        {"0.0", 0, 1},
        {".0", 0, 1},
        {"007.50", 15, 2},
        {"1.0000000000000000000000000000", 1, 1},
        {"0.500000000000000000000000", 1, 2},
        {"0.000000000001", 1, 1000000000000},
        {"0.999999999999", 999999999999, 1000000000000},
        {"0.3333333333330", 333333333333, 1000000000000},
        {"1099511627776", LIMIT, 1},
        {"1.05", 21, 20},
        {"10", 10, 1},
        {"00000000000000000000000000001", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_ratio ratio = {-1, -1};
        assert_ok(ckv_ratio_parse(cases[i].text, &ratio));
        assert_int_equal(ratio.numerator, cases[i].numerator);
        assert_int_equal(ratio.denominator, cases[i].denominator);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    const char *const wrong[] = {
        "",
        ".",
        "..",
        "1..",
        ".1.",
        "1.2.3",
        "-1",
        "-0",
        "+1",
        " 1",
        "1 ",
        "1e5",
        "0x1",
        "1,5",
        "nan",
        "inf",
        "1/2",
        "0.4f",
        "0.0000000000001",
        "1099511627777",
        "99999999999999999999999999",
        "0.1234567890123",
        "\xef\xbc\x91",
        "1.0a0",
        ".a",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ckv_ratio ratio = {-7, -8};
        if (ckv_ratio_parse(wrong[i], &ratio) != CKV_ERROR_INVALID_ARGUMENT)
            fail_msg("\"%s\" passed", wrong[i]);
        assert_true(strstr(ckv_error_detail(), "wanted") != NULL);
        assert_int_equal(ratio.numerator, -7);
        assert_int_equal(ratio.denominator, -8);
    }
    ckv_ratio ratio = {-7, -8};
    assert_fails(ckv_ratio_parse(NULL, &ratio), CKV_ERROR_INVALID_ARGUMENT, "text: NULL");
    assert_fails(ckv_ratio_parse("1", NULL), CKV_ERROR_INVALID_ARGUMENT, "ratio: NULL");
}

static void test_check(void **state)
{
    (void)state;
    const ckv_ratio good[] = {{0, 1}, {1, 1}, {LIMIT, LIMIT}, {0, LIMIT}, {2, 4}};
    const ckv_ratio wrong[] = {{0, 0},
                               {1, 0},
                               {-1, 2},
                               {1, -2},
                               {-1, -2},
                               {2, 1},
                               {1, LIMIT + 1},
                               {LIMIT + 1, LIMIT + 1},
                               {INT64_MIN, 1},
                               {1, INT64_MIN},
                               {INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_ok(ckv_ratio_check("keep", &good[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(ckv_ratio_check("keep", &wrong[i]), CKV_ERROR_INVALID_ARGUMENT, "keep: ");
}

static int64_t share(int64_t count, int64_t numerator, int64_t denominator)
{
    const ckv_ratio ratio = {numerator, denominator};
    return ckv_ratio_share(count, &ratio);
}

/* floor(count * p/q) by the definition: the greatest s with s * q <= count * p. */
static void test_shares(void **state)
{
    (void)state;
    assert_int_equal(share(500, 93, 100), 465);
    assert_int_equal(share(10, 1, 10), 1);
    assert_int_equal(share(3, 1, 2), 1);
    assert_int_equal(share(1, 1, 2), 1);
    assert_int_equal(share(2, 2, 5), 1);
    assert_int_equal(share(9, 1, 10), 1);
    assert_int_equal(share(10, 0, 1), 0);
    assert_int_equal(share(0, 1, 1), 0);
    assert_int_equal(share(0, 1, 2), 0);
    assert_int_equal(share(7, 1, 1), 7);
    assert_int_equal(share((int64_t)1 << 22, LIMIT, LIMIT), (int64_t)1 << 22);
    assert_int_equal(share((int64_t)1 << 22, LIMIT - 1, LIMIT), ((int64_t)1 << 22) - 1);
    assert_int_equal(share((int64_t)1 << 22, 1, LIMIT), 1);
    for (int64_t n = 1; n <= 4096; n += test_light() ? 31 : 1)
        for (int64_t percent = 1; percent <= 99; percent++) {
            int64_t got = share(n, percent, 100);
            if (got == 1 && n * percent < 100)
                continue; /* the least that is not nothing */
            assert_true(got * 100 <= n * percent && (got + 1) * 100 > n * percent);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parses),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
