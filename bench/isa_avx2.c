/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 and FMA.  The instructions are in assembly, one statement each, so that the
 * compiler neither removes nor reorders what it cannot see into; it only finds registers. */
#include "backends/cpu/optimize.h"

#include "isa_loops.h"

#include <immintrin.h>

static int usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#define EACH_OF_12(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define EACH_OF_10(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9)

#define FMA(i) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(a##i) : "x"(x), "x"(y));
#define START_FMA(i) __m256 a##i = _mm256_set1_ps((float)(i));

static void fma_rounds(int64_t rounds)
{
    const __m256 x = _mm256_set1_ps(0.75f), y = _mm256_set1_ps(-0.25f);
    EACH_OF_12(START_FMA)

    for (int64_t i = 0; i < rounds; i++) {
        EACH_OF_12(FMA)
    }
}

#define INTEGER(i)                                                                                                     \
    __asm__ volatile("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0" : "+x"(a##i), "=&x"(product) : "x"(x), "x"(y));
#define START_INTEGER(i) __m256i a##i = _mm256_set1_epi32(i);

static void integer_rounds(int64_t rounds)
{
    const __m256i x = _mm256_set1_epi16(77), y = _mm256_set1_epi16(-3);
    __m256i product;
    EACH_OF_10(START_INTEGER)

    for (int64_t i = 0; i < rounds; i++) {
        EACH_OF_10(INTEGER)
    }
}

const struct isa isa_avx2 = {
    .name = "avx2",
    .usable = usable,
    .fma_name = "vfmadd231ps ymm",
    .integer_name = "vpmaddwd + vpaddd ymm",
    .fma_macs = 12 * 8,
    .integer_macs = 10 * 16,
    .fma = fma_rounds,
    .integer = integer_rounds,
    ISA_LOOPS,
};
