/* SPDX-License-Identifier: Apache-2.0 */
/* Random problems and what a backend made of them, for comparing backends. */
#ifndef CKV_TESTS_OUTCOME_H
#define CKV_TESTS_OUTCOME_H

#include "support.h"

/* Hashes of what a problem gave, by stages and as a whole. */
typedef struct test_outcome {
    uint64_t attention, norm, stages, evict;
    uint32_t stage_flags, evict_flags;
} test_outcome;

/* Of an opened problem: the stages in turn, then the whole. */
test_outcome test_solve(test_problem *p);
/* Fails the test unless both are equal in everything. */
void test_same(const char *what, int number, test_outcome want, test_outcome got);

/* Random problem `number`, built; the same for every backend. */
void test_draw(test_problem *p, int number);

#endif
