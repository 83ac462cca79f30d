/* SPDX-License-Identifier: Apache-2.0 */
/* The choice among pretended GPUs: only what is asked for is touched, a device whose first
 * launch fails is passed over, and a plan tells what runs. */
#include "unit.h"

#include <stdlib.h>

#include "sim.h"

static const char *absent;

static ckv_device_info row_of(const ckv_context *context, const char *backend, int32_t device)
{
    ckv_device_info info = {.struct_size = sizeof info};
    for (int32_t i = 0; i < ckv_device_count(context); i++) {
        assert_ok(ckv_device_query(context, i, &info));
        if (strcmp(info.backend, backend) == 0 && info.device == device)
            return info;
    }
    fail_msg("no row %s:%d", backend, (int)device);
    return info;
}

#define NEEDS_SIM                                                                                                      \
    do {                                                                                                               \
        (void)state;                                                                                                   \
        if (absent != NULL)                                                                                            \
            skip_because(absent);                                                                                      \
        sim.ckv_sim_reset();                                                                                           \
    } while (0)

/* First of all: no driver has been asked for anything yet. */
static void test_only_what_is_asked_for(void **state)
{
    NEEDS_SIM;
    ckv_context *context;
    assert_ok(test_create("cpu", NULL, &context));
    ckv_context_destroy(context);
    assert_ok(test_create("ref", "0", &context));
    ckv_context_destroy(context);
    setenv("CKV_BACKEND", "cpu:0", 1);
    assert_ok(test_create(NULL, NULL, &context));
    ckv_context_destroy(context);
    unsetenv("CKV_BACKEND");
    assert_int_equal(sim.ckv_sim_calls(), 0);
    assert_ok(test_create("hip", NULL, &context));
    ckv_context_destroy(context);
    const int64_t calls = sim.ckv_sim_calls();
    assert_true(calls > 0);
    assert_ok(test_create("cpu", NULL, &context));
    assert_int_equal(sim.ckv_sim_calls(), calls);
    /* The table asks every driver. */
    assert_true(ckv_device_count(context) >= 6);
    assert_true(sim.ckv_sim_calls() > calls);
    ckv_context_destroy(context);
}

static void test_variants(void **state)
{
    NEEDS_SIM;
    static const char *const cases[][4] = {
        {"cuda", "0", NULL, "mma"},  {"hip", "0", NULL, "mfma"},    {"hip", "1", NULL, "wmma"},
        {"cuda", "1", "int", "int"}, {"cuda", "0", "dot4", "dot4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_context *context;
        ckv_plan *plan;
        ckv_shape shape;
        ckv_plan_info info = {.struct_size = sizeof info};
        char now[40], ahead[40];
        if (cases[i][2] != NULL)
            setenv("CKV_GPU_NORM", cases[i][2], 1);
        assert_ok(test_create(cases[i][0], cases[i][1], &context));
        unsetenv("CKV_GPU_NORM");
        const char *variant = row_of(context, cases[i][0], cases[i][1][0] - '0').variant;
        /* Ahead where this build has images for such a device. */
        snprintf(now, sizeof now, "%s, built now", cases[i][3]);
        snprintf(ahead, sizeof ahead, "%s, built ahead", cases[i][3]);
        assert_true(strcmp(variant, now) == 0 || strcmp(variant, ahead) == 0);
        ckv_shape_init(&shape);
        shape.kv_heads = 1;
        shape.tokens = 10;
        assert_ok(ckv_plan_create(context, &shape, NULL, &plan));
        assert_ok(ckv_plan_query(plan, &info));
        assert_string_equal(info.backend, cases[i][0]);
        assert_string_equal(info.variant, variant);
        ckv_plan_destroy(plan);
        ckv_context_destroy(context);
    }
}

/* The probe kernel is a device's first launch; where it fails the next device is taken. */
static void test_first_launch_fails(void **state)
{
    NEEDS_SIM;
    static const char *const cases[][4] = {{"opencl", "cuda", "cuLaunchKernel", "cuda:1"},
                                           {"opencl,cuda", "hip", "hipModuleLaunchKernel", "hip:1"}};
    ckv_context *context;
    for (int i = 0; i < 2; i++) {
        setenv("CKV_DISABLE", cases[i][0], 1);
        sim.ckv_sim_reset();
        sim.ckv_sim_fail(cases[i][2], 1, 0);
        assert_ok(test_create(NULL, NULL, &context));
        assert_string_equal(test_chosen(context), cases[i][3]);
        const ckv_device_info passed = row_of(context, cases[i][1], 0);
        assert_int_equal(passed.available, 0);
        assert_non_null(strstr(passed.reason, "probe kernel: launching failed: "));
        ckv_context_destroy(context);
        /* Asked for alone, it is an error with the reason and the others. */
        sim.ckv_sim_reset();
        sim.ckv_sim_fail(cases[i][2], 1, 0);
        assert_fails(test_create(cases[i][1], "0", &context), CKV_ERROR_UNAVAILABLE, "options.device '0'");
        assert_detail(":0: probe kernel: launching failed: ");
        assert_detail("there is: ");
        assert_detail("cpu:0");
        sim.ckv_sim_reset();
        assert_ok(test_create(cases[i][1], "0", &context)); /* another context is not held to it */
        ckv_context_destroy(context);
    }
    setenv("CKV_DISABLE", "opencl", 1);
}

/* A kernel that faults takes all pretended devices with it: the CPU is left. */
static void test_first_kernel_faults(void **state)
{
    NEEDS_SIM;
    ckv_context *context;
    sim.ckv_sim_fail("kernel", 1, 0);
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "cpu:0");
    assert_non_null(strstr(row_of(context, "cuda", 0).reason, "probe kernel: "));
    assert_true(row_of(context, "hip", 1).reason[0] != '\0');
    ckv_context_destroy(context);
}

/* Every device lost from some call on: always a context, and in the end the CPU's. */
static void test_all_lost(void **state)
{
    NEEDS_SIM;
    ckv_context *context;
    int on_cpu = 0, launched = 0;
    const int64_t before = sim.ckv_sim_calls();
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "cuda:0");
    ckv_context_destroy(context);
    const int64_t calls = sim.ckv_sim_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth++) {
        sim.ckv_sim_reset();
        sim.ckv_sim_fail("lost", nth, 0);
        assert_ok(test_create(NULL, NULL, &context));
        sim.ckv_sim_reset();
        if (strcmp(test_chosen(context), "cpu:0") == 0) {
            static const char *const backends[] = {"cuda", "cuda", "hip", "hip"};
            on_cpu++;
            for (int32_t i = 0; i < 4; i++) {
                const ckv_device_info info = row_of(context, backends[i], i % 2);
                assert_int_equal(info.available, 0);
                assert_true(info.reason[0] != '\0');
                launched += i == 0 && strstr(info.reason, "probe kernel: launching") != NULL;
            }
        } else {
            assert_string_equal(test_chosen(context), "cuda:0");
        }
        ckv_context_destroy(context);
    }
    assert_true(on_cpu >= 8);
    assert_true(launched >= 1); /* the launch itself was among them */
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

static void test_selectors(void **state)
{
    NEEDS_SIM;
    static const char *const cases[][3] = {
        {NULL, "SM_75", "cuda:1"},     {NULL, "gfx", "hip:0"},        {NULL, "1", "cuda:1"},
        {"hip", "1", "hip:1"},         {"hip", "pretended", "hip:0"}, {"HIP", "gfx1100", "hip:1"},
        {NULL, "pretended", "cuda:0"},
    };
    ckv_context *context;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(test_create(cases[i][0], cases[i][1], &context));
        assert_string_equal(test_chosen(context), cases[i][2]);
        ckv_context_destroy(context);
    }
    assert_fails(test_create("hip", "sm_90", &context), CKV_ERROR_UNAVAILABLE,
                 "no such device; there is: cuda:0 (Pretended");
    assert_fails(test_create("cuda", "2", &context), CKV_ERROR_UNAVAILABLE, "no such device");
}

/* A route that no GPU has is an error of "auto", which could not give it on the CPU either; one that another GPU has
 * is that one's. */
static void test_route_that_is_not_there(void **state)
{
    NEEDS_SIM;
    ckv_context *context;
    setenv("CKV_GPU_NORM", "wmma", 1); /* of hip:1 alone */
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "hip:1");
    ckv_context_destroy(context);
    setenv("CKV_GPU_NORM", "tensor", 1);
    assert_fails(test_create(NULL, NULL, &context), CKV_ERROR_UNAVAILABLE,
                 "auto: cuda:0: CKV_GPU_NORM 'tensor': not on this device, wanted one of: int, dot4, mma; there is: ");
    assert_fails(test_create(NULL, "gfx1100", &context), CKV_ERROR_UNAVAILABLE,
                 "options.device 'gfx1100': hip:1: CKV_GPU_NORM 'tensor'");
    assert_ok(test_create("cpu", NULL, &context));
    ckv_context_destroy(context);
    setenv("CKV_DISABLE", "opencl,cuda,hip", 1); /* no GPU, no question */
    assert_ok(test_create(NULL, NULL, &context));
    assert_string_equal(test_chosen(context), "cpu:0");
    ckv_context_destroy(context);
    setenv("CKV_DISABLE", "opencl", 1);
    unsetenv("CKV_GPU_NORM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_is_asked_for),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_first_launch_fails),
        cmocka_unit_test(test_first_kernel_faults),
        cmocka_unit_test(test_all_lost),
        cmocka_unit_test(test_selectors),
        cmocka_unit_test(test_route_that_is_not_there),
    };
    setenv("CKV_SIM_CUDA", "sm_90,sm_75", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx1100", 1);
    setenv("CKV_KERNEL_CACHE", "off", 1);
    setenv("CKV_DISABLE", "opencl", 1);
    unsetenv("CKV_BACKEND");
    unsetenv("CKV_DEVICE");
    unsetenv("CKV_GPU_NORM");
    absent = test_sim_load();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
