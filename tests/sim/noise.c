/* SPDX-License-Identifier: Apache-2.0 */
/* See noise.h. */
#include "noise.h"

#include <string.h>

#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define NOISE_VALGRIND 1
#endif
#endif
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define NOISE_MSAN 1
#endif
#endif

uint64_t ckv_sim_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

uint64_t ckv_sim_spread(uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
    if (state == 0)
        state = 1;
    for (int i = 0; i < 8; i++)
        ckv_sim_next(&state);
    return state;
}

void ckv_sim_forget(void *memory, size_t bytes, uint64_t seed)
{
    uint64_t state = ckv_sim_spread(seed);
    unsigned char *to = memory;
    for (size_t at = 0; at < bytes; at += sizeof state) {
        const uint64_t word = ckv_sim_next(&state);
        memcpy(to + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
    }
#ifdef NOISE_VALGRIND
    (void)VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes);
#endif
#ifdef NOISE_MSAN
    __msan_allocated_memory(memory, bytes);
#endif
}
