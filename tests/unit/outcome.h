/* SPDX-License-Identifier: Apache-2.0 */
/* What a problem gave on one backend, to be held against what it gave on another.  Free
 * of cmocka, as support.h is. */
#ifndef CKV_TESTS_OUTCOME_H
#define CKV_TESTS_OUTCOME_H

#include "support.h"

typedef struct test_outcome {
    uint64_t attention, norm, stages, evict, compact;
    uint32_t stage_flags, evict_flags;
    int intact; /* every red zone */
} test_outcome;

/* The three stages, compaction and the whole, of a problem that is open. */
ckv_status test_solve(test_problem *p, test_outcome *outcome);

/* Opens the problem on a backend, solves and closes it.  For the backend "cpu", isa is
 * what CKV_CPU_ISA names meanwhile, or NULL. */
ckv_status test_solve_on(test_problem *p, const char *backend, const char *isa, int32_t threads, test_outcome *outcome);

#define TEST_DIFFERENCE 160

/* 1 if all is the same; else `text` says what is not. */
int test_same(const test_outcome *want, const test_outcome *got, char text[TEST_DIFFERENCE]);

#endif
