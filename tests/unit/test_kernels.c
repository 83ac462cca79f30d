/* SPDX-License-Identifier: Apache-2.0 */
/* Every instruction set of this machine against the reference at the edges of its
 * tiles, on views of every kind, with 1, 2, 3 and 7 threads: byte for byte. */
#include "unit.h"

#include <math.h>

#include "backends/cpu/kernels.h"
#include "backends/ref/ref.h"
#include "hostile.h"
#include "outcome.h"

static void test_hostile_problems(void **state)
{
    static const int32_t threads[] = {1, 2, 3, 7};
    (void)state;
    for (int number = 0; number < hostile_problems; number++) {
        char name[HOSTILE_NAME], text[TEST_DIFFERENCE];
        test_outcome want, got;
        test_problem p;
        if (test_light() && number % 3 != 0)
            continue;
        hostile_build(&p, number, name);
        assert_ok(test_solve_on(&p, "ref", NULL, 0, &want));
        for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++) {
            const ckv_cpu_kernels *kernels = ckv_cpu_kernels_list[i];
            if (!kernels->usable())
                continue;
            hostile_build(&p, number, name);
            assert_ok(test_solve_on(&p, "cpu", kernels->isa, threads[(number + i) % 4], &got));
            if (!test_same(&want, &got, text))
                fail_msg("%s, %s: %s", kernels->isa, name, text);
        }
    }
}

/* The comparison can fail: one bit of the last element shows, of each tensor. */
static void test_comparison_can_fail(void **state)
{
    char name[HOSTILE_NAME], text[TEST_DIFFERENCE];
    test_outcome want, got;
    test_problem p;
    (void)state;
    for (int t = 0; t < TEST_TENSORS; t++)
        for (int changed = 0; changed < 2; changed++) {
            hostile_build(&p, 0, name);
            for (int number = 1; strcmp(name, "tokens 65") != 0; number++) {
                test_problem_close(&p);
                hostile_build(&p, number, name);
            }
            const int64_t *shape = p.tensor[t].cells.shape;
            int64_t h = shape[0] - 1, i = t == TEST_KEY || t == TEST_VALUE ? shape[1] / 2 : shape[1] - 1,
                    c = shape[2] - 1;
            uint32_t bit = p.dtype[t] == CKV_F32 ? 1u << 22 : p.dtype[t] == CKV_F16 ? 1u << 9 : 1u << 6;
            if (changed)
                test_put_bits(&p.tensor[t], h, i, c, test_get_bits(&p.tensor[t], h, i, c) ^ bit);
            assert_ok(test_solve_on(&p, changed ? "cpu" : "ref", NULL, 2, changed ? &got : &want));
            if (changed && test_same(&want, &got, text))
                fail_msg("a bit of tensor %d makes no difference", t);
        }
}

/* The weight of a logit (spec 4.3) that is `x` above the greatest. */
static float weight_of(float x)
{
    return x < -60.0f ? 0.0f : x > -0x1p-26f ? 1.0f : ckv_ref_exp(x);
}

/* Weights and their sums where the rule changes, float by float, and in between; rows of every
 * length up to some, beyond one go of the kernels. */
static void test_weights(void **state)
{
    enum { most = 3 * 192 + 5, near = 40 };
    static const float edges[] = {-60.0f, -61.0f, -0x1p-26f, -0x1p-60f, -88.0f, -127.0f, -0x1p-126f};
    const float greatest[] = {0.0f, 0.5f, -3.0f, 0x1p30f};
    float x[most], row[most];
    (void)state;
    for (int e = 0, at = 0; e < (int)(sizeof edges / sizeof *edges); e++) {
        float above = edges[e], below = edges[e];
        for (int i = 0; i < near && at < most; i++, above = nextafterf(above, 0.0f)) {
            x[at++] = above;
            x[at++] = below = nextafterf(below, -1e9f);
        }
        for (; e + 1 == (int)(sizeof edges / sizeof *edges) && at < most; at++)
            x[at] = at % 2 == 0 ? -(float)(at % 31) * 0.37f : -0x1p80f;
    }
    for (int k = 0; ckv_cpu_kernels_list[k] != NULL; k++) {
        const ckv_cpu_kernels *kernels = ckv_cpu_kernels_list[k];
        if (!kernels->usable())
            continue;
        for (int g = 0; g < 4; g++)
            for (int count = 1; count <= most; count += count < 70 ? 1 : 61) {
                int64_t sum = 0, got;
                for (int i = 0; i < count; i++)
                    row[i] = greatest[g] + x[(i * 7 + count) % most];
                got = kernels->weights(row, count, greatest[g]);
                for (int i = 0; i < count; i++) {
                    float want = weight_of(greatest[g] + x[(i * 7 + count) % most] - greatest[g]);
                    sum += (int64_t)nearbyint(ldexp((double)want, 40));
                    if (test_bits(want) != test_bits(row[i]))
                        fail_msg("%s: weight of %a above %a is %a, not %a", kernels->isa,
                                 (double)x[(i * 7 + count) % most], (double)greatest[g], (double)row[i], (double)want);
                }
                assert_int_equal(got, sum);
            }
    }
}

/* Every problem has a name of its own kind, and some thing at stake. */
static void test_problems_are_many(void **state)
{
    int bounded = 0;
    (void)state;
    for (int number = 0; number < hostile_problems; number++) {
        char name[HOSTILE_NAME];
        test_problem p;
        hostile_build(&p, number, name);
        assert_true(strlen(name) > 5);
        bounded += p.policy.budget > 0 && p.policy.budget < p.shape.tokens;
        test_problem_close(&p);
    }
    assert_true(hostile_problems > 100 && bounded > 100);
}

/* Of every instruction set, of this machine or not: nothing is forgotten. */
static void test_tables_are_whole(void **state)
{
    (void)state;
    for (int i = 0; ckv_cpu_kernels_list[i] != NULL; i++) {
        const ckv_cpu_kernels *k = ckv_cpu_kernels_list[i];
        print_message("# %s\n", k->isa);
        assert_true(k->usable != NULL && k->load_keys != NULL && k->logits != NULL && k->greatest != NULL);
        assert_true(k->weights != NULL && k->accumulate != NULL && k->load_row != NULL && k->quantize != NULL);
        assert_true(k->norm_panel != NULL && k->bound_rows != NULL && k->rank != NULL && k->score != NULL);
        assert_true(k->gather != NULL && k->keep != NULL);
        assert_in_range(k->query_rows, 1, CKV_CPU_ROWS_MAX);
        assert_in_range(k->norm_step, 1, CKV_CPU_STEP_MAX);
        assert_true(k->norm_weight_size == 2 || (k->norm_weight_size == 1 && k->norm_wide != NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_problems), cmocka_unit_test(test_comparison_can_fail),
        cmocka_unit_test(test_weights),          cmocka_unit_test(test_problems_are_many),
        cmocka_unit_test(test_tables_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
