/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever is tuned of the GPU backends, the bits are the reference's: each value of each
 * tunable on pretended devices of every kind and on PoCL, and mixtures of them.  What a
 * device cannot run is not offered.
 */
#include "unit.h"

#include <stdlib.h>

#include "backends/gpu/costs.h"
#include "backends/gpu/tunables.h"
#include "compare.h"
#include "sim.h"

static const char *absent;

typedef struct place {
    const char *backend, *device;
} place;

/* As main() lists them. */
static const place places[] = {{"cuda", "0"}, {"cuda", "1"}, {"hip", "0"},   {"hip", "1"},
                               {"hip", "2"},  {"hip", "3"},  {"opencl", "0"}};
enum { PLACES = sizeof places / sizeof places[0] };

/* Two layers: one that the matrix routes take, skipping norms, with more rows than a
 * work-group; and one of 10 bits with every norm, more keys than a tile and more heads of a
 * group than a wave of two. */
static void draw(test_problem *p, int which, const place *at, const char *parameters)
{
    test_problem_init(p, 1, which == 0 ? 2 : 3, which == 0 ? 140 : 300, 6, which == 0 ? 8 : 17, which == 0 ? 40 : 6,
                      which == 0 ? 1025 : 24);
    p->policy.budget = 30;
    p->policy.window = 5;
    p->policy.skip = which == 0;
    p->dtype[TEST_KEY] = which == 0 ? CKV_BF16 : CKV_F32;
    p->layout[TEST_VALUE] = which == 0 ? TEST_DENSE : TEST_TOKENS_FIRST;
    p->low[TEST_WEIGHT] = -3;
    p->high[TEST_WEIGHT] = 0;
    p->options.backend = at == NULL ? "ref" : at->backend;
    p->options.device = at == NULL ? NULL : at->device;
    p->options.parameters = parameters;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)which + 21);
}

static test_outcome solve(int which, const place *at, const char *parameters)
{
    test_problem p;
    draw(&p, which, at, parameters);
    if (test_problem_open(&p) != CKV_OK)
        fail_msg("%s: %s", parameters, ckv_error_detail());
    const test_outcome o = test_solved(&p);
    test_problem_close(&p);
    return o;
}

static const char *name_value(const ckv_tunable *t, int32_t i, char *text, size_t size)
{
    if (t->labels != NULL)
        snprintf(text, size, "%s=%s", t->name, t->labels[i]);
    else
        snprintf(text, size, "%s=%d", t->name, (int)t->values[i]);
    return text;
}

static int is_there(const place *at)
{
    if (strcmp(at->backend, "opencl") == 0)
        return ckv_backend_opencl.device_count() > 0;
    return absent == NULL;
}

static void check_place(const place *at)
{
    const test_outcome want[2] = {solve(0, NULL, NULL), solve(1, NULL, NULL)};
    test_problem p;
    int ran = 0, refused = 0;
    if (!is_there(at))
        skip_because(absent != NULL ? absent : ckv_backend_opencl.absence());
    draw(&p, 1, at, NULL);
    assert_ok(test_problem_open(&p));
    for (int32_t i = 0; i < CKV_GPU_TUNABLES; i++)
        for (int32_t v = 0; v < ckv_gpu_tunables[i].count; v++) {
            char text[64];
            name_value(&ckv_gpu_tunables[i], v, text, sizeof text);
            if (!ckv_tunable_allows(p.context, i, ckv_gpu_tunables[i].values[v])) {
                test_problem q;
                draw(&q, 1, at, text);
                assert_fails(test_problem_open(&q), CKV_ERROR_INVALID_ARGUMENT, "this device takes no such value");
                test_problem_close(&q);
                refused++;
                continue;
            }
            for (int layer = 0; layer < 2; layer++)
                if (test_share(0, 0, 1) || layer == (strcmp(ckv_gpu_tunables[i].stage, "score") == 0)) {
                    test_assert_same(text, layer, want[layer], solve(layer, at, text));
                    ran++;
                }
        }
    test_problem_close(&p);
    printf("# %s %s: %d runs, %d values refused\n", at->backend, at->device, ran, refused);
    assert_true(ran >= 20);
}

#define CHECK(test, number)                                                                                            \
    static void test(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_place(&places[number]);                                                                                  \
        if (absent == NULL)                                                                                            \
            assert_string_equal(sim.ckv_sim_complaint(), "");                                                          \
    }
CHECK(test_sm_90, 0)
CHECK(test_sm_75, 1)
CHECK(test_gfx942, 2)
CHECK(test_gfx1100, 3)
CHECK(test_gfx1201, 4)
CHECK(test_gfx90a, 5)
CHECK(test_opencl, 6)

/* Several at once: values drawn of each. */
static void test_mixtures(void **state)
{
    const test_outcome want[2] = {solve(0, NULL, NULL), solve(1, NULL, NULL)};
    (void)state;
    for (int number = 0; number < test_share(7, 14, 35); number++) {
        const place *at = &places[number % PLACES];
        test_random r = test_seed((uint64_t)number + 1);
        char all[400] = "", text[64];
        test_problem p;
        if (!is_there(at))
            continue;
        draw(&p, 1, at, NULL);
        assert_ok(test_problem_open(&p));
        for (int32_t i = 0; i < CKV_GPU_TUNABLES; i++) {
            const int32_t v = (int32_t)test_between(&r, 0, ckv_gpu_tunables[i].count - 1);
            if (!ckv_tunable_allows(p.context, i, ckv_gpu_tunables[i].values[v]))
                continue;
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] == '\0' ? "" : ",",
                     name_value(&ckv_gpu_tunables[i], v, text, sizeof text));
        }
        test_problem_close(&p);
        test_assert_same(all, number % 2, want[number % 2], solve(number % 2, at, all));
    }
}

/* ---------------------------------------------------------------- what is launched, what is offered */

/* The kernel of the value that was asked for, and no other of its family. */
static void test_variants_are_launched(void **state)
{
    static const struct {
        int place, which;
        const char *parameters, *launched, *other;
    } cases[] = {
        {0, 0, "score_keys=64", "launch ckv_row_sum_64\n", "launch ckv_row_sum_128\n"},
        {0, 0, "score_keys=256", "launch ckv_row_max_256\n", "launch ckv_row_max_128\n"},
        {0, 0, "attend_keys=64", "launch ckv_attend_64\n", "launch ckv_attend_128\n"},
        {0, 0, "norm_tiles=1", "launch ckv_norm_mma_64x1\n", "launch ckv_norm_mma_64\n"},
        {2, 0, "norm_tiles=1", "launch ckv_norm_mfma_64x1\n", "launch ckv_norm_mfma_64\n"},
        {0, 0, "norm_route=dot4", "launch ckv_norm_dot4\n", "launch ckv_norm_mma_64\n"},
        {0, 0, "norm_route=int,norm_int_rows=32", "launch ckv_norm_int_32\n", "launch ckv_norm_int_16\n"},
        {0, 0, "bound_rows=16", "launch ckv_bound_16\n", "launch ckv_bound_8\n"},
    };
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_problem p;
        draw(&p, cases[i].which, &places[cases[i].place], cases[i].parameters);
        assert_ok(test_problem_open(&p));
        sim.ckv_sim_log(1);
        assert_ok(test_evict(&p));
        const char *log = sim.ckv_sim_logged();
        if (strstr(log, cases[i].launched) == NULL || strstr(log, cases[i].other) != NULL)
            fail_msg("%s: launched was\n%s", cases[i].parameters, log);
        sim.ckv_sim_log(0);
        test_problem_close(&p);
    }
}

/* A device of small work-groups and little local memory: values whose kernels do not fit are not
 * offered, the model gives others, and with less still the device is not used. */
static void test_limits(void **state)
{
    static ckv_gpu gpu;
    ckv_context context = {.backend = &ckv_backend_cuda, .backend_state = &gpu};
    const ckv_problem problem = {.tokens = 1000, .window = 32, .query_heads = 8, .kv_heads = 2};
    (void)state;
    gpu.driver = &ckv_gpu_cuda;
    gpu.route = CKV_GPU_DOT4;
    for (int small = 0; small < 2; small++) {
        gpu.info.max_group = small ? 128 : 1024;
        gpu.info.local_bytes = small ? 20000 : 49152;
        for (int k = 0; k < CKV_GPU_KERNELS; k++)
            gpu.kernels[k] = ckv_gpu_kernel_fits(&gpu.info, k) ? &gpu : NULL;
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_SCORE_KEYS, 256), !small);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_SCORE_KEYS, 128), 1);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_ATTEND_KEYS, 128), !small);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_INT_ROWS, 32), !small);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_INT_ROWS, 8), 1);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_BOUND_ROWS, 16), !small);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_NORM_ROUTE, CKV_GPU_BY_DOT4), !small);
        assert_int_equal(ckv_gpu_tunable_allowed(&context, CKV_GPU_NORM_ROUTE, CKV_GPU_BY_MATRIX), 0);
        assert_int_equal(ckv_gpu_tunable_model(&context, &problem, CKV_GPU_INT_ROWS), small ? 8 : 16);
        assert_int_equal(ckv_gpu_tunable_model(&context, &problem, CKV_GPU_ATTEND_KEYS), small ? 64 : 128);
        for (int32_t i = 0; i < CKV_GPU_TUNABLES; i++)
            if (i != CKV_GPU_NORM_ROUTE)
                assert_true(ckv_gpu_tunable_allowed(&context, i, ckv_gpu_tunable_model(&context, &problem, i)));
    }
    gpu.kernels[CKV_GPU_ckv_row_sum_64] = gpu.kernels[CKV_GPU_ckv_row_sum_128] = NULL;
    assert_int_equal(ckv_gpu_tunable_model(&context, &problem, CKV_GPU_SCORE_KEYS), 0);
}

/* The model ranks: matrices before four bytes before integers, few launches before many, and it
 * knows every value that is offered. */
static void test_model_ranks(void **state)
{
    test_problem p;
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    test_problem_init(&p, 8, 4, 4096, 32, 128, 128, 4096);
    p.options.backend = "cuda";
    p.options.device = "0";
    assert_ok(ckv_context_create(&p.options, &p.context));
    assert_ok(ckv_plan_create(p.context, &p.shape, &p.policy, &p.plan));
    int32_t values[CKV_GPU_TUNABLES];
    double by_route[3], few = 0, many = 0;
    for (int32_t i = 0; i < CKV_GPU_TUNABLES; i++) {
        ckv_parameter parameter = {.struct_size = sizeof parameter};
        assert_ok(ckv_plan_parameter(p.plan, i, &parameter));
        values[i] = parameter.value;
    }
    for (int32_t i = 0; i < CKV_GPU_TUNABLES; i++) {
        const int32_t own = values[i];
        for (int32_t v = 0; v < ckv_gpu_tunables[i].count; v++) {
            double seconds = 0;
            values[i] = ckv_gpu_tunables[i].values[v];
            assert_ok(ckv_estimate(p.plan, ckv_gpu_tunables[i].stage, values, &seconds));
            assert_true(seconds > 1e-6 && seconds < 10);
            if (i == CKV_GPU_NORM_ROUTE)
                by_route[v] = seconds;
        }
        values[i] = own;
    }
    assert_true(by_route[CKV_GPU_BY_MATRIX] < by_route[CKV_GPU_BY_DOT4]);
    assert_true(by_route[CKV_GPU_BY_DOT4] < by_route[CKV_GPU_BY_INT]);
    values[CKV_GPU_SCORE_WAVE] = 4;
    assert_ok(ckv_estimate(p.plan, "score", values, &few));
    values[CKV_GPU_SCORE_WAVE] = 1;
    assert_ok(ckv_estimate(p.plan, "score", values, &many));
    assert_true(few < many);
    ckv_plan_destroy(p.plan);
    ckv_context_destroy(p.context);
}

/* A shape worked out by hand; a wider tile asks less of the caches and nothing else. */
static void test_costs(void **state)
{
    ckv_gpu_cost_shape s = {.n = 1024,
                            .hq = 8,
                            .hkv = 2,
                            .d = 64,
                            .dv = 32,
                            .hidden = 512,
                            .w = 32,
                            .budget = 100,
                            .size = 2,
                            .keys = 128,
                            .rows = 64};
    const ckv_gpu_cost max = ckv_gpu_cost_of(CKV_GPU_COST_ckv_row_max, &s),
                       norm = ckv_gpu_cost_of(CKV_GPU_COST_ckv_norm, &s);
    (void)state;
    assert_true(max.fp32 == 33554432.0 && max.int8 == 0 && max.bytes == 262144.0);
    assert_true(max.traffic == 8 * 1024 * 64 * 2 + 8 * 8 * 32 * 64 * 4);
    assert_true(norm.int8 == 536870912.0 && norm.fp32 == 0 && norm.bytes == 131072.0 + 131072.0 + 8192.0);
    s.keys = 256;
    s.rows = 128;
    const ckv_gpu_cost wide = ckv_gpu_cost_of(CKV_GPU_COST_ckv_row_max, &s),
                       tall = ckv_gpu_cost_of(CKV_GPU_COST_ckv_norm, &s);
    assert_true(wide.fp32 == max.fp32 && wide.bytes == max.bytes && wide.traffic < max.traffic);
    assert_true(tall.int8 == norm.int8 && tall.bytes == norm.bytes && tall.traffic < norm.traffic);
    for (int family = 0; family < CKV_GPU_COSTS; family++)
        assert_true(ckv_gpu_cost_of(family, &s).bytes > 0);
    assert_true(ckv_gpu_cost_of(CKV_GPU_COSTS, &s).bytes == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs),   cmocka_unit_test(test_model_ranks),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_variants_are_launched),
        cmocka_unit_test(test_sm_90),   cmocka_unit_test(test_sm_75),
        cmocka_unit_test(test_gfx942),  cmocka_unit_test(test_gfx1100),
        cmocka_unit_test(test_gfx1201), cmocka_unit_test(test_gfx90a),
        cmocka_unit_test(test_opencl),  cmocka_unit_test(test_mixtures),
    };
    setenv("CKV_KERNEL_CACHE", "off", 1);
    setenv("CKV_SIM_CUDA", "sm_90,sm_75", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx1100,gfx1201,gfx90a:sramecc+:xnack-", 1);
    absent = test_sim_load();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
