/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: the defaults, and the range of each field. */
#include "unit.h"

#include <math.h>

#include "policy.h"

static void test_defaults(void **state)
{
    (void)state;
    ckv_policy policy, read;
    memset(&policy, 0x77, sizeof policy);
    ckv_policy_init(&policy);
    assert_int_equal(policy.struct_size, sizeof policy);
    assert_int_equal(policy.budget, -1);
    assert_int_equal(policy.keep.numerator, 2);
    assert_int_equal(policy.keep.denominator, 5);
    assert_int_equal(policy.alpha.numerator, 1);
    assert_int_equal(policy.alpha.denominator, 2);
    assert_int_equal(test_bits(policy.epsilon), test_bits(1e-4f));
    assert_int_equal(test_bits(policy.scale), 0);
    assert_int_equal(policy.window, 32);
    assert_int_equal(policy.recent, -1);
    assert_int_equal(policy.sinks, 0);
    assert_int_equal(policy.pool, CKV_POOL_MAX);
    assert_int_equal(policy.pool_width, 7);
    assert_int_equal(policy.skip, 1);
    ckv_policy_init(NULL);
    memset(&read, 0x77, sizeof read);
    assert_ok(ckv_policy_read(&read, NULL));
    assert_memory_equal(&read, &policy, sizeof policy);
    assert_ok(ckv_policy_read(&read, &policy));
    assert_memory_equal(&read, &policy, sizeof policy);
}

static ckv_status read_changed(void (*change)(ckv_policy *policy, int64_t value), int64_t value)
{
    ckv_policy policy, read;
    ckv_policy_init(&policy);
    change(&policy, value);
    return ckv_policy_read(&read, &policy);
}

static void set_budget(ckv_policy *p, int64_t v)
{
    p->budget = v;
}
static void set_window(ckv_policy *p, int64_t v)
{
    p->window = (int32_t)v;
}
static void set_recent(ckv_policy *p, int64_t v)
{
    p->recent = (int32_t)v;
}
static void set_sinks(ckv_policy *p, int64_t v)
{
    p->sinks = (int32_t)v;
}
static void set_pool(ckv_policy *p, int64_t v)
{
    p->pool = (ckv_pool)v;
}
static void set_width(ckv_policy *p, int64_t v)
{
    p->pool_width = (int32_t)v;
}

static void set_skip(ckv_policy *p, int64_t v)
{
    p->skip = (int32_t)v;
}

static void test_integers(void **state)
{
    (void)state;
    const struct {
        const char *name;
        void (*change)(ckv_policy *policy, int64_t value);
        int64_t least, most;
    } fields[] = {
        {"budget", set_budget, -1, INT64_MAX},
        {"window", set_window, 0, INT32_MAX},
        {"recent", set_recent, -1, INT32_MAX},
        {"sinks", set_sinks, 0, INT32_MAX},
        {"pool", set_pool, 0, 2},
        {"pool_width", set_width, 1, INT32_MAX},
        {"skip", set_skip, 0, 1},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_ok(read_changed(fields[i].change, fields[i].least));
        assert_ok(read_changed(fields[i].change, fields[i].most));
        assert_fails(read_changed(fields[i].change, fields[i].least - 1), CKV_ERROR_INVALID_ARGUMENT, fields[i].name);
        assert_fails(read_changed(fields[i].change, INT32_MIN), CKV_ERROR_INVALID_ARGUMENT, fields[i].name);
    }
    assert_fails(read_changed(set_pool, 3), CKV_ERROR_INVALID_ARGUMENT, "pool 3");
    assert_fails(read_changed(set_skip, 2), CKV_ERROR_INVALID_ARGUMENT, "policy: skip 2, wanted 0 or 1");
}

static ckv_status read_numbers(float epsilon, float scale)
{
    ckv_policy policy, read;
    ckv_policy_init(&policy);
    policy.epsilon = epsilon;
    policy.scale = scale;
    return ckv_policy_read(&read, &policy);
}

static void test_numbers(void **state)
{
    (void)state;
    const float epsilon = 1e-4f;
    assert_ok(read_numbers(0x1p-24f, 0.0f));
    assert_ok(read_numbers(1.0f, -0.0f));
    assert_ok(read_numbers(epsilon, 0x1p-40f));
    assert_ok(read_numbers(epsilon, 0x1p40f));
    const float no_epsilon[] = {0.0f,      -1e-4f, nextafterf(0x1p-24f, 0.0f), nextafterf(1.0f, 2.0f), INFINITY,
                                -INFINITY, NAN};
    for (size_t i = 0; i < sizeof no_epsilon / sizeof no_epsilon[0]; i++)
        assert_fails(read_numbers(no_epsilon[i], 0.0f), CKV_ERROR_INVALID_ARGUMENT, "epsilon");
    const float no_scale[] = {-1.0f, nextafterf(0x1p-40f, 0.0f), nextafterf(0x1p40f, INFINITY), INFINITY, NAN, 1e-45f};
    for (size_t i = 0; i < sizeof no_scale / sizeof no_scale[0]; i++)
        assert_fails(read_numbers(epsilon, no_scale[i]), CKV_ERROR_INVALID_ARGUMENT, "scale");
}

static void test_ratios(void **state)
{
    (void)state;
    ckv_policy policy, read;
    ckv_policy_init(&policy);
    policy.keep = (ckv_ratio){2, 1};
    assert_fails(ckv_policy_read(&read, &policy), CKV_ERROR_INVALID_ARGUMENT, "keep");
    policy.budget = 0; /* then keep is not read */
    assert_ok(ckv_policy_read(&read, &policy));
    policy.alpha = (ckv_ratio){-1, 1};
    assert_fails(ckv_policy_read(&read, &policy), CKV_ERROR_INVALID_ARGUMENT, "alpha");
}

static void test_struct_sizes(void **state)
{
    (void)state;
    struct {
        ckv_policy policy;
        unsigned char later[16];
    } given;
    ckv_policy read;
    memset(&given, 0, sizeof given);
    ckv_policy_init(&given.policy);
    given.policy.struct_size = sizeof given;
    assert_ok(ckv_policy_read(&read, &given.policy));
    given.later[15] = 1;
    assert_fails(ckv_policy_read(&read, &given.policy), CKV_ERROR_INVALID_ARGUMENT, "policy: byte");
    given.policy.struct_size = offsetof(ckv_policy, skip); /* built before there was such a field */
    given.policy.skip = 77;
    assert_ok(ckv_policy_read(&read, &given.policy));
    assert_int_equal(read.skip, 1);
    given.policy.struct_size = offsetof(ckv_policy, pool_width);
    assert_fails(ckv_policy_read(&read, &given.policy), CKV_ERROR_INVALID_ARGUMENT, "policy: struct_size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_integers),     cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_ratios),   cmocka_unit_test(test_struct_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
