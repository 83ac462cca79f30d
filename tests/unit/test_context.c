/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: the table of devices, the choice of one, and the caller's allocator. */
#define _POSIX_C_SOURCE 200809L
#include "unit.h"

#include <stdlib.h>

#include "context.h"

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
        assert_true(info.selected == (info.variant[0] != '\0'));
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
        {NULL, NULL},  {"auto", NULL}, {"ref", NULL},     {"ref", "0"},          {"auto", "0"},
        {NULL, "0"},   {"ref", ""},    {"ref", "scalar"}, {NULL, "reference"},   {"ref", "scalar reference"},
        {"Ref", NULL}, {"AUTO", NULL}, {"REF", "00"},     {"ref", "Scalar REF"}, {"auto", ""},
    };
    const struct {
        const char *backend, *device;
    } wrong[] = {
        {"cuda", NULL}, {"hip", NULL},     {"opencl", NULL},      {"re", NULL},
        {"", NULL},     {"reff", NULL},    {"none", NULL},        {"ref", "1"},
        {"ref", "-1"},  {"ref", "vector"}, {"ref", "4294967296"}, {"auto", "no such"},
        {"ref", "0x"},  {"cuda", "0"},     {"ref:0", NULL},       {"ref", "00000000010"},
    };
    ckv_context *context;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(create(good[i].backend, good[i].device, &context));
        assert_non_null(context);
        ckv_device_info info = query(context, ckv_device_count(context) - 1);
        if (good[i].backend != NULL && (good[i].backend[0] | 32) == 'r')
            assert_int_equal(info.selected, 1);
        ckv_context_destroy(context);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(create(wrong[i].backend, wrong[i].device, &context), CKV_ERROR_UNAVAILABLE);
        assert_null(context);
    }
}

/* Without a context: the same rows, of which none is chosen. */
static void test_device_table_without_context(void **state)
{
    (void)state;
    ckv_context *context;
    ckv_device_info info = {.struct_size = sizeof info};
    assert_ok(create("ref", NULL, &context));
    const int32_t count = ckv_device_count(context);
    assert_int_equal(ckv_device_count(NULL), count);
    for (int32_t i = 0; i < count; i++) {
        const ckv_device_info with = query(context, i), without = query(NULL, i);
        assert_string_equal(with.backend, without.backend);
        assert_string_equal(with.name, without.name);
        assert_string_equal(with.reason, without.reason);
        assert_string_equal(without.variant, "");
        assert_int_equal(with.device, without.device);
        assert_int_equal(with.available, without.available);
        assert_int_equal(without.selected, 0);
    }
    assert_fails(ckv_device_query(NULL, -1, &info), CKV_ERROR_INVALID_ARGUMENT, "index: -1");
    assert_fails(ckv_device_query(NULL, count, &info), CKV_ERROR_INVALID_ARGUMENT, "index: ");
    assert_fails(ckv_device_query(NULL, 0, NULL), CKV_ERROR_INVALID_ARGUMENT, "info: NULL");
    ckv_context_destroy(context);
}

/* The message names what was asked for, what there is, and why not the rest. */
static void test_unavailable_text(void **state)
{
    (void)state;
    ckv_context *context;
    assert_int_equal(create("cuda", "7", &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("options.backend 'cuda', options.device '7': switched off by CKV_DISABLE; there is: cpu:0 (");
    assert_detail(", ref:0 (scalar reference); not: cuda (switched off by CKV_DISABLE), hip (");
    assert_int_equal(create("ref", "7", &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("options.backend 'ref', options.device '7': no such device; there is: cpu:0");
    assert_int_equal(create("reff", NULL, &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("options.backend 'reff': no such backend; there is: cpu:0");
    assert_int_equal(create(NULL, "H200", &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("options.device 'H200': no such device; there is: cpu:0");
    /* However long the names, the text stays within its bounds. */
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(create(text, text, &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("ref:0");
}

/* What the options leave open the environment says. */
static void test_environment(void **state)
{
    (void)state;
    static const struct {
        const char *backend, *device, *variable_backend, *variable_device, *chosen;
    } cases[] = {
        {NULL, NULL, "ref", NULL, "ref"},       {"auto", NULL, "REF", "", "ref"},
        {NULL, NULL, "ref:0", "7", "ref"},      {NULL, NULL, "ref:scalar", NULL, "ref"},
        {"cpu", NULL, "ref", NULL, "cpu"},      {"cpu", NULL, "nonsense:9", NULL, "cpu"},
        {NULL, "0", "ref:7", "8", "ref"},       {NULL, NULL, "auto:reference", NULL, "ref"},
        {NULL, NULL, NULL, "REFERENCE", "ref"}, {NULL, NULL, "", "", "cpu"},
        {NULL, NULL, "auto", NULL, "cpu"},      {NULL, NULL, "ref:", NULL, "ref"},
        {NULL, NULL, "ref:7", NULL, NULL},      {"cpu", NULL, NULL, "7", NULL},
        {NULL, NULL, "nonsense", NULL, NULL},   {NULL, NULL, ":0", NULL, NULL},
        {NULL, NULL, NULL, "7", NULL},          {NULL, "7", "ref:0", "0", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_context *context;
        if (cases[i].variable_backend != NULL)
            setenv("CKV_BACKEND", cases[i].variable_backend, 1);
        if (cases[i].variable_device != NULL)
            setenv("CKV_DEVICE", cases[i].variable_device, 1);
        const ckv_status status = create(cases[i].backend, cases[i].device, &context);
        unsetenv("CKV_BACKEND");
        unsetenv("CKV_DEVICE");
        const char *chosen = NULL;
        for (int32_t row = 0; status == CKV_OK && row < ckv_device_count(context); row++)
            if (query(context, row).selected)
                chosen = query(context, row).backend;
        if (status != (cases[i].chosen == NULL ? CKV_ERROR_UNAVAILABLE : CKV_OK) ||
            (chosen != NULL && strcmp(chosen, cases[i].chosen) != 0))
            fail_msg("case %zu: status %d, chosen %s", i, (int)status, chosen == NULL ? "nothing" : chosen);
        ckv_context_destroy(context);
    }
}

/* The message says who asked. */
static void test_environment_text(void **state)
{
    (void)state;
    ckv_context *context;
    setenv("CKV_BACKEND", "nonsense:1", 1);
    assert_int_equal(create(NULL, NULL, &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("CKV_BACKEND 'nonsense', CKV_BACKEND's device '1': no such backend; there is: cpu:0");
    assert_int_equal(create(NULL, "2", &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("CKV_BACKEND 'nonsense', options.device '2': no such backend");
    setenv("CKV_BACKEND", "Cuda", 1);
    setenv("CKV_DEVICE", "H200", 1);
    assert_int_equal(create("auto", NULL, &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("CKV_BACKEND 'Cuda', CKV_DEVICE 'H200': switched off by CKV_DISABLE; there is: cpu:0");
    unsetenv("CKV_BACKEND");
    assert_int_equal(create("auto", NULL, &context), CKV_ERROR_UNAVAILABLE);
    assert_detail("CKV_DEVICE 'H200': no such device; there is: cpu:0");
    unsetenv("CKV_DEVICE");
}

/* What one context is denied, another has: nothing of it stays. */
static void test_disabled_for_one(void **state)
{
    (void)state;
    ckv_context *without, *with;
    setenv("CKV_DISABLE", "cuda,hip,opencl,cpu,ref", 1);
    assert_ok(create(NULL, NULL, &without));
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
    assert_ok(create(NULL, NULL, &with));
    const int32_t cpu = ckv_device_count(with) - 2;
    assert_string_equal(query(without, cpu).backend, "cpu");
    assert_string_equal(query(without, cpu).reason, "switched off by CKV_DISABLE");
    assert_int_equal(query(without, cpu + 1).selected, 1); /* ref, which is never off */
    assert_int_equal(query(with, cpu).selected, 1);
    ckv_context_destroy(with);
    ckv_context_destroy(without);
}

/* In any case, by commas or blanks; what is no backend's name, or a part of one, does nothing. */
static void test_disabled_names(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int cpu;
    } cases[] = {{"CPU", 1},       {"Cpu,nonsense", 1}, {" , cpu ", 1}, {"nonsense cpu", 1}, {"nonsense", 0},
                 {"cpu2,xcpu", 0}, {"cp", 0},           {",,", 0},      {"cpu:0", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_context *context;
        char text[60];
        snprintf(text, sizeof text, "CUDA,HIP,OpenCL,%s", cases[i].text);
        setenv("CKV_DISABLE", text, 1);
        assert_ok(create(NULL, NULL, &context));
        for (int32_t row = 0; row < ckv_device_count(context); row++) {
            const ckv_device_info info = query(context, row);
            const int off = strcmp(info.reason, "switched off by CKV_DISABLE") == 0;
            if (strcmp(info.backend, "cpu") == 0)
                assert_int_equal(off, cases[i].cpu);
            else if (strcmp(info.backend, "ref") != 0)
                assert_true(off);
        }
        ckv_context_destroy(context);
    }
    setenv("CKV_DISABLE", "cuda,hip,opencl", 1);
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
    assert_true(total >= 8); /* the list of backends among them */
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
    unsetenv("CKV_BACKEND");
    unsetenv("CKV_DEVICE");
    unsetenv("CKV_MODULE_PATH");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_device_table),
        cmocka_unit_test(test_device_query_errors),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_device_table_without_context),
        cmocka_unit_test(test_unavailable_text),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_text),
        cmocka_unit_test(test_disabled_for_one),
        cmocka_unit_test(test_disabled_names),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_options_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
