/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: named, checked, settled in their order, and without a trace in any result. */
#include "unit.h"

#include <stdlib.h>

static void open_layer(test_problem *p, const char *backend, const char *parameters)
{
    test_problem_init(p, 2, 3, 401, 16, 40, 33, 1030);
    test_problem_build(p);
    test_problem_randomize(p, 77);
    p->options.backend = backend;
    p->options.parameters = parameters;
}

static int32_t index_of(const ckv_context *context, const char *name)
{
    for (int32_t i = 0; i < ckv_tunable_count(context); i++) {
        ckv_tunable_info info = {.struct_size = sizeof info};
        assert_ok(ckv_tunable_query(context, i, &info));
        if (strcmp(info.name, name) == 0)
            return i;
    }
    fail_msg("no tunable %s", name);
    return -1;
}

static ckv_parameter value_of(const test_problem *p, const char *name)
{
    ckv_parameter parameter = {.struct_size = sizeof parameter};
    assert_ok(ckv_plan_parameter(p->plan, index_of(p->context, name), &parameter));
    return parameter;
}

static void test_tunables_are_whole(void **state)
{
    ckv_context_options options;
    (void)state;
    ckv_context_options_init(&options);
    options.backend = "cpu";
    ckv_context *context;
    assert_ok(ckv_context_create(&options, &context));
    assert_true(ckv_tunable_count(context) > 1);
    for (int32_t i = 0; i < ckv_tunable_count(context); i++) {
        ckv_tunable_info info = {.struct_size = sizeof info};
        int32_t allowed = 0;
        assert_ok(ckv_tunable_query(context, i, &info));
        assert_true(info.stage[0] != '\0' && info.name[0] != '\0' && info.meaning[0] != '\0');
        for (int32_t v = 0; v < info.count; v++) {
            assert_true(v == 0 || info.values[v] > info.values[v - 1]);
            allowed += ckv_tunable_allows(context, i, info.values[v]);
        }
        assert_true(allowed > 0);
        assert_false(ckv_tunable_allows(context, i, -7));
        for (int32_t other = 0; other < i; other++) {
            ckv_tunable_info before = {.struct_size = sizeof before};
            assert_ok(ckv_tunable_query(context, other, &before));
            assert_string_not_equal(before.name, info.name);
        }
    }
    ckv_tunable_info info = {.struct_size = sizeof info};
    assert_int_equal(ckv_tunable_query(context, ckv_tunable_count(context), &info), CKV_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ckv_tunable_query(NULL, 0, &info), CKV_ERROR_INVALID_ARGUMENT);
    assert_int_equal(ckv_tunable_count(NULL), 0);
    ckv_context_destroy(context);
}

static void test_order(void **state)
{
    test_problem p;
    (void)state;
    open_layer(&p, "cpu", NULL);
    assert_ok(test_problem_open(&p));
    assert_string_equal(ckv_source_string(value_of(&p, "norm_block").source), "model");
    test_problem_close(&p);

    setenv("CKV_PARAMETERS", "cuda.norm_block=7,cpu.norm_block=192", 1);
    open_layer(&p, "cpu", NULL);
    assert_ok(test_problem_open(&p));
    assert_int_equal(value_of(&p, "norm_block").value, 192);
    assert_string_equal(ckv_source_string(value_of(&p, "norm_block").source), "environment");
    test_problem_close(&p);

    open_layer(&p, "cpu", "norm_block=384");
    assert_ok(test_problem_open(&p));
    assert_int_equal(value_of(&p, "norm_block").value, 384);
    assert_string_equal(ckv_source_string(value_of(&p, "norm_block").source), "override");
    test_problem_close(&p);
    unsetenv("CKV_PARAMETERS");

    open_layer(&p, "cpu", "isa=portable");
    assert_ok(test_problem_open(&p));
    assert_string_equal(p.info.device, "portable");
    test_problem_close(&p);
    assert_string_equal(ckv_source_string(0), "none");
    assert_string_equal(ckv_source_string(-1), "unknown");
}

static void test_errors_name_what_is_wanted(void **state)
{
    static const struct {
        const char *given, *detail;
    } cases[] = {
        {"norm_block", "options: parameters: 'norm_block', wanted NAME=VALUE"},
        {"=4", "options: parameters: '=4', wanted NAME=VALUE"},
        {"norm_block=", "options: parameters: 'norm_block=', wanted NAME=VALUE"},
        {"norm_blok=96", "'norm_blok=96': backend 'cpu' has no such parameter, wanted one of: isa, norm_block"},
        {"norm_block=97", "'norm_block=97': this device takes no such value, wanted one of: 96, 192, 288, 384"},
        {"norm_block=-96", "'norm_block=-96': this device takes no such value"},
        {"norm_block=99999999999999999999", "this device takes no such value"},
        {"norm_block=4294967392", "this device takes no such value"},
        {"norm_block=96,isa=sse9", "'isa=sse9': this device takes no such value, wanted one of: "},
        {"isa=1", "'isa=1': this device takes no such value"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckv_context_options options;
        ckv_context *context;
        ckv_context_options_init(&options);
        options.backend = "cpu";
        options.parameters = cases[i].given;
        assert_int_equal(ckv_context_create(&options, &context), CKV_ERROR_INVALID_ARGUMENT);
        assert_null(context);
        if (strstr(ckv_error_detail(), cases[i].detail) == NULL)
            fail_msg("'%s' gives: %s", cases[i].given, ckv_error_detail());
    }
}

/* Every value of every tunable by itself, against the reference's bits. */
static void test_no_value_shows(void **state)
{
    test_problem want, got;
    (void)state;
    open_layer(&want, "ref", NULL);
    assert_ok(test_problem_open(&want));
    assert_ok(test_stages(&want));
    open_layer(&got, "cpu", NULL);
    assert_ok(test_problem_open(&got));
    for (int32_t i = 0; i < ckv_tunable_count(got.context); i++) {
        ckv_tunable_info info = {.struct_size = sizeof info};
        assert_ok(ckv_tunable_query(got.context, i, &info));
        for (int32_t v = 0; v < info.count; v++) {
            char text[80];
            test_problem forced;
            if (!ckv_tunable_allows(got.context, i, info.values[v]))
                continue;
            if (info.labels != NULL)
                snprintf(text, sizeof text, "%s=%s", info.name, info.labels[v]);
            else
                snprintf(text, sizeof text, "%s=%d", info.name, (int)info.values[v]);
            open_layer(&forced, "cpu", text);
            assert_ok(test_problem_open(&forced));
            assert_int_equal(value_of(&forced, info.name).value, info.values[v]);
            assert_ok(test_stages(&forced));
            assert_true(test_hash_attention(&want) == test_hash_attention(&forced));
            assert_true(test_hash_norm(&want) == test_hash_norm(&forced));
            assert_true(test_hash_selection(&want) == test_hash_selection(&forced));
            memset(forced.positions.data, 0x77, forced.positions.size);
            assert_ok(test_evict(&forced)); /* norms left out */
            assert_true(test_hash_selection(&want) == test_hash_selection(&forced));
            assert_true(test_all_intact(&forced));
            test_problem_close(&forced);
        }
    }
    test_problem_close(&want);
    test_problem_close(&got);
}

/* Enough ranks that a sample is taken of them, and few different ones, so that it misleads. */
static void test_samples(void **state)
{
    static const char *const given[] = {"select_sample=512", "select_sample=2048", "select_sample=8192"};
    (void)state;
    for (int64_t kinds = 3; kinds < 2000000; kinds *= 997)
        for (int64_t budget = 1; budget < 40000; budget = budget * 7 + 1) {
            uint64_t want = 0;
            for (int i = -1; i < 3; i++) {
                test_problem p;
                test_random r = test_seed(5);
                test_problem_init_select(&p, 1, 40000, budget);
                p.options.backend = i < 0 ? "ref" : "cpu";
                p.options.parameters = i < 0 ? NULL : given[i];
                assert_ok(test_problem_open(&p));
                for (int64_t k = 0; k < 40000; k++) {
                    /* floats from 1 on */
                    test_put_bits(&p.attention, 0, 0, k, 0x3f800000u + (uint32_t)test_between(&r, 1, kinds));
                    test_put_bits(&p.norm, 0, 0, k, 0x3f800000u + (uint32_t)test_between(&r, 1, kinds));
                }
                assert_ok(test_select(&p));
                if (i < 0)
                    want = test_hash_selection(&p);
                assert_true(test_hash_selection(&p) == want);
                test_problem_close(&p);
            }
        }
}

int main(void)
{
    unsetenv("CKV_PARAMETERS");
    unsetenv("CKV_CPU_ISA");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tunables_are_whole),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_errors_name_what_is_wanted),
        cmocka_unit_test(test_no_value_shows),
        cmocka_unit_test(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
