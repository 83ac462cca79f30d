/* SPDX-License-Identifier: Apache-2.0 */
/* std::nth_element and std::sort for C. */
#ifndef CKV_BENCH_NTH_ELEMENT_H
#define CKV_BENCH_NTH_ELEMENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct scored {
    float score;
    int32_t position;
};

/* Moves the `count` best of n to the front, in any order: the greater score first, then
 * the lower position. */
void nth_element_best(struct scored *entries, int64_t n, int64_t count);

void sort_positions(int32_t *positions, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
