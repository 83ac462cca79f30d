/* SPDX-License-Identifier: Apache-2.0 */
/* Random problems for comparing backends, in cmocka programs. */
#ifndef CKV_TESTS_DRAW_H
#define CKV_TESTS_DRAW_H

#include "outcome.h"

/* Random problem `number`, built; the same for every backend. */
void test_draw(test_problem *p, int number);

/* Solves an opened problem; the test fails where that does. */
test_outcome test_solved(test_problem *p);
void test_expect_same(const char *what, int number, test_outcome want, test_outcome got);

#endif
