/* SPDX-License-Identifier: Apache-2.0 */
/* Loops for 512-bit vectors; INTEGER(i) is the integer step on the accumulator a##i. */
#include "isa_loops.h"

#include <immintrin.h>

#define EACH(DO)                                                                                                       \
    DO(0)                                                                                                              \
    DO(1)                                                                                                              \
    DO(2)                                                                                                              \
    DO(3)                                                                                                              \
    DO(4)                                                                                                              \
    DO(5)                                                                                                              \
    DO(6)                                                                                                              \
    DO(7)                                                                                                              \
    DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define ACCUMULATORS 24

#define FMA(i) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(a##i) : "v"(x), "v"(y));
#define START_FMA(i) __m512 a##i = _mm512_set1_ps((float)(i));

static void fma_rounds(int64_t rounds)
{
    const __m512 x = _mm512_set1_ps(0.75f), y = _mm512_set1_ps(-0.25f);
    EACH(START_FMA)

    for (int64_t i = 0; i < rounds; i++) {
        EACH(FMA)
    }
}

#define START_INTEGER(i) __m512i a##i = _mm512_set1_epi32(i);

static void integer_rounds(int64_t rounds)
{
    const __m512i x = _mm512_set1_epi32(77 * 65537), y = _mm512_set1_epi32(3 * 65537);
    EACH(START_INTEGER)

    for (int64_t i = 0; i < rounds; i++) {
        EACH(INTEGER)
    }
}
