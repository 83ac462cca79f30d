/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed problems, whose results are in tests/golden/reference.txt.  Made by integers
 * alone, so that they are the same on every machine. */
#ifndef CKV_TESTS_GOLDEN_H
#define CKV_TESTS_GOLDEN_H

#include "support.h"

extern const int golden_count;

/* Makes problem `index`, opened and not yet run. */
void golden_open(int index, test_problem *p);

/* Writes line `index` of the record, without a line end: problem `index`, and after
 * all of them the exponential over its range. */
#define GOLDEN_LINE 128
#define golden_lines (golden_count + 1)
void golden_line(int index, char line[GOLDEN_LINE]);

/* 1 for a line that takes long where programs run slowly: CKV_TEST_LIGHT leaves it out. */
int golden_is_long(int index);

#endif
