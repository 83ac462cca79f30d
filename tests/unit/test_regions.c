/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a call's memory: what counts as shared, and what the error says. */
#include "unit.h"

#include "regions.h"

static unsigned char memory[64];

static void test_adjacent(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 8; size++)
        for (size_t at = 0; at < 32; at++) {
            ckv_regions r = {.count = 0};
            ckv_regions_add(&r, "output", NULL, memory + 16, 8, 1);
            ckv_regions_add(&r, "other", NULL, memory + at, size, 0);
            if (at + size <= 16 || at >= 24)
                assert_ok(ckv_regions_check(&r));
            else
                assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE,
                             "output: overlaps other, wanted memory of its own");
        }
}

/* One that lies within another, either way round. */
static void test_within(void **state)
{
    (void)state;
    for (int larger = 0; larger < 2; larger++) {
        ckv_regions r = {.count = 0};
        ckv_regions_add(&r, "first", NULL, memory + (larger ? 0 : 8), larger ? 32 : 4, 1);
        ckv_regions_add(&r, "second", NULL, memory + (larger ? 8 : 0), larger ? 4 : 32, 0);
        assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE, "first: overlaps second");
    }
}

/* Nothing is shared with what has no bytes, wherever it points. */
static void test_empty(void **state)
{
    (void)state;
    ckv_regions r = {.count = 0};
    ckv_tensor none;
    assert_ok(ckv_regions_check(&r));
    ckv_regions_add(&r, "output", NULL, memory, sizeof memory, 1);
    ckv_regions_add(&r, "empty", NULL, memory + 8, 0, 1);
    ckv_regions_add(&r, "null", NULL, NULL, 8, 1);
    ckv_regions_add(&r, "null and empty", NULL, NULL, 0, 1);
    for (int i = 0; i < 3; i++) {
        ckv_tensor_init_3d(&none, CKV_F32, memory + 4 * i, i == 0 ? 0 : 2, i == 1 ? 0 : 2, i == 2 ? 0 : 2);
        ckv_regions_add_tensor(&r, "no elements", &none, 1);
    }
    assert_int_equal(r.count, 1);
    assert_ok(ckv_regions_check(&r));
}

/* Whichever comes first in the list, the output is named first; inputs may share. */
static void test_order(void **state)
{
    (void)state;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            ckv_regions r = {.count = 0};
            ckv_regions_add(&r, "apart", NULL, memory + 32, 8, 1);
            ckv_regions_add(&r, "one", NULL, memory, 8, a);
            ckv_regions_add(&r, "two", NULL, memory + 4, 8, b);
            if (a)
                assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE, "one: overlaps two");
            else if (b)
                assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE, "two: overlaps one");
            else
                assert_ok(ckv_regions_check(&r));
        }
}

/* A view takes all from its lowest byte to its highest, whichever way it is stepped. */
static void test_views(void **state)
{
    (void)state;
    for (int reversed = 0; reversed < 2; reversed++)
        for (size_t at = 0; at < 60; at++) {
            ckv_regions r = {.count = 0};
            ckv_tensor view; /* rows of 4 bytes at 16, 24, 32 */
            ckv_tensor_init_2d(&view, CKV_F16, memory + (reversed ? 34 : 16), 3, 2);
            view.stride[0] = reversed ? -8 : 8;
            view.stride[1] = reversed ? -2 : 2;
            ckv_regions_add_tensor(&r, "view", &view, at % 2 == 0);
            ckv_regions_add(&r, "byte", NULL, memory + at, 1, at % 2 == 1);
            if (at < 16 || at >= 36)
                assert_ok(ckv_regions_check(&r));
            else
                assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE,
                             at % 2 == 0 ? "view: overlaps byte" : "byte: overlaps view");
        }
}

/* A size past the last address ends there. */
static void test_end_of_addresses(void **state)
{
    (void)state;
    ckv_regions r = {.count = 0};
    ckv_regions_add(&r, "endless", NULL, memory + 8, SIZE_MAX, 1);
    ckv_regions_add(&r, "below", NULL, memory, 8, 0);
    assert_ok(ckv_regions_check(&r));
    ckv_regions_add(&r, "above", NULL, memory + 9, 8, 0);
    assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE, "endless: overlaps above");
}

/* Of a full list every pair is looked at. */
static void test_full(void **state)
{
    (void)state;
    static const char *const names[CKV_REGIONS_MAX] = {"r0", "r1", "r2", "r3", "r4",  "r5",
                                                       "r6", "r7", "r8", "r9", "r10", "r11"};
    for (int a = 0; a < CKV_REGIONS_MAX; a++)
        for (int b = 0; b < CKV_REGIONS_MAX; b++) {
            char want[32];
            ckv_regions r = {.count = 0};
            for (int i = 0; i < CKV_REGIONS_MAX; i++)
                ckv_regions_add(&r, names[i], NULL, memory + 4 * (i == b ? a : i), 4, i == a);
            snprintf(want, sizeof want, "%s: overlaps %s,", names[a], names[b]);
            if (a == b)
                assert_ok(ckv_regions_check(&r));
            else
                assert_fails(ckv_regions_check(&r), CKV_ERROR_STRIDE, want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adjacent), cmocka_unit_test(test_within), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_order),    cmocka_unit_test(test_views),  cmocka_unit_test(test_end_of_addresses),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
