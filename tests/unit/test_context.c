/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the table of devices, the choice of one, and the caller's allocator. */
#define _POSIX_C_SOURCE 200809L
#include "unit.h"

#include <stdlib.h>

#include "context.h"
#include "registry.h"

static void test_version(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", CKV_VERSION_MAJOR, CKV_VERSION_MINOR, CKV_VERSION_PATCH);
    assert_string_equal(ckv_version(), text);
}

static ckv_device_info query(const ckv_context *context, int32_t index)
{
    ckv_device_info info;
    memset(&info, 0x77, sizeof info);
    info.struct_size = sizeof info;
    assert_ok(ckv_device_query(context, index, &info));
    assert_int_equal(info.struct_size, sizeof info);
    return info;
}

/* Every backend has a row; each says why it cannot be used, or what it is. */
static void test_device_table(void **state)
{
    (void)state;
    const char *const order[] = {"cuda", "hip", "opencl", "cpu", "ref"};
    ckv_context *context;
    int selected = 0, at = 0;
    assert_ok(ckv_context_create(NULL, &context));
    int32_t count = ckv_device_count(context);
    assert_true(count >= 5);
    for (int32_t i = 0; i < count; i++) {
        ckv_device_info info = query(context, i);
        while (at < 5 && strcmp(order[at], info.backend) != 0)
            at++;
        assert_in_range(at, 0, 4);
        assert_true(info.available == 0 || info.available == 1);
        if (info.available) {
            assert_string_equal(info.reason, "");
            assert_true(info.device >= 0);
            assert_true(info.name[0] != '\0');
        } else {
            assert_true(info.reason[0] != '\0');
            assert_int_equal(info.selected, 0);
        }
        selected += info.selected;
    }
    assert_int_equal(selected, 1);
    ckv_device_info last = query(context, count - 1);
    assert_string_equal(last.backend, "ref");
    assert_int_equal(last.available, 1);
    assert_int_equal(last.device, 0);
    assert_string_equal(query(context, 0).backend, "cuda");
    ckv_context_destroy(context);
}

static void test_device_query_errors(void **state)
{
    (void)state;
    ckv_context *context;
    ckv_device_info info = {.struct_size = sizeof info};
    assert_ok(ckv_context_create(NULL, &context));
    int32_t count = ckv_device_count(context);
    assert_int_equal(ckv_device_count(NULL), 0);
    assert_fails(ckv_device_query(NULL, 0, &info), CKV_ERROR_INVALID_ARGUMENT, "context: NULL");
    assert_fails(ckv_device_query(context, -1, &info), CKV_ERROR_INVALID_ARGUMENT, "index: -1");
    assert_fails(ckv_device_query(context, count, &info), CKV_ERROR_INVALID_ARGUMENT, "index: ");
    assert_fails(ckv_device_query(context, INT32_MAX, &info), CKV_ERROR_INVALID_ARGUMENT, "index: ");
    assert_fails(ckv_device_query(context, 0, NULL), CKV_ERROR_INVALID_ARGUMENT, "info: NULL");
    info.struct_size = offsetof(ckv_device_info, reason);
    assert_fails(ckv_device_query(context, 0, &info), CKV_ERROR_INVALID_ARGUMENT, "info: struct_size");
    assert_null(info.backend);
    ckv_context_destroy(context);
    ckv_context_destroy(NULL);
}

static ckv_status create(const char *backend, const char *device, ckv_context **context)
{
    ckv_context_options options;
    memset(&options, 0x77, sizeof options);
    ckv_context_options_init(&options);
    options.backend = backend;
    options.device = device;
    *context = (ckv_context *)(void *)&options; /* anything but NULL */
    return ckv_context_create(&options, context);
}

static void test_choice(void **state)
{
    (void)state;
    const struct {
        const char *backend, *device;
    } good[] = {
        {NULL, NULL}, {"auto", NULL}, {"ref", NULL},     {"ref", "0"},        {"auto", "0"},
        {NULL, "0"},  {"ref", ""},    {"ref", "scalar"}, {NULL, "reference"}, {"ref", "scalar reference"},
    };
    const struct {
        const char *backend, *device;
    } wrong[] = {
        {"cuda", NULL},        {"hip", NULL},       {"opencl", NULL}, {"re", NULL},  {"", NULL},
        {"Ref", NULL},         {"none", NULL},      {"ref", "1"},     {"ref", "-1"}, {"ref", "vector"},
        {"ref", "4294967296"}, {"auto", "no such"}, {"ref", "0x"},    {"cuda", "0"},
    };
    ckv_context *context;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(create(good[i].backend, good[i].device, &context));
        assert_non_null(context);
        ckv_device_info info = query(context, ckv_device_count(context) - 1);
        if (good[i].backend != NULL && strcmp(good[i].backend, "ref") == 0)
            assert_int_equal(info.selected, 1);
        ckv_context_destroy(context);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(create(wrong[i].backend, wrong[i].device, &context), CKV_ERROR_UNAVAILABLE);
        assert_null(context);
    }
}

/* The message names what was asked for, what there is, and why not the rest. */
static void test_unavailable_text(void **state)
{
    (void)state;
    ckv_context *context;
    assert_int_equal(create("cuda", "7", &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("'cuda'");
    assert_detail("'7'");
    assert_detail("ref:0 (scalar reference)");
    for (int i = 0; i < ckv_registry_count; i++) {
        assert_detail(ckv_registry[i].name);
        assert_detail(ckv_registry[i].reason);
    }
    /* However long the names, the text stays within its bounds. */
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(create(text, text, &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("ref:0");
}

typedef struct heap {
    int64_t allocations, fail_at, live;
    int misaligned;
} heap;

static void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    heap *h = user;
    if (h->allocations++ == h->fail_at)
        return NULL;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        h->misaligned = 1;
    /* Filled with rubbish: the library must not count on zeros. */
    size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, whole);
    memset(memory, 0x77, whole);
    h->live++;
    return memory;
}

static void count_release(void *user, void *memory)
{
    heap *h = user;
    h->live--;
    free(memory);
}

/* Makes every kind of handle; what was made is destroyed again. */
static ckv_status make_all(heap *h)
{
    ckv_context_options options;
    ckv_context *context;
    ckv_projection *projection = (ckv_projection *)(void *)h;
    ckv_plan *plan = (ckv_plan *)(void *)h;
    ckv_tensor weight;
    ckv_shape shape;
    float data[6 * 4];
    for (int i = 0; i < 24; i++)
        data[i] = (float)i;
    ckv_context_options_init(&options);
    options.allocate = count_allocate;
    options.release = count_release;
    options.user = h;
    ckv_status status = ckv_context_create(&options, &context);
    if (status != CKV_OK) {
        assert_null(context);
        return status;
    }
    ckv_tensor_init_2d(&weight, CKV_F32, data, 6, 4);
    status = ckv_projection_create(context, &weight, 2, 2, &projection);
    if (status != CKV_OK)
        assert_null(projection);
    ckv_shape_init(&shape);
    shape.kv_heads = 1;
    shape.tokens = 10;
    if (status == CKV_OK)
        status = ckv_plan_create(context, &shape, NULL, &plan);
    if (status != CKV_OK) {
        ckv_projection_destroy(projection);
        ckv_context_destroy(context);
        return status;
    }
    ckv_plan_destroy(plan);
    ckv_projection_destroy(projection);
    ckv_context_destroy(context);
    return status;
}

/* Every allocation fails once: an error, nothing lost, and the same call works afterwards. */
static void test_failing_allocations(void **state)
{
    (void)state;
    heap h = {0, -1, 0, 0};
    assert_ok(make_all(&h));
    int64_t total = h.allocations;
    assert_true(total >= 3);
    assert_int_equal(h.live, 0);
    assert_int_equal(h.misaligned, 0);
    for (int64_t i = 0; i < total; i++) {
        h = (heap){0, i, 0, 0};
        assert_fails(make_all(&h), CKV_ERROR_NO_MEMORY, "could not allocate");
        assert_int_equal(h.live, 0);
        assert_int_equal(h.allocations, i + 1);
        h.fail_at = -1;
        assert_ok(make_all(&h));
        assert_int_equal(h.live, 0);
    }
}

static void test_options_errors(void **state)
{
    (void)state;
    struct {
        ckv_context_options options;
        unsigned char later[8];
    } given;
    ckv_context *context;
    memset(&given, 0, sizeof given);
    ckv_context_options_init(&given.options);
    ckv_context_options_init(NULL);
    assert_fails(ckv_context_create(&given.options, NULL), CKV_ERROR_INVALID_ARGUMENT, "context: NULL");
    given.options.allocate = count_allocate;
    assert_fails(ckv_context_create(&given.options, &context), CKV_ERROR_INVALID_ARGUMENT, "only one of");
    given.options.allocate = NULL;
    given.options.release = count_release;
    assert_fails(ckv_context_create(&given.options, &context), CKV_ERROR_INVALID_ARGUMENT, "only one of");
    assert_null(context);
    given.options.release = NULL;
    given.options.struct_size = sizeof given;
    assert_ok(ckv_context_create(&given.options, &context));
    ckv_context_destroy(context);
    given.later[0] = 1;
    context = (ckv_context *)(void *)&given;
    assert_fails(ckv_context_create(&given.options, &context), CKV_ERROR_INVALID_ARGUMENT, "options: byte");
    assert_null(context);
    given.options.struct_size = 8;
    assert_fails(ckv_context_create(&given.options, &context), CKV_ERROR_INVALID_ARGUMENT, "options: struct_size");
}

/* Asked for by name, where it is switched off. */
static void test_disabled(void **state)
{
    (void)state;
    const char *const names[] = {"cuda", "hip", "opencl"};
    ckv_context *context;
    for (int i = 0; i < 3; i++) {
        assert_fails(create(names[i], NULL, &context), CKV_ERROR_UNAVAILABLE, "switched off by CKV_DISABLE");
        assert_null(context);
    }
}

int main(void)
{
    /* What there is must not depend on the machine. */
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_device_table),
        cmocka_unit_test(test_device_query_errors),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_unavailable_text),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_options_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
