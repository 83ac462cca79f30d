/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every route of the norm on GPUs gives the reference's bits: over widths of V, both
 * divisions of the 22 bits, groups, columns of zeros and of every shift.  Matrix
 * instructions run on pretended devices.
 */
#include "unit.h"

#include <stdlib.h>

#include "backends/gpu/gpu.h"
#include "sim.h"

static const char *absent; /* why there are no pretended devices */

/* A device, the route asked of it, and that of weights of 10 bits. */
typedef struct way {
    const char *backend, *device, *name;
    ckv_gpu_route route, wide;
} way;

/* `column` of W times 2^by, for every head. */
static void scale_column(test_problem *p, int32_t column, int by)
{
    const test_tensor *w = &p->tensor[TEST_WEIGHT];
    for (int64_t k = 0; k < w->cells.shape[2]; k++) {
        const uint32_t bits = test_get_bits(w, 0, column, k);
        if ((bits & 0x7f800000u) != 0u)
            test_put_bits(w, 0, column, k, bits + ((uint32_t)by << 23));
    }
}

static void draw(test_problem *p, int number, int32_t value_dim, int32_t hidden)
{
    test_random r = test_seed((uint64_t)number * 77u + 5u);
    int64_t tokens = test_between(&r, 1, number % 4 == 0 ? 140 : 20);
    test_problem_init(p, (int32_t)test_between(&r, 1, 2), (int32_t)test_between(&r, 1, 3), tokens, 0, 0, value_dim,
                      hidden);
    p->policy.window = 0;
    p->dtype[TEST_VALUE] = (ckv_dtype)(CKV_F32 + number % 3);
    p->dtype[TEST_WEIGHT] = CKV_F32;
    p->layout[TEST_VALUE] = (test_layout)(number % 2 == 0 ? TEST_DENSE : test_between(&r, 0, TEST_LAYOUTS - 1));
    p->low[TEST_VALUE] = number % 5 == 0 ? -30 : -3;
    p->high[TEST_VALUE] = number % 5 == 0 ? 30 : 3;
    p->low[TEST_WEIGHT] = -3;
    p->high[TEST_WEIGHT] = 0;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    for (int i = 0; i < 20; i++) /* shifts, and beyond 16 of them */
        scale_column(p, (int32_t)test_between(&r, 0, hidden - 1), -(int)test_between(&r, 0, 20));
    for (int i = 0; i < 3; i++) {
        int64_t j = test_between(&r, 0, hidden - 1);
        for (int64_t k = 0; k < p->tensor[TEST_WEIGHT].cells.shape[2]; k++)
            test_put_bits(&p->tensor[TEST_WEIGHT], 0, j, k, 0u);
    }
    if (number % 3 == 0) /* a channel that is dropped, a row that is zero, one with R + 1 */
        for (int64_t j = 0; j < hidden; j++)
            test_put_bits(&p->tensor[TEST_WEIGHT], 0, j, number % value_dim, 0u);
    for (int64_t k = 0; k < value_dim; k++)
        test_put_bits(&p->tensor[TEST_VALUE], 0, tokens / 2, k, 0u);
    if (p->dtype[TEST_VALUE] == CKV_F32)
        for (int64_t k = 0; k < value_dim; k++)
            test_put_bits(&p->tensor[TEST_VALUE], 0, 0, k, 0x3f7fffffu);
}

static void solve(test_problem *p, const way *w, int number, int32_t value_dim, int32_t hidden)
{
    draw(p, number, value_dim, hidden);
    p->options.backend = w == NULL ? "ref" : w->backend;
    p->options.device = w == NULL ? NULL : w->device;
    assert_ok(test_problem_open(p));
    assert_ok(test_norm(p));
    assert_true(test_all_intact(p));
}

static void compare(const way *w, int number, int32_t value_dim, int32_t hidden)
{
    const int matrix = w->route >= CKV_GPU_MMA, most = w->route == CKV_GPU_WMMA ? 128 : 256;
    const ckv_gpu_projection *packed;
    test_problem want, got;
    solve(&want, NULL, number, value_dim, hidden);
    solve(&got, w, number, value_dim, hidden);
    packed = got.projection->packed;
    assert_int_equal(packed->route, matrix && (hidden < 1024 || value_dim > most) ? w->wide : w->route);
    for (int64_t g = 0; g < want.shape.kv_heads; g++)
        for (int64_t i = 0; i < want.shape.tokens; i++)
            if (test_bits(test_norm_at(&want, g, i)) != test_bits(test_norm_at(&got, g, i)))
                fail_msg("%s %s, problem %d, dv %d, hidden %d, group %d: norm[%d,%d] is %a, wanted %a", w->backend,
                         w->name, number, (int)value_dim, (int)hidden,
                         (int)(want.shape.query_heads / want.shape.kv_heads), (int)g, (int)i,
                         (double)test_norm_at(&got, g, i), (double)test_norm_at(&want, g, i));
    assert_int_equal(want.run.flags, got.run.flags);
    test_problem_close(&want);
    test_problem_close(&got);
}

static void check(const way *w)
{
    static const int32_t dims[] = {1, 8, 31, 32, 33, 64, 65, 80, 96, 100, 127, 128, 129, 200, 256, 257, 511, 512};
    static const int32_t narrow[] = {1024, 1060, 1025}, wide[] = {1023, 7, 130};
    static int first; /* each way meets other dimensions, where there is not time for all */
    const int step = test_share(3, 2, 1);
    setenv("CKV_GPU_NORM", w->name, 1);
    for (int i = first++ % step; i < (int)(sizeof dims / sizeof dims[0]); i += step) {
        compare(w, 2 * i, dims[i], narrow[i % 3]);
        compare(w, 2 * i + 1, dims[i], wide[i % 3]);
    }
    unsetenv("CKV_GPU_NORM");
}

static void check_pretended(const way *w)
{
    if (absent != NULL)
        skip_because(absent);
    check(w);
    assert_string_equal(sim.ckv_sim_complaint(), "");
}

#define CHECK(test, ...)                                                                                               \
    static void test(void **state)                                                                                     \
    {                                                                                                                  \
        const way w = {__VA_ARGS__};                                                                                   \
        (void)state;                                                                                                   \
        check_pretended(&w);                                                                                           \
    }
/* The devices of main(), in their order there. */
CHECK(test_mma_m16n8k32, "cuda", "0", "mma", CKV_GPU_MMA, CKV_GPU_DOT4)
CHECK(test_mma_m8n8k16, "cuda", "1", "mma", CKV_GPU_MMA, CKV_GPU_DOT4)
CHECK(test_mfma_16x16x32, "hip", "0", "mfma", CKV_GPU_MFMA, CKV_GPU_DOT4)
CHECK(test_wmma, "hip", "1", "wmma", CKV_GPU_WMMA, CKV_GPU_DOT4)
CHECK(test_wmma12, "hip", "2", "wmma", CKV_GPU_WMMA12, CKV_GPU_DOT4)
CHECK(test_mfma_16x16x16, "hip", "3", "mfma", CKV_GPU_MFMA, CKV_GPU_DOT4)
CHECK(test_mfma_gfx908, "hip", "4", "mfma", CKV_GPU_MFMA, CKV_GPU_DOT4)
CHECK(test_dot4, "cuda", "1", "dot4", CKV_GPU_DOT4, CKV_GPU_DOT4)
CHECK(test_dot4_wave64, "hip", "0", "dot4", CKV_GPU_DOT4, CKV_GPU_DOT4)
CHECK(test_int, "cuda", "0", "int", CKV_GPU_INT, CKV_GPU_INT)
CHECK(test_int_wave64, "hip", "3", "int", CKV_GPU_INT, CKV_GPU_INT)

/* Kernels of the smaller instructions run where a chip has no larger ones, and nowhere else:
 * the executor counts what was issued. */
static void test_instructions(void **state)
{
    static const struct {
        way w;
        const char *issued, *other;
    } cases[] = {
        {{"cuda", "0", "mma", CKV_GPU_MMA, CKV_GPU_DOT4}, "mma_m16n8k32", "mma_m8n8k16"},
        {{"cuda", "1", "mma", CKV_GPU_MMA, CKV_GPU_DOT4}, "mma_m8n8k16", "mma_m16n8k32"},
        {{"hip", "0", "mfma", CKV_GPU_MFMA, CKV_GPU_DOT4}, "mfma_16x16x32", "mfma_16x16x16"},
        {{"hip", "3", "mfma", CKV_GPU_MFMA, CKV_GPU_DOT4}, "mfma_16x16x16", "mfma_16x16x32"},
        {{"hip", "4", "mfma", CKV_GPU_MFMA, CKV_GPU_DOT4}, "mfma_16x16x16", "mfma_16x16x32"},
        {{"hip", "1", "wmma", CKV_GPU_WMMA, CKV_GPU_DOT4}, "wmma_16x16x16", "wmma12_16x16x16"},
        {{"hip", "2", "wmma", CKV_GPU_WMMA12, CKV_GPU_DOT4}, "wmma12_16x16x16", "wmma_16x16x16"},
    };
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t issued = sim.ckv_sim_issued(cases[i].issued), other = sim.ckv_sim_issued(cases[i].other);
        compare(&cases[i].w, 3, 40, 1024);
        assert_true(sim.ckv_sim_issued(cases[i].issued) > issued);
        assert_int_equal(sim.ckv_sim_issued(cases[i].other), other);
    }
}

static void test_opencl(void **state)
{
    const way dot4 = {"opencl", "0", "dot4", CKV_GPU_DOT4, CKV_GPU_DOT4};
    const way products = {"opencl", "0", "int", CKV_GPU_INT, CKV_GPU_INT};
    (void)state;
    if (ckv_backend_opencl.device_count() == 0)
        skip_because(ckv_backend_opencl.absence());
    check(&dot4);
    check(&products);
}

/* A route of another vendor is refused, by name; without the variable the best is taken. */
static void test_choice(void **state)
{
    static const char *const wrong[] = {"mfma", "tensor"};
    static const ckv_gpu_route best[] = {CKV_GPU_MFMA, CKV_GPU_WMMA, CKV_GPU_WMMA12};
    (void)state;
    if (absent != NULL)
        skip_because(absent);
    for (int i = 0; i < 2; i++) {
        test_problem p;
        char text[100];
        draw(&p, 1, 8, 40);
        p.options.backend = "cuda";
        p.options.device = "0";
        setenv("CKV_GPU_NORM", wrong[i], 1);
        snprintf(text, sizeof text, "CKV_GPU_NORM '%s': not on this device, wanted one of: int, dot4, mma", wrong[i]);
        assert_fails(test_problem_open(&p), CKV_ERROR_UNAVAILABLE, text);
        unsetenv("CKV_GPU_NORM");
        test_problem_close(&p);
    }
    for (int i = 0; i < 3; i++) {
        const way w = {"hip", i == 0 ? "0" : i == 1 ? "1" : "2", "", best[i], CKV_GPU_DOT4};
        compare(&w, 3, 40, 1024);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma_m16n8k32),  cmocka_unit_test(test_mma_m8n8k16), cmocka_unit_test(test_mfma_16x16x32),
        cmocka_unit_test(test_mfma_16x16x16), cmocka_unit_test(test_mfma_gfx908), cmocka_unit_test(test_wmma),
        cmocka_unit_test(test_wmma12),        cmocka_unit_test(test_dot4),        cmocka_unit_test(test_dot4_wave64),
        cmocka_unit_test(test_int),           cmocka_unit_test(test_int_wave64),  cmocka_unit_test(test_opencl),
        cmocka_unit_test(test_instructions),  cmocka_unit_test(test_choice),
    };
    setenv("CKV_SIM_CUDA", "sm_90,sm_75", 1);
    setenv("CKV_SIM_HIP", "gfx942:sramecc+:xnack-,gfx1100,gfx1201,gfx90a:sramecc+:xnack-,gfx908", 1);
    absent = test_sim_load();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
