/* SPDX-License-Identifier: Apache-2.0 */
/* Every instruction set of this machine against the reference at the edges of its
 * tiles, on views of every kind, with 1, 2, 3 and 7 threads: byte for byte. */
#include "unit.h"

#include "backends/cpu/kernels.h"
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
        cmocka_unit_test(test_hostile_problems),
        cmocka_unit_test(test_comparison_can_fail),
        cmocka_unit_test(test_problems_are_many),
        cmocka_unit_test(test_tables_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
