/* SPDX-License-Identifier: Apache-2.0 */
/* Plainer numbers in the tensors of a problem that is made smaller. */
#ifndef CKV_TOOLS_VERIFY_NUMBERS_H
#define CKV_TOOLS_VERIFY_NUMBERS_H

#include "verify.h"

/* The plainest first: 1; 1, 2, 4, 8 in turn; powers of two with their sign; anything finite. */
enum verify_plainer { VERIFY_ONES, VERIFY_SMALL_INTEGERS, VERIFY_POWERS, VERIFY_FINITE, VERIFY_PLAINER };

/* Makes `length` elements plainer; false where that changes none, or only those that were 1. */
bool verify_plainer(struct verify_problem *p, enum verify_input input, int64_t first, int64_t length,
                    enum verify_plainer how);

/* As F32; false when out of memory. */
bool verify_widen(struct verify_problem *p, enum verify_input input);

/* Every tensor anew, of numbers between 1/8 and 2 in size; false when out of memory. */
bool verify_redraw(struct verify_problem *p, uint64_t seed);

#endif
