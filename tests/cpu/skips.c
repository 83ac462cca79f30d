/* SPDX-License-Identifier: Apache-2.0 */
/* The kept set with norms left out against that with every norm, on the instruction set
 * that CKV_CPU_ISA names; says how many norms there were.  Without cmocka, for machines
 * that are emulated. */
#include <stdio.h>

#include "tests/unit/support.h"

static int solve(int number, int32_t skip, uint64_t *kept, int64_t *exact, int64_t *rows)
{
    test_problem p;
    test_random r = test_seed((uint64_t)number + 1);
    int good;
    test_problem_init(&p, 2, (int32_t)test_between(&r, 1, 4), test_between(&r, 150, 250), 8, 16,
                      (int32_t)test_between(&r, 5, 40), number % 2 == 0 ? 600 : 1100);
    p.options.backend = "cpu";
    p.options.threads = 1;
    p.policy.skip = skip;
    p.policy.recent = 4;
    p.policy.keep = (ckv_ratio){test_between(&r, 1, 4), 10};
    p.low[TEST_QUERY] = p.high[TEST_QUERY] = 1;
    for (int t = 0; t < TEST_TENSORS; t++) {
        p.dtype[t] = (ckv_dtype)test_between(&r, CKV_F32, CKV_BF16);
        p.layout[t] = (test_layout)test_between(&r, 0, TEST_LAYOUTS - 1);
    }
    test_problem_build(&p);
    test_problem_randomize(&p, (uint64_t)number);
    good = test_problem_open(&p) == CKV_OK && test_evict(&p) == CKV_OK;
    if (good) {
        *kept = test_hash_selection(&p);
        *exact += p.run.exact_norms;
        *rows += p.shape.kv_heads * p.shape.tokens;
    } else {
        printf("problem %d: %s\n", number, ckv_error_detail());
    }
    test_problem_close(&p);
    return good;
}

int main(void)
{
    int64_t exact[2] = {0, 0}, rows[2] = {0, 0};
    for (int number = 0; number < 12; number++) {
        uint64_t kept[2] = {0, 0};
        for (int32_t skip = 0; skip < 2; skip++)
            if (!solve(number, skip, &kept[skip], &exact[skip], &rows[skip]))
                return 1;
        if (kept[0] != kept[1]) {
            printf("problem %d: the kept set differs\n", number);
            return 1;
        }
    }
    printf("%lld norms of %lld\n", (long long)exact[1], (long long)rows[1]);
    return exact[0] == rows[0] && exact[1] < rows[1] * 3 / 4 ? 0 : 1;
}
