/* SPDX-License-Identifier: Apache-2.0 */
/* Status names, the detail of an error, and structs that grow. */
#include "unit.h"

#include <pthread.h>

#include "status.h"

static void test_names(void **state)
{
    (void)state;
    const char *names[CKV_ERROR_DEVICE + 1];
    for (int i = CKV_OK; i <= CKV_ERROR_DEVICE; i++) {
        names[i] = ckv_status_string((ckv_status)i);
        assert_non_null(names[i]);
        assert_string_not_equal(names[i], "unknown status");
        for (int j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
    }
    assert_string_equal(ckv_status_string((ckv_status)(CKV_ERROR_DEVICE + 1)), "unknown status");
    assert_string_equal(ckv_status_string((ckv_status)-1), "unknown status");
}

static void *first_detail(void *empty)
{
    *(int *)empty = ckv_error_detail()[0] == '\0';
    ckv_fail(CKV_ERROR_LIMIT, "of the other thread");
    return NULL;
}

static void test_detail_is_of_its_thread(void **state)
{
    (void)state;
    pthread_t thread;
    int empty = 0;
    assert_int_equal(ckv_fail(CKV_ERROR_SHAPE, "key: %d", 7), CKV_ERROR_SHAPE);
    assert_string_equal(ckv_error_detail(), "key: 7");
    assert_int_equal(pthread_create(&thread, NULL, first_detail, &empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(empty);
    assert_string_equal(ckv_error_detail(), "key: 7");
    assert_fails(ckv_fail_null("plan"), CKV_ERROR_INVALID_ARGUMENT, "plan: NULL");
}

static void test_detail_is_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    ckv_fail(CKV_ERROR_LIMIT, "%s", text);
    assert_true(strlen(ckv_error_detail()) > 900);
    assert_true(strlen(ckv_error_detail()) < 1100);
    assert_string_equal(ckv_error_detail() + strlen(ckv_error_detail()) - 4, "x...");
    /* A message may quote the one before. */
    ckv_fail(CKV_ERROR_LIMIT, "first");
    ckv_fail(CKV_ERROR_LIMIT, "second, after %s", ckv_error_detail());
    assert_string_equal(ckv_error_detail(), "second, after first");
}

typedef struct sample {
    size_t struct_size;
    int32_t first, second;
    int64_t later; /* of a second version */
} sample;

#define LEAST (offsetof(sample, second) + sizeof(int32_t))

static void test_struct_read(void **state)
{
    (void)state;
    union {
        sample known;
        unsigned char bytes[70000];
    } given;
    sample got = {sizeof got, -1, -2, -3};
    memset(&given, 0, sizeof given);
    given.known = (sample){LEAST, 1, 2, 99};

    assert_fails(ckv_struct_read(&got, sizeof got, LEAST, NULL, "thing"), CKV_ERROR_INVALID_ARGUMENT, "thing: NULL");

    /* An older caller's struct: what it lacks keeps its default. */
    assert_ok(ckv_struct_read(&got, sizeof got, LEAST, &given, "thing"));
    assert_int_equal(got.first, 1);
    assert_int_equal(got.second, 2);
    assert_int_equal(got.later, -3);

    const size_t wrong[] = {0, 1, LEAST - 1, 65537, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sample untouched = {sizeof untouched, -1, -2, -3};
        given.known.struct_size = wrong[i];
        assert_fails(ckv_struct_read(&untouched, sizeof untouched, LEAST, &given, "thing"), CKV_ERROR_INVALID_ARGUMENT,
                     "thing: struct_size");
        assert_int_equal(untouched.first, -1);
    }

    /* A newer caller's: zeros beyond what is known, and nothing else. */
    given.known = (sample){sizeof(sample) + 16, 3, 4, 5};
    assert_ok(ckv_struct_read(&got, sizeof got, LEAST, &given, "thing"));
    assert_int_equal(got.later, 5);
    given.known.struct_size = 65536;
    assert_ok(ckv_struct_read(&got, sizeof got, LEAST, &given, "thing"));
    for (size_t at = sizeof(sample); at < sizeof(sample) + 16; at++) {
        given.bytes[at] = 1;
        got.first = -1;
        given.known.struct_size = sizeof(sample) + 16;
        assert_fails(ckv_struct_read(&got, sizeof got, LEAST, &given, "thing"), CKV_ERROR_INVALID_ARGUMENT,
                     "thing: byte");
        assert_int_equal(got.first, -1);
        given.bytes[at] = 0;
    }
}

static void test_struct_write(void **state)
{
    (void)state;
    const sample known = {sizeof known, 1, 2, 3};
    unsigned char bytes[64];
    sample out;
    size_t size;

    assert_fails(ckv_struct_write(NULL, &known, sizeof known, LEAST, "info"), CKV_ERROR_INVALID_ARGUMENT, "info: NULL");
    memset(&out, 0x77, sizeof out);
    out.struct_size = LEAST - 1;
    assert_fails(ckv_struct_write(&out, &known, sizeof known, LEAST, "info"), CKV_ERROR_INVALID_ARGUMENT,
                 "info: struct_size");
    assert_int_equal(out.first, 0x77777777);

    /* Into an older caller's struct, and not past its end. */
    out.struct_size = LEAST;
    assert_ok(ckv_struct_write(&out, &known, sizeof known, LEAST, "info"));
    assert_int_equal(out.struct_size, LEAST);
    assert_int_equal(out.second, 2);
    assert_int_equal(out.later, 0x7777777777777777);

    /* Into a newer one: zeros where nothing is known, and not past its end either. */
    memset(bytes, 0x77, sizeof bytes);
    size = sizeof known + 8;
    memcpy(bytes, &size, sizeof size);
    assert_ok(ckv_struct_write(bytes, &known, sizeof known, LEAST, "info"));
    memcpy(&out, bytes, sizeof out);
    assert_int_equal(out.struct_size, size);
    assert_int_equal(out.later, 3);
    for (size_t i = sizeof known; i < size; i++)
        assert_int_equal(bytes[i], 0);
    for (size_t i = size; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0x77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_detail_is_of_its_thread),
        cmocka_unit_test(test_detail_is_cut), cmocka_unit_test(test_struct_read),
        cmocka_unit_test(test_struct_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
