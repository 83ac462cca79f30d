/* SPDX-License-Identifier: Apache-2.0 */
/* Problems at the edges of every kernel's tiles, and in memory laid out as badly as the
 * interface allows; the same numbers everywhere.  Free of cmocka, as support.h is. */
#ifndef CKV_TESTS_HOSTILE_H
#define CKV_TESTS_HOSTILE_H

#include "support.h"

#define HOSTILE_NAME 64

extern const int hostile_problems;

/* Builds problem `number` of them, for the caller to open on any backend; `name` says
 * what is special about it. */
void hostile_build(test_problem *p, int number, char name[HOSTILE_NAME]);

#endif
