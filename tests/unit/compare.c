/* SPDX-License-Identifier: Apache-2.0 */
/* See compare.h. */
#include "compare.h"

#include "unit.h"

test_outcome test_solved(test_problem *p)
{
    test_outcome o;
    assert_ok(test_solve(p, &o));
    assert_true(o.intact);
    return o;
}

void test_assert_same(const char *what, int number, test_outcome want, test_outcome got)
{
    char text[TEST_DIFFERENCE];
    if (!test_same(&want, &got, text))
        fail_msg("problem %d, %s: %s", number, what, text);
}

/* Sizes around the tiles of every kernel (4, 6, 8, 12, 16, 64, 96), and any others. */
static int64_t size(test_random *r, int64_t most)
{
    static const int64_t tiles[] = {4, 6, 8, 12, 16, 64, 96, 128};
    int64_t n = tiles[test_between(r, 0, 7)] * test_between(r, 1, 3) + test_between(r, -1, 1);
    if (test_between(r, 0, 1) == 0)
        n = test_between(r, 1, most);
    return n > most ? most : n;
}

void test_draw(test_problem *p, int number)
{
    static const int ranges[][2] = {{-4, 1}, {-4, 1}, {-12, 3}, {-45, 45}, {-126, 127}, {-3, -3}};
    test_random r = test_seed((uint64_t)(number * 7919 + 11));
    int32_t group = (int32_t)test_between(&r, 1, 8), heads = (int32_t)test_between(&r, 1, 3);
    int wide = number % 16 == 0; /* weights of 7 bits */
    test_problem_init(p, heads, group, size(&r, number % 8 == 0 ? 700 : 150), size(&r, 70), (int32_t)size(&r, 130),
                      (int32_t)size(&r, wide ? 20 : 140), wide ? 1024 + (int32_t)size(&r, 40) : (int32_t)size(&r, 150));
    for (int t = 0; t < TEST_TENSORS; t++) {
        const int *range = ranges[test_between(&r, 0, 5)];
        p->dtype[t] = (ckv_dtype)test_between(&r, CKV_F32, CKV_BF16);
        p->layout[t] = (test_layout)test_between(&r, 0, TEST_LAYOUTS - 1);
        p->low[t] = range[0];
        p->high[t] = range[1];
    }
    p->policy.budget = test_between(&r, 0, p->shape.tokens);
    p->policy.alpha = (ckv_ratio){test_between(&r, 0, 4), 4};
    p->policy.window = (int32_t)test_between(&r, 1, 40);
    p->policy.recent = (int32_t)test_between(&r, -1, 10);
    p->policy.sinks = (int32_t)test_between(&r, 0, 5);
    p->policy.pool = (ckv_pool)test_between(&r, 0, 2);
    p->policy.pool_width = (int32_t)test_between(&r, 1, 9);
    if (test_between(&r, 0, 3) == 0)
        p->policy.epsilon = 0x1p-24f;
    test_problem_build(p);
    test_problem_randomize(p, (uint64_t)number + 1);
    if (number % 5 == 0) /* NaN and infinity somewhere */
        for (int t = 0; t < TEST_TENSORS; t++) {
            static const uint32_t f32[] = {0x7fc00001u, 0xff800000u}, f16[] = {0x7e01u, 0xfc00u},
                                  bf16[] = {0x7fc1u, 0xff80u};
            const uint32_t *bits = p->dtype[t] == CKV_F32 ? f32 : p->dtype[t] == CKV_F16 ? f16 : bf16;
            const int64_t *shape = p->tensor[t].cells.shape;
            if (test_between(&r, 0, 1) == 0)
                test_put_bits(&p->tensor[t], test_between(&r, 0, shape[0] - 1), test_between(&r, 0, shape[1] - 1),
                              test_between(&r, 0, shape[2] - 1), bits[test_between(&r, 0, 1)]);
        }
}
