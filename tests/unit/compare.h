/* SPDX-License-Identifier: Apache-2.0 */
/* Random problems, and what two backends made of them held against each other, in the
 * unit tests. */
#ifndef CKV_TESTS_COMPARE_H
#define CKV_TESTS_COMPARE_H

#include "outcome.h"

/* test_solve, which must succeed and leave every red zone intact. */
test_outcome test_solved(test_problem *p);

/* Fails the test and names what differs. */
void test_assert_same(const char *what, int number, test_outcome want, test_outcome got);

/* One random problem, built and filled, not opened; the same for every backend. */
void test_draw(test_problem *p, int number);

#endif
