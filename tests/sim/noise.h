/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded numbers, and memory that nobody has written yet. */
#ifndef CKV_TESTS_SIM_NOISE_H
#define CKV_TESTS_SIM_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* xorshift64*: the state of a seed, and the next number. */
uint64_t ckv_sim_spread(uint64_t seed);
uint64_t ckv_sim_next(uint64_t *state);

/* Fills memory with noise and, where valgrind or MemorySanitizer looks on, marks it as
 * never written. */
void ckv_sim_forget(void *memory, size_t bytes, uint64_t seed);

#endif
