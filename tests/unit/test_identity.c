/* SPDX-License-Identifier: Apache-2.0 */
/* Names of devices, and classes of problems: what is one chip has one name, what is one
 * problem has one bucket. */
#include "unit.h"

#include "lib/bucket.h"
#include "lib/identity.h"

static void test_names(void **state)
{
    static const struct {
        const char *vendor, *name, *want_vendor, *want_name;
    } cases[] = {
        {"NVIDIA", "NVIDIA H100 80GB HBM3", "nvidia", "h100-80gb-hbm3"},
        {"NVIDIA Corporation", "H100 80GB HBM3", "nvidia", "h100-80gb-hbm3"},
        {"NVIDIA Corporation", "NVIDIA GeForce RTX 4090", "nvidia", "geforce-rtx-4090"},
        {"NVIDIA", "GeForce RTX 4090", "nvidia", "geforce-rtx-4090"},
        {"AMD", "AMD Radeon RX 7900 XTX", "amd", "radeon-rx-7900-xtx"},
        {"Advanced Micro Devices, Inc.", "Radeon RX 7900 XTX", "amd", "radeon-rx-7900-xtx"},
        {"Advanced Micro Devices, Inc. ", "AMD  Radeon (TM)   RX 7900 XTX (rev c8)", "amd", "radeon-rx-7900-xtx"},
        {"GenuineIntel", "Intel(R) Xeon(R) Platinum 8488C CPU @ 2.40GHz", "intel", "xeon-platinum-8488c"},
        {"Intel(R) Corporation", "Xeon(R) Platinum 8488C", "intel", "xeon-platinum-8488c"},
        {"GenuineIntel", "13th Gen Intel(R) Core(TM) i9-13900K", "intel", "core-i9-13900k"},
        {"GenuineIntel", "      Intel(R) Core(TM) i9-13900K CPU @ 3.00GHz", "intel", "core-i9-13900k"},
        {"AuthenticAMD", "AMD EPYC 7B13 64-Core Processor", "amd", "epyc-7b13"},
        {"AuthenticAMD", "AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "amd", "ryzen-7-7840u-w/-radeon-780m-graphics"},
        {"AuthenticAMD", "AMD Ryzen 7 5800H with Radeon Graphics", "amd", "ryzen-7-5800h"},
        {"The pocl project", "cpu-haswell-AMD EPYC", "pocl", "cpu-haswell-amd-epyc"},
        {"", "", "", ""},
        {"\xff\xfe", "caf\xc3\xa9 \"quoted\" \\ \x01", "", "caf-quoted"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_device_identity d = {.units = 3};
        snprintf(d.vendor, sizeof d.vendor, "%s", cases[i].vendor);
        snprintf(d.name, sizeof d.name, "%s", cases[i].name);
        snprintf(d.arch, sizeof d.arch, "GFX90a:sramecc+\x80");
        for (int again = 0; again < 2; again++) { /* a name is the name of itself */
            ckv_identity_normalise(&d);
            assert_string_equal(d.vendor, cases[i].want_vendor);
            assert_string_equal(d.name, cases[i].want_name);
            assert_string_equal(d.arch, "gfx90a:sramecc+?");
        }
    }
}

static void test_names_stay_apart(void **state)
{
    static const char *const names[] = {"NVIDIA A100-SXM4-40GB",   "NVIDIA A100-SXM4-80GB",
                                        "NVIDIA A100 80GB PCIe",   "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                                        "NVIDIA GeForce RTX 4080", "NVIDIA GeForce RTX 4080 SUPER"};
    char a[128], b[128];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t k = 0; k < i; k++) {
            ckv_identity_name(a, sizeof a, names[i], "nvidia");
            ckv_identity_name(b, sizeof b, names[k], "nvidia");
            assert_string_not_equal(a, b);
        }
}

static void test_long_names(void **state)
{
    char text[1000], small[8];
    ckv_device_identity d = {.units = 0};
    (void)state;
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = i % 9 == 8 ? ' ' : 'x';
    text[sizeof text - 1] = '\0';
    ckv_identity_name(small, sizeof small, text, "");
    assert_string_equal(small, "xxxxxxx");
    memset(d.name, 'y', sizeof d.name - 1);
    ckv_identity_normalise(&d);
    assert_true(strlen(d.name) < sizeof d.name);
}

static void test_architectures(void **state)
{
    (void)state;
    assert_true(ckv_identity_same_arch("gfx90a:sramecc+:xnack-", "gfx90a"));
    assert_true(ckv_identity_same_arch("sm_90", "sm_90"));
    assert_false(ckv_identity_same_arch("sm_90", "sm_9"));
    assert_false(ckv_identity_same_arch("sm_90", "sm_90a"));
    assert_false(ckv_identity_same_arch("", ""));
    assert_false(ckv_identity_same_arch(":a", ":a"));
}

/* ------------------------------------------------------------------ buckets */

static const ckv_problem layer = {5000, 32, 2000, 32, 8, 96, 128, 4096};

static void assert_bucket(const char *stage, ckv_tuning_scope scope, const int32_t *want)
{
    ckv_bucket b;
    ckv_bucket_of(&layer, stage, scope, &b);
    for (int i = 0; i < CKV_BUCKET_SIZES; i++)
        if (b.size[i] != want[i])
            fail_msg("%s: %s is %d, wanted %d", stage, ckv_bucket_names[i], (int)b.size[i], (int)want[i]);
}

static void test_sizes_of_stages(void **state)
{
    (void)state;
    /* tokens, window, query_heads, kv_heads, group, head_dim, value_dim, hidden */
    assert_bucket("score", CKV_TUNE_PLAN, (const int32_t[]){8192, 32, 0, 8, 4, 96, 0, 0});
    assert_bucket("norm", CKV_TUNE_PLAN, (const int32_t[]){8192, 0, 0, 8, 4, 0, 128, 4096});
    assert_bucket("select", CKV_TUNE_PLAN, (const int32_t[]){8192, 0, 0, 8, 0, 0, 0, 0});
    assert_bucket("compact", CKV_TUNE_PLAN, (const int32_t[]){8192, 0, 0, 8, 0, 0, 0, 0});
    assert_bucket("evict", CKV_TUNE_PLAN, (const int32_t[]){8192, 0, 0, 8, 4, 0, 128, 4096});
    assert_bucket("all", CKV_TUNE_PLAN, (const int32_t[]){8192, 32, 0, 8, 4, 96, 128, 4096});
    assert_bucket("norm", CKV_TUNE_PROJECTION, (const int32_t[]){0, 0, 32, 0, 0, 0, 128, 4096});
    assert_bucket("norm", CKV_TUNE_CONTEXT, (const int32_t[]){0, 0, 0, 0, 0, 0, 0, 0});
}

static void test_powers_of_two(void **state)
{
    static const struct {
        int64_t tokens;
        int32_t want;
    } cases[] = {{0, 0},
                 {1, 1},
                 {2, 2},
                 {3, 4},
                 {4096, 4096},
                 {4097, 8192},
                 {8191, 8192},
                 {8192, 8192},
                 {4194304, 4194304},
                 {INT64_MAX, 1 << 30}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_problem p = layer;
        ckv_bucket b;
        p.tokens = cases[i].tokens;
        ckv_bucket_of(&p, "select", CKV_TUNE_PLAN, &b);
        assert_int_equal(b.size[CKV_BUCKET_TOKENS], cases[i].want);
    }
}

static void test_distance(void **state)
{
    ckv_problem p = layer;
    ckv_bucket here, near, far, without;
    (void)state;
    ckv_bucket_of(&layer, "norm", CKV_TUNE_PLAN, &here);
    p.tokens *= 2;
    ckv_bucket_of(&p, "norm", CKV_TUNE_PLAN, &near);
    p.hidden *= 3;
    ckv_bucket_of(&p, "norm", CKV_TUNE_PLAN, &far);
    p.hidden = 0;
    ckv_bucket_of(&p, "norm", CKV_TUNE_PLAN, &without);
    assert_true(ckv_bucket_equal(&here, &here) && ckv_bucket_distance(&here, &here) == 0);
    assert_false(ckv_bucket_equal(&here, &near));
    assert_true(ckv_bucket_distance(&here, &near) == 1.0);
    assert_true(ckv_bucket_distance(&near, &here) == 1.0);
    assert_true(ckv_bucket_distance(&here, &far) > ckv_bucket_distance(&here, &near));
    assert_true(ckv_bucket_distance(&here, &without) > ckv_bucket_distance(&here, &far));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),           cmocka_unit_test(test_names_stay_apart),
        cmocka_unit_test(test_long_names),      cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_sizes_of_stages), cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
