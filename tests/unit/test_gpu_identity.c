/* SPDX-License-Identifier: Apache-2.0 */
/* What pretended GPUs are, as entries of tuning files have it: two of a kind are one, others
 * are not, and their numbers play no part. */
#include "unit.h"

#include <stdlib.h>

#include "lib/context.h"
#include "lib/tuning_store.h"
#include "sim.h"

static const char *absent; /* why there are no pretended devices */

static ckv_tuning_entry identity_of(const char *backend, const char *device)
{
    ckv_context_options options;
    ckv_context *context;
    ckv_tuning_info info = {.struct_size = sizeof info};
    ckv_tuning_entry self;
    ckv_context_options_init(&options);
    options.backend = backend;
    options.device = device;
    assert_ok(ckv_context_create(&options, &context));
    self = context->tuning->self;
    assert_ok(ckv_tuning_status(context, &info));
    assert_non_null(strstr(info.device, self.device.arch));
    ckv_context_destroy(context);
    return self;
}

static void test_devices_of(const char *backend, const char *vendor, const char *arch)
{
    ckv_tuning_entry first, second, third;
    if (absent != NULL)
        skip_because(absent);
    first = identity_of(backend, "0");
    second = identity_of(backend, "1");
    third = identity_of(backend, "2");
    assert_string_equal(first.backend, backend);
    assert_string_equal(first.device.vendor, vendor);
    assert_string_equal(first.device.arch, arch);
    assert_string_equal(first.library, ckv_version());
    assert_true(first.device.name[0] != '\0' && first.device.driver[0] != '\0' && first.device.kernels != 0);
    assert_true(first.device.units > 0 && first.device.local_bytes > 0);
    assert_int_equal(first.device.memory_bytes % (1 << 30), 0);
    assert_true(ckv_tuning_same_device(&first, &third) && ckv_tuning_same_code(&first, &third));
    assert_false(ckv_tuning_same_device(&first, &second));
    assert_true(ckv_tuning_same_code(&first, &second));
}

static void test_cuda(void **state)
{
    (void)state;
    test_devices_of("cuda", "nvidia", "sm_90");
}

static void test_hip(void **state)
{
    (void)state;
    test_devices_of("hip", "amd", "gfx942:sramecc+:xnack-");
}

/* Each has a text of its own. */
static void test_kernels(void **state)
{
    ckv_tuning_entry cuda, hip;
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    cuda = identity_of("cuda", "0");
    hip = identity_of("hip", "0");
    assert_true(cuda.device.kernels != hip.device.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuda), cmocka_unit_test(test_hip),
                                       cmocka_unit_test(test_kernels)};
    setenv("CKV_SIM_CUDA", "sm_90,sm_75,sm_90", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx1100,gfx942:sramecc+:xnack-", 1);
    setenv("CKV_KERNEL_CACHE", "off", 1);
    setenv("CKV_TUNE_CACHE", "off", 1);
    absent = test_sim_load();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
